//! A subnet manager and administrator: it finds what a fabric is made of, gives every port its LID, computes forwarding
//! tables, brings the links up, and answers the questions of hosts. Values in, values out: time is passed in, and whoever
//! owns a port carries the datagrams, the files and the processors.
#![forbid(unsafe_code)]

pub mod dump;
pub mod fuzzing;
pub mod graph;
pub mod handover;
pub mod io;
pub mod manager;
pub mod multicast;
pub mod options;
pub mod parallel;
pub mod partition;
pub mod qos;
pub mod routing;
pub mod sa;
pub mod subnet;
pub mod sweep;
pub mod tables;
#[cfg(test)]
mod testing;

pub use graph::Graph;
pub use parallel::{Parallel, Sequential};
pub use subnet::Subnet;
pub use tables::Tables;
