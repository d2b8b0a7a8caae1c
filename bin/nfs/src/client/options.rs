//! Options of the transport.

use std::time::Duration;

use crate::server_name::ServerName;

/// Options of the transport, as nfs(5) has them.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// The server.
    pub server: ServerName,
    /// Use the system's libraries and real adapters.
    pub system: bool,
    /// Time without a reply after which a call is repeated on a new connection (`timeo=`).
    pub timeout: Duration,
    /// Repetitions after which a call fails (`retrans=`), on a `soft` mount. `None`: it waits for the server.
    pub soft_retries: Option<u32>,
    /// Calls that the server is sent at a time.
    pub credits: u32,
}

impl TransportOptions {
    /// Returns the time until the next repetition, which grows as it does over TCP.
    pub fn timeout_after(&self, tries: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(600);
        self.timeout.saturating_mul(tries.saturating_add(1)).min(LONGEST)
    }
}
