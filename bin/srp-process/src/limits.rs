//! Bounds on everything that a peer may ask for, besides those of `weft-srp` and `weft-rdma-service`.

/// Connections at a time, unless an option says otherwise: each is a channel, and has about a mebibyte of receives.
pub const CONNECTIONS: usize = 64;
/// Highest number of connections that the option takes.
pub const CONNECTIONS_MAX: usize = 4096;
/// RDMA READs in progress on one connection.
pub const READS_IN_PROGRESS: u8 = 16;
/// Memory of one connection for data, in bytes. Later commands wait; one always fits.
pub const DATA_MEMORY_MAX: usize = 16 << 20;
