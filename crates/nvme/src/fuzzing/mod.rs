//! Fuzz targets: capsules of a host, and a target's answers.

mod host;
mod target;

pub use host::host;
pub use target::{configuration, target};
