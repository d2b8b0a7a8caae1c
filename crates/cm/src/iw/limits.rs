//! Limits of iWARP's connection manager: what hostile peers can make it store.

use weft_verbs::Duration;

/// TCP connections of peers that have not been accepted by a program.
pub const REQUESTS_MAX: usize = 4096;

/// Time in which a TCP connection must come about. siw waits as long.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before a refused connection is tried again; it doubles with every refusal.
pub const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Time after which a refusal is final. Programs that connect a second time, as perftest's do, connect as soon as the
/// other side says that it goes on, and its `rdma_listen` may be some milliseconds away.
pub const LISTENER_GRACE: Duration = Duration::from_millis(60);

/// Streams of one queue pair whose ends its process has not reported; the oldest then counts as ended.
pub const UNREPORTED_ENDS_MAX: usize = 16;

/// Longest private data that a program can pass, as siw limits it.
pub const PRIVATE_DATA_BYTES_MAX: usize = 256;
