//! The rsocket protocol as values: connection data, immediates and memory written by the peer, and the arithmetic of
//! buffers and credits. Nothing here makes calls, so all of it is tested without a device (`tests/rsocket_proto.rs`
//! compiles this folder alone).
//!
//! A stream is a reliable connection. Each side lends the other its receive buffer in halves, and writes the address of
//! each freed half into a short list in the other's memory (the target SGL). Data is an RDMA write with an immediate
//! into the current half; the immediate carries its length. Credits count receive requests.

pub mod config;
pub mod connect_data;
pub mod credits;
pub mod datagram;
pub mod inbound;
pub mod message;
pub mod outbound;
pub mod sge;
pub mod state;
