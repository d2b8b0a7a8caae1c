//! A subnet manager and administrator: it discovers a fabric, assigns a LID to every port, computes forwarding tables,
//! brings the links up, and answers the queries of hosts. The crate does no I/O: the caller passes in the time, and
//! owns the port, the files and the threads.
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
