//! Reasons to end a connection: a peer that breaks the protocol in a way that no message answers.

use crate::wire::HeaderError;

/// Misbehaviour of the peer. The owner ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerFault {
    /// The peer has more calls unanswered than it has credits.
    #[error("more calls than credits")]
    Credits,
    /// A requester cannot answer a malformed message.
    #[error("malformed message: {0}")]
    Header(#[from] HeaderError),
    /// A reply has a read list, or returns other chunks, or longer ones, than the call offered.
    #[error("the reply returns chunks that the call did not offer")]
    Chunks,
    /// The message behind a reply's header is another call's, or is missing.
    #[error("the reply's header and message disagree")]
    Message,
    /// The peer invalidated a key that the call did not offer, or was not asked to invalidate any.
    #[error("a key was invalidated that the call did not offer")]
    Invalidation,
}
