//! NBD (network block device), the server's end of one connection: fixed newstyle negotiation and simple replies
//! (doc/proto.md of the NBD project). Bytes in, bytes out: the owner has the socket, and executes the requests.
//!
//! - [`Export`] is a disk that clients may use;
//! - [`Connection`] is a client's connection;
//! - [`Request`] is a command for the owner, already checked against the export, and [`Reply`] the data for its answer. Data is not
//!   copied on its way: the owner appends that of a WRITE to its [`Connection::payload`], and sends that of a READ from where it lies
//!   ([`Transmit`]).
#![forbid(unsafe_code)]

mod connection;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod input;
pub mod limits;
mod negotiation;
mod output;
mod reply;
mod request;
mod wire;

pub use connection::{Connection, Event};
pub use export::Export;
pub use output::Transmit;
pub use reply::{Reply, ReplyData};
pub use request::{Command, ErrorCode, Request, RequestId};
