//! Limits of an endpoint, a pool and a store.

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
/// Lines about one connection's failed commands, or about one file's errors, so that a peer cannot fill the log.
pub const COMPLAINTS_MAX: u32 = 20;
/// Bytes that a thread writes at a time where a file system cannot set ranges.
pub const ZEROES_BYTES: usize = 64 << 10;
