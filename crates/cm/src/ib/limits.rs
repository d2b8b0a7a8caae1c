//! The limits of the communication manager: what it keeps, whoever asks for it.

use weft_verbs::Duration;

/// Connections in whatever state, of this host. A request that finds no room is rejected with "no resources".
pub const CONNECTIONS_MAX: usize = 256 << 10;

/// Requests for connections and for services that came and that nobody here has answered yet, all listeners together.
/// One more is rejected with "no resources", and a peer that is patient tries again. A listener's own backlog is what
/// normally bounds this.
pub const PENDING_REQUESTS_MAX: usize = 32 << 10;

/// Requests for services that nobody listens to yet. One more is rejected at once.
pub const EARLY_MAX: usize = 256;

/// How long such a request waits for a listener.
pub const LISTENER_GRACE: Duration = Duration::from_millis(20);

/// Listeners.
pub const LISTENERS_MAX: usize = 64 << 10;

/// Listeners with a mask, which are searched one by one.
pub const MASKED_LISTENERS_MAX: usize = 256;

/// Connections whose owner has gone and that are still saying goodbye. When there are more, the goodbye is said once.
pub const ORPHANS_MAX: usize = 64 << 10;

/// How often a goodbye without an owner is repeated.
pub const ORPHAN_RETRIES_MAX: u8 = 3;

/// Datagrams that wait to be fetched. The owner fetches them after every call, as long as its socket takes them; when
/// there are more, answers to strangers and repetitions are dropped. What is said once is bounded by the connections.
pub const TRANSMIT_QUEUE_MAX: usize = 64 << 10;

/// Most retries that a message has room for.
pub const CM_RETRIES_MAX: u8 = 15;

/// Devices that are known at once.
pub const DEVICES_MAX: usize = 4096;

/// Longest time to answer that a peer's REQ can make this side wait for, try by try: 4.096 µs · 2ⁿ, half a minute.
pub const RESPONSE_TIMEOUT_MAX: u8 = 23;

/// Longest patience that a peer's MRA can ask for: 4.096 µs · 2ⁿ, about nine minutes. Linux's RDMA CM asks for one.
pub const SERVICE_TIMEOUT_MAX: u8 = 27;
