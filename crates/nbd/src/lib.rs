//! NBD (network block device), the server's end of one connection: fixed newstyle negotiation and simple replies
//! (doc/proto.md of the NBD project). Bytes in, bytes out: the owner has the socket, and executes the requests.
//!
//! - [`Export`] is a disk that clients may use;
//! - [`Connection`] is a client's connection;
//! - [`Request`] is a command for the owner, already checked against the export.
#![forbid(unsafe_code)]

mod connection;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod input;
pub mod limits;
mod negotiation;
mod output;
mod request;
mod wire;

pub use connection::{Connection, Event};
pub use export::Export;
pub use request::{Command, ErrorCode, Request, RequestId};
