//! Addresses of servers, and the size of a message.

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 64;

/// Address of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// LID of its port.
    pub lid: u16,
    /// Number of its queue pair.
    pub qpn: u32,
}
