//! Limits of a connection, of a header and of a message.

/// TCP and RDMA CM port of NFS over RDMA (RFC 8267).
pub const NFS_PORT: u16 = 20049;

/// Inline threshold of a peer that announces none (RFC 8166 §3.3.2), in bytes.
pub const INLINE_DEFAULT_BYTES: usize = 1024;
/// Inline threshold that Weft announces, in bytes. Linux announces as much.
pub const INLINE_PREFERRED_BYTES: usize = 4096;
/// Highest inline threshold that a peer can announce (RFC 8797), in bytes.
pub const INLINE_MAX_BYTES: usize = 256 * 1024;

/// RDMA segments in a read list.
pub const READ_SEGMENTS_MAX: usize = 256;
/// Chunks in a write list: one for each READ of a COMPOUND.
pub const WRITE_CHUNKS_MAX: usize = 16;
/// RDMA segments in a write chunk or a reply chunk.
pub const CHUNK_SEGMENTS_MAX: usize = 256;

/// Longest RPC message, and longest chunk, in bytes: 4 MiB of data, which is Linux's largest `rsize`, and what stands
/// around it.
pub const MESSAGE_MAX_BYTES: usize = (4 << 20) + (64 << 10);

/// Calls that one peer may have unanswered at a time. Linux's client asks for 128.
pub const CREDITS_MAX: u32 = 1024;
/// Credits before the first reply (RFC 8166 §3.3.3).
pub const CREDITS_INITIAL: u32 = 1;
/// Backchannel calls that one peer may have unanswered at a time. Linux's number is as small.
pub const BACKCHANNEL_CREDITS: u32 = 2;

/// Operations of a COMPOUND in which eligible data is looked for.
pub const COMPOUND_OPERATIONS_MAX: u32 = 64;
/// Longest path of a symbolic link that a requester expects, in bytes.
pub const PATH_MAX_BYTES: u32 = 4096;
