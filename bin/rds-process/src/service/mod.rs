//! The service: one process of a user in a network namespace. It has the listener and the connections to other hosts, and hands
//! datagrams to programs and on to peers.
//!
//! - `server` is the loop;
//! - `program` is a program's socket;
//! - `link` is a connection's queue pair.

mod link;
mod program;
mod server;

pub use server::{Lifetime, Server};
