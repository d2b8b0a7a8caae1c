//! Received messages.

/// Message of the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// The data.
    pub payload: Vec<u8>,
}
