//! Tests of the service: operations, errors, ends.

mod ends;
mod errors;
mod operations;
mod pair;
mod rings;
mod waits;

use pair::{StreamPair, fpdu, params};
