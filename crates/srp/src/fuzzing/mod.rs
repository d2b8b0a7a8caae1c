//! Fuzz targets: a target with initiators that send anything, and an initiator whose target does.

mod initiator;
mod target;

pub use initiator::initiator;
pub use target::{BLOCKS, IMMEDIATE_AT, PORT, configuration, login, target};
