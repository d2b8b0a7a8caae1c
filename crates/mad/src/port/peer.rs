//! Addresses of datagrams, which the caller defines.

/// Address of a datagram's other end. The address of a received datagram also routes the reply.
pub trait Peer: Clone {
    /// Returns whether both addresses name the same other end.
    fn same_end(&self, other: &Self) -> bool;
}
