//! iWARP's connection manager for one network namespace: what Linux's `iw_cm` and a provider's part of it do. A connection
//! is a TCP connection until both ends have negotiated it (MPA); then its socket goes to the process that has the queue
//! pair, and this side hears of it again when it ends.
//!
//! ```text
//!   rdma_cm:  connect, accept, reject, close        poll_event -> (connection, Event)
//!                     |                                  ^
//!                     v                                  |
//!               +---------------------------------------------+
//!               |  Cm: connections, their negotiations         |
//!               +---------------------------------------------+
//!                     |                                  ^
//!                     v                                  |
//!               poll_request -> SocketRequest       handle_connected, handle_accepted, handle_bytes,
//!                                                   handle_closed, handle_stream_ended
//! ```
//!
//! Values in, values out: the owner has the sockets. It executes every request of [`Cm::poll_request`] in order after each
//! call that takes `&mut self`.

mod cm;
mod conn;
mod event;
pub mod limits;
mod options;
mod phase;
#[cfg(test)]
mod tests;
mod twins;

pub use cm::{Cm, ConnectParams};
pub use conn::ConnId;
pub use event::{Event, SocketRequest};
pub use options::MpaOptions;
pub use phase::Phase;
pub use weft_iwarp::{Rtr, StreamParams};
