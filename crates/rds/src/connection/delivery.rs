//! Received messages.

use crate::rdma::Cookie;

/// Message of the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// The data.
    pub payload: Vec<u8>,
    /// Key of the memory of this host that the peer has used before.
    pub used_key: Option<u32>,
    /// Memory of the peer that the receiver may use.
    pub cookie: Option<Cookie>,
}
