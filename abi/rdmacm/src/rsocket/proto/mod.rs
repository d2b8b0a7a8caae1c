//! The rsocket protocol as values: what travels in connection data, immediates and written memory, and the arithmetic
//! of buffers and credits. Nothing here calls anything, so all of it is tested without a device
//! (`tests/rsocket_proto.rs` compiles this folder alone).
//!
//! A stream is a reliable connection. Each side lends the other its receive buffer in halves, and writes the address of
//! a half that has become free into a short list in the other's memory (the target SGL). Data is an RDMA write with an
//! immediate into the half at hand; the immediate carries its length. Receive requests are counted in credits.

pub mod config;
pub mod connect_data;
pub mod credits;
pub mod datagram;
pub mod inbound;
pub mod message;
pub mod outbound;
pub mod sge;
pub mod state;
