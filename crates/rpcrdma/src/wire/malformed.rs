//! Defects of a header.

/// Defect of a header's body. A responder answers each with ERR_CHUNK (RFC 8166 §4.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// The header ends early, or a discriminator is neither 0 nor 1.
    #[error("incomplete header")]
    Cut,
    /// The procedure is unknown, or is RDMA_MSGP, which the RFC withdrew.
    #[error("unknown procedure")]
    Procedure,
    /// A chunk, or the read list, has too many segments.
    #[error("too many RDMA segments")]
    Segments,
    /// The write list has too many chunks.
    #[error("too many write chunks")]
    Chunks,
    /// A chunk has too many bytes.
    #[error("chunk too long")]
    Bytes,
    /// A read chunk is not where an XDR item can be, or the chunk of a long call is missing.
    #[error("wrong position of a read chunk")]
    Position,
    /// The RPC message is too short to be one.
    #[error("no RPC message")]
    Message,
}
