//! Limits of the communication manager, on behalf of all users and peers together.

use weft_verbs::Duration;

/// Connections of this host, in any state. A request that finds no room is rejected with "no resources".
pub const CONNECTIONS_MAX: usize = 256 << 10;

/// Received connection and SIDR requests that their owners have not answered yet, for all listeners together. One more
/// is rejected with "no resources", and a peer with retries left tries again. Normally the listener's own backlog is
/// the tighter bound.
pub const PENDING_REQUESTS_MAX: usize = 32 << 10;

/// Requests for services without a listener. One more is rejected at once.
pub const EARLY_MAX: usize = 256;

/// Time that such a request waits for a listener.
pub const LISTENER_GRACE: Duration = Duration::from_millis(20);

/// Listeners.
pub const LISTENERS_MAX: usize = 64 << 10;

/// Listeners with a mask, which are searched one by one.
pub const MASKED_LISTENERS_MAX: usize = 256;

/// Connections whose owner has gone and that are still disconnecting. Beyond this number, the DREQ is sent only once.
pub const ORPHANS_MAX: usize = 64 << 10;

/// Repeats of a DREQ without an owner.
pub const ORPHAN_RETRIES_MAX: u8 = 3;

/// Datagrams queued for the owner to send. The owner fetches them after every call, as long as its socket accepts them.
/// Beyond this number, answers to strangers and repeats are dropped. The number of connections bounds the datagrams
/// that are sent once.
pub const TRANSMIT_QUEUE_MAX: usize = 64 << 10;

/// Largest retry count that a message can carry.
pub const CM_RETRIES_MAX: u8 = 15;

/// Devices at once.
pub const DEVICES_MAX: usize = 4096;

/// Longest response time that a peer's REQ can impose on this side, per try: 4.096 µs · 2ⁿ, half a minute.
pub const RESPONSE_TIMEOUT_MAX: u8 = 23;

/// Longest service timeout that a peer's MRA can ask for: 4.096 µs · 2ⁿ, about nine minutes. Linux's RDMA CM asks for
/// one.
pub const SERVICE_TIMEOUT_MAX: u8 = 27;
