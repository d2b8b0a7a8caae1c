//! Limits of an endpoint and of a pool.

/// Requests posted to a queue pair's send queue at a time; later ones wait in memory.
pub const SEND_DEPTH: usize = 256;
/// SENDs that wait for the peer. A peer that causes more has stopped receiving, and is disconnected.
pub const SENDS_WAITING_MAX: usize = 1024;
/// Unused registered memory that a pool keeps, in bytes.
pub const POOL_KEEPS_MAX: usize = 32 << 20;
/// Connection requests that wait while a service is busy.
pub const BACKLOG: i32 = 64;
/// Clients of an NBD server at a time.
pub const NBD_CLIENTS_MAX: usize = 64;
