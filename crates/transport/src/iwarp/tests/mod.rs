//! Tests of the service: operations, errors, ends.

mod ends;
mod errors;
mod operations;
mod pair;

use pair::{StreamPair, fpdu, params};
