//! Limits of an endpoint, a pool, a store, and of processes in the background.

use std::time::Duration;

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
/// Longest data of an NBD reply, in bytes, that is copied out of lent memory, and behind the reply's header: the copies cost less than
/// a system call and a wake-up of the client for each of them, and less than memory that is held.
pub const COPIED_REPLY_MAX: usize = 32 << 10;
/// Memory of one connection that data of ended loans holds, in bytes, until clients have taken it. More data is copied.
pub const HELD_BYTES_MAX: usize = 32 << 20;
/// Pieces of a reply's data that are sent one by one; more are copied together.
pub const PIECES_SENT_MAX: usize = 256;
/// Data of requests that are in progress for NBD clients that have gone, in bytes; above it no client is accepted.
pub const ORPHAN_BYTES_MAX: usize = 256 << 20;
/// Bytes for which each of them counts at least: a request without data takes memory, too.
pub const ORPHAN_BYTES_MIN: usize = 4 << 10;
/// Lines about one connection's failed commands, or about one file's errors, so that a peer cannot fill the log.
pub const COMPLAINTS_MAX: u32 = 20;
/// Bytes that the loop of a target reads or writes itself, if they are in memory: the copy costs less than another thread's wake-up.
pub const AT_ONCE_BYTES: usize = 64 << 10;
/// The same with few processors: another thread would take one from the loop, and its copy would be in the other's cache.
pub const AT_ONCE_BYTES_FEW_PROCESSORS: usize = 1 << 20;
/// Processors that are few.
pub const FEW_PROCESSORS: usize = 2;
/// Bytes that the loop of a target reads or writes itself in one turn.
pub const AT_ONCE_BYTES_PER_TURN: usize = 8 << 20;
/// Bytes that a thread writes at a time where a file system cannot set ranges.
pub const ZEROES_BYTES: usize = 64 << 10;
/// Time limit of one step of the connection manager, in milliseconds.
pub const CM_STEP_MS: i32 = 2000;
/// RDMA READs of a target in progress on one connection.
pub const PEER_READS_MAX: u8 = 16;
/// Batches of completions in one turn of an initiator's connection.
pub const POLLS_PER_TURN: usize = 8;
/// Processes of one kind in the background, of one user at a time.
pub const REGISTERED_MAX: usize = 256;
/// Longest description of a process in the background, in bytes: with a thousand disks it has about 150 KiB.
pub const STATE_BYTES_MAX: u64 = 4 << 20;
/// Time for a process in the background to end, once it is asked to.
pub const DISCONNECTS_WITHIN: Duration = Duration::from_secs(20);
/// Time between two looks whether it has ended.
pub const DISCONNECT_POLLS_EVERY: Duration = Duration::from_millis(20);

/// Retries of a request that gets no answer, on all connections. Soft-RoCE takes 7, the most, for "without end": a server of
/// Linux's whose client was killed waits for it for ever, with all of its threads. Linux's NFS client has 6, too.
pub const RETRIES: u8 = 6;
