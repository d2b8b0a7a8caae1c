//! SOCK_STREAM: a reliable connection, with the data path in the calling threads.
//!
//! One lock guards a stream's state ([`Core`]); calls hold it while they copy and post, never while they wait. Two more
//! locks keep the bytes of a call together when several threads send, or receive, at the same time.

pub(crate) mod connect;
pub(crate) mod endpoint;
pub(crate) mod iomap;
mod mappings;
pub(crate) mod option;
mod progress;
pub(crate) mod receive;
pub(crate) mod send;
mod sent_messages;
mod socket;
mod work;

pub(crate) use socket::{Core, Stream};
