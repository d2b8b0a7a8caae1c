//! Breaches of the protocol by the peer.

use thiserror::Error;

use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::HeaderError;

/// Breach of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Breach {
    /// A frame without a valid header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A message longer than any may be.
    #[error("a message of {0} bytes; {MESSAGE_BYTES_MAX} is the most")]
    TooLong(u32),
    /// A frame that does not continue the message before it.
    #[error("a frame of another message within message {0}")]
    Mismatch(u64),
    /// A frame with fewer or more data than its message has at that place.
    #[error("a frame with {found} bytes of data in place of {expected}")]
    FragmentLength {
        /// Bytes of the frame's data.
        found: usize,
        /// Bytes that it should have.
        expected: usize,
    },
    /// A congestion map of another size.
    #[error("a congestion map of {0} bytes")]
    MapLength(u32),
}
