//! The attributes of a device that `ibv_devinfo` prints, and how it prints them.

mod names;
mod report;
mod text;
mod verbose;

pub use names::gid as gid_text;
pub use report::{DeviceReport, PortReport};
pub use text::{json, list_text, text};
