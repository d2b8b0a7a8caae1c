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

/// RDMA READs in progress on one connection.
pub const READS_IN_PROGRESS: u8 = 16;

/// Memory of one connection for calls whose arguments the client offers as chunks, in bytes: 16 calls of Linux's largest
/// usual `wsize`.
pub const CALL_MEMORY_MAX: usize = 16 << 20;
/// Memory of one connection for replies with data, in bytes. Later calls wait; one always fits.
pub const REPLY_MEMORY_MAX: usize = 16 << 20;

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

/// Time limit for a connection to a server.
pub const CONNECTS_WITHIN: Duration = Duration::from_secs(15);
/// Memory that one connection's calls offer to the server at a time, in bytes. Later calls wait; one always fits.
pub const OFFERED_MEMORY_MAX: usize = 128 << 20;
/// Longest reply, without data, to a call whose reply has no known bound, in bytes: NFSv4's directories and lists of
/// access rights, as long as Linux's client asks for them.
pub const REPLY_UNKNOWN_MAX: usize = (1 << 20) + (16 << 10);
/// Most pieces of memory that one call offers, and the SEND: what a send queue has room for before a call is made.
pub const SEGMENTS_OF_CALL_MAX: usize = 96;

/// Longest name of a directory's entry, in bytes.
pub const NAME_MAX: usize = 255;

/// Data of programs that is collected or in flight on one mount, in bytes.
pub const WRITES_MAX: usize = 32 << 20;
/// Data of one file that the server has not committed, in bytes: more is committed before the program goes on.
pub const UNSTABLE_MAX: usize = 64 << 20;
/// Time for which data of small writes is collected.
pub const WRITE_COLLECTS_FOR: Duration = Duration::from_secs(1);
/// Programs whose credentials a mount remembers.
pub const USERS_REMEMBERED_MAX: usize = 1024;
/// Threads that carry out requests of the kernel.
pub const FUSE_THREADS: usize = 16;
/// Requests that the kernel sends ahead of programs, such as those of read-ahead.
pub const FUSE_BACKGROUND: u16 = 64;
/// Bytes of one reply about a directory that a client asks for.
pub const LISTING_BYTES: u32 = 64 << 10;

/// Time limit for the kernel's mount through a relay that was started for it.
pub const MOUNTED_WITHIN: Duration = Duration::from_secs(150);

#[cfg(test)]
mod tests {
    use weft_rdma_service::size_class;
    use weft_rpcrdma::limits::MESSAGE_MAX_BYTES;

    #[test]
    fn the_longest_message_fits_into_a_block() {
        assert!(size_class(MESSAGE_MAX_BYTES).is_some());
    }
}
