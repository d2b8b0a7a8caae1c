//! Circles of files inside a crate: files that need each other, directly or by others, so that none can be read first.
//!
//! `cargo xtask counts` prints how many files stand in circles, `cargo xtask counts --circles` lists them, and
//! `cargo xtask lint` refuses new ones.

mod crates;
mod graph;
mod imports;
mod limits;
mod tokens;

pub use crates::{by_crate, print};
pub use limits::breaches;
