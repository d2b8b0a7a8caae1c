//! Fuzz targets: a target with initiators that send anything, an initiator whose target does, and a device management agent.

mod device_management;
mod initiator;
mod target;

pub use device_management::device_management;
pub use initiator::initiator;
pub use target::{BLOCKS, IMMEDIATE_AT, PORT, configuration, login, target};
