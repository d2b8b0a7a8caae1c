//! Limits of a connection.

use weft_verbs::Duration;

/// Time that an initiator waits for the reply to its request. siw waits as long.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a responder waits for the request on a new TCP connection. siw waits as long.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a responder in peer-to-peer mode waits for the initiator's first FPDU.
pub const RTR_TIMEOUT: Duration = Duration::from_secs(20);
/// READs and atomics that one connection answers, and has outstanding, at a time. siw's limit is the same.
pub const DEPTH_MAX: u16 = 128;
/// Highest revision of MPA.
pub const REVISION_MAX: u8 = 2;
