//! The options by group, in the order of the file.

pub mod congestion;
pub mod device;
pub mod handover;
pub mod log;
pub mod misc;
pub mod partitions;
pub mod perfmgr;
pub mod qos;
pub mod routing;
pub mod sweep;
pub mod timing;

/// Default path of a file in the manager's own directory.
fn own(name: &str) -> Option<String> {
    Some(format!("{}/{name}", super::DIRECTORY))
}
