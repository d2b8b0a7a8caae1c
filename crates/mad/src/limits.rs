//! Bounds of a port's management datagrams. The port refuses sends and incoming transfers beyond them.

use weft_verbs::Duration;

/// Agents on a port.
pub const AGENTS_MAX: usize = 1024;
/// Requests of a port that await their responses.
pub const REQUESTS_MAX: usize = 1 << 17;
/// Multi-packet transfers that a port receives at once.
pub const INCOMING_TRANSFERS_MAX: usize = 256;
/// Multi-packet transfers that a port sends at once.
pub const OUTGOING_TRANSFERS_MAX: usize = 1024;
/// Bytes of one multi-packet transfer.
pub const TRANSFER_BYTES_MAX: usize = 64 << 20;
/// Bytes of all multi-packet transfers that a port is receiving.
pub const INCOMING_BYTES_MAX: usize = 256 << 20;
/// Bytes of all multi-packet transfers that a port is sending, acknowledged or not.
pub const OUTGOING_BYTES_MAX: usize = 256 << 20;
/// Bytes of outgoing transfers to one peer: one transfer of the maximum length, or many shorter ones. A peer that
/// acknowledges nothing uses up no more than this.
pub const OUTGOING_BYTES_PER_PEER_MAX: usize = TRANSFER_BYTES_MAX;
/// Segments that a receiver lets its sender have in flight.
pub const RMPP_WINDOW: u32 = 64;
/// Longest time that a sender waits for an acknowledgement, whatever its user's response timeout.
pub const RMPP_ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a receiver waits for the next segment.
pub const RMPP_RECEIVE_TIMEOUT: Duration = Duration::from_secs(40);
/// Time that a receiver remembers a complete transfer, to acknowledge retransmitted last segments again.
pub const RMPP_LINGER: Duration = Duration::from_secs(10);
