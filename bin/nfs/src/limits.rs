//! Bounds on everything that a peer may ask for.

use std::time::Duration;

/// Connections at a time, unless an option says otherwise: each has about a mebibyte of posted receives and sends.
pub const CONNECTIONS: usize = 64;
/// Highest number of connections that the option takes.
pub const CONNECTIONS_MAX: usize = 4096;
/// Time without a call after which a client is disconnected: it may have died without a word, and a live one connects
/// again when it needs to. Linux's client gives up idle connections itself, after five minutes.
pub const IDLE_MAX: Duration = Duration::from_secs(15 * 60);
/// Calls that a client may have unanswered, unless an option says otherwise. Linux's client asks for as many.
pub const CREDITS: u32 = 128;
/// Connection requests that wait while the server is busy.
pub const BACKLOG: i32 = 64;

/// Requests posted to a queue pair's send queue at a time; later ones wait in memory.
pub const SEND_DEPTH: usize = 256;
/// SENDs that wait for the peer, besides the replies to its calls: answers to malformed messages, and backchannel calls.
/// A peer that causes more has stopped receiving, and is disconnected.
pub const SENDS_WAITING_MAX: usize = 1024;
/// RDMA READs in progress on one connection.
pub const READS_IN_PROGRESS: u8 = 16;

/// Memory of one connection for calls whose arguments the client offers as chunks, in bytes: 16 calls of Linux's largest
/// usual `wsize`.
pub const CALL_MEMORY_MAX: usize = 16 << 20;
/// Memory of one connection for replies with data, in bytes. Later calls wait; one always fits.
pub const REPLY_MEMORY_MAX: usize = 16 << 20;
/// Unused registered memory that a connection keeps, in bytes.
pub const POOL_KEEPS_MAX: usize = 32 << 20;

/// Bytes that the embedded server reads or writes in one call.
pub const TRANSFER_MAX: u32 = 1 << 20;
/// Bytes of entries in one reply about a directory.
pub const DIRECTORY_MAX: usize = 1 << 20;
/// Bytes at the start of a call that hold its arguments, except for the data of WRITE: two names, a path of 4 KiB and the
/// longest credentials fit.
pub const HEAD_MAX: usize = 8 << 10;

/// Files whose place in the tree is remembered. Beyond them all are forgotten, and found again by their handles.
pub const PLACES_MAX: usize = 1 << 18;
/// Directory entries looked at to find the file of one handle.
pub const SEARCH_MAX: usize = 100_000;
/// Files kept open between calls.
pub const OPEN_FILES_MAX: usize = 64;
/// Time that an unused file stays open.
pub const OPEN_FOR: Duration = Duration::from_secs(5);
/// Replies to calls that must not run twice, kept for clients that repeat them on a new connection.
pub const REPLIES_KEPT_MAX: usize = 1024;

/// Lines about one client's refused messages, so that it cannot fill the log.
pub const COMPLAINTS_MAX: u32 = 20;

/// Connections to the port of MOUNT at a time.
pub const MOUNT_CONNECTIONS_MAX: usize = 16;
/// Time that a connection to the port of MOUNT may be silent.
pub const MOUNT_IDLE: Duration = Duration::from_secs(10);
/// Longest record of MOUNT, in bytes.
pub const MOUNT_RECORD_MAX: usize = 4096;

/// Time limit for a connection to the backend.
pub const BACKEND_CONNECTS_WITHIN: Duration = Duration::from_secs(10);
/// Backchannel calls of a backend that wait for a credit of the client.
pub const BACKCHANNEL_WAITING_MAX: usize = 64;
