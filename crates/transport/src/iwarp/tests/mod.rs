//! Tests of the service: operations, errors, ends.

mod ends;
mod errors;
mod operations;
mod pair;
mod waits;

use pair::{StreamPair, fpdu, params};
