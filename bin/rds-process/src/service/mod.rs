//! The service: one process of a user in a network namespace. It has the listener and the connections to other hosts, and hands
//! datagrams to programs and on to peers.
//!
//! - `server` is the loop;
//! - `program` is a program's socket;
//! - `link` is a connection's queue pair;
//! - `memory` is what programs offer to peers, and the memory of their operations;
//! - `operations` answers programs that offer memory, and carries out their operations.

mod link;
mod memory;
mod operations;
mod program;
mod server;

pub use server::{Lifetime, Server};
