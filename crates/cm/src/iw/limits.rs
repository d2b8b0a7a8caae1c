//! Limits of iWARP's connection manager: what hostile peers can make it store.

use weft_verbs::Duration;

/// TCP connections of peers that have not been accepted by a program.
pub const REQUESTS_MAX: usize = 4096;

/// Time in which a TCP connection must come about. siw waits as long.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams of one queue pair whose ends its process has not reported; the oldest then counts as ended.
pub const UNREPORTED_ENDS_MAX: usize = 16;

/// Longest private data that a program can pass, as siw limits it.
pub const PRIVATE_DATA_BYTES_MAX: usize = 256;
