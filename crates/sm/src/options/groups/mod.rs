//! The options, group by group, as they stand in the file.

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

/// The path of a file that stands in the manager's own directory, unless told otherwise.
fn own(name: &str) -> Option<String> {
    Some(format!("{}/{name}", super::DIRECTORY))
}
