//! The bounds of a port's management datagrams: whoever sends more is refused, whoever is sent more is not reached.

use weft_verbs::Duration;

/// Agents on a port.
pub const AGENTS_MAX: usize = 1024;
/// Requests of a port that wait for their answers.
pub const REQUESTS_MAX: usize = 1 << 17;
/// Multi-packet transfers on their way to a port, at once.
pub const INCOMING_TRANSFERS_MAX: usize = 256;
/// Multi-packet transfers on their way from a port, at once.
pub const OUTGOING_TRANSFERS_MAX: usize = 1024;
/// Bytes of one multi-packet transfer.
pub const TRANSFER_BYTES_MAX: usize = 64 << 20;
/// Bytes of all multi-packet transfers on their way to a port.
pub const INCOMING_BYTES_MAX: usize = 256 << 20;
/// Bytes of all multi-packet transfers on their way from a port, acknowledged or not.
pub const OUTGOING_BYTES_MAX: usize = 256 << 20;
/// Bytes of those to one other end: one transfer as long as may be, or many shorter ones. Who acknowledges nothing uses up
/// no more.
pub const OUTGOING_BYTES_PER_PEER_MAX: usize = TRANSFER_BYTES_MAX;
/// Segments that a receiver lets its sender have under way.
pub const RMPP_WINDOW: u32 = 64;
/// How long a sender waits for an acknowledgement at most, whatever its user waits for the answer.
pub const RMPP_ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a receiver waits for the next segment.
pub const RMPP_RECEIVE_TIMEOUT: Duration = Duration::from_secs(40);
/// How long a receiver remembers a transfer that is complete, to acknowledge its last segments again.
pub const RMPP_LINGER: Duration = Duration::from_secs(10);
