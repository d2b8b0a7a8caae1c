//! Embedded NFSv3 server (RFC 1813): a directory of this machine, for calls that arrive in any way.
//!
//! - `tree` turns handles into files, `handle` is their form;
//! - `exported` is the directory with what is kept between calls, `execute` reads a call's program;
//! - `nfs3` has the table of procedures, `files`, `names`, `listing` and `volume` execute them;
//! - `mount` is the protocol that gives out the first handle, `mount_port` its TCP port;
//! - `identity` is the user of an access, `open_files` and `replies` are what is kept between calls;
//! - `calls` starts the threads.
//!
//! Crates exist for the protocol. Their XDR allocates as much as a length field says, before any byte of it arrived, and
//! their servers insist on a TCP port, which would bypass what the RDMA side enforces.

mod attributes;
mod calls;
mod execute;
mod exported;
mod files;
mod handle;
mod identity;
mod listing;
mod message;
mod mount;
mod mount_port;
mod names;
mod nfs3;
mod open_files;
mod outcome;
mod replies;
mod rpc;
mod tree;
mod volume;

pub use calls::{CallWorkers, start_workers};
pub use exported::{Export, ExportOptions};
pub use message::{CallBytes, Done, Job, ReplyBytes};
pub use mount_port::MountPort;

#[cfg(test)]
mod tests;
