//! Configuration: from the command line, or from a file in nvmetcli's format.

mod nvmetcli;
mod setup;

pub use setup::{Listen, Setup, Stores, setup};
