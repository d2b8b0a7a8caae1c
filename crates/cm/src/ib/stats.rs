//! Counters, named after those in `/sys/class/infiniband/DEV/ports/N/cm_*`.

use weft_wire::mad::AttrId;

/// Number of messages: REQ first, in the order of their attribute ids.
pub const MESSAGES: usize = 11;

/// One counter per message, in the order of the attribute ids: REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP,
/// LAP, APR.
pub type PerMessage = [u64; MESSAGES];

/// Counters of sent, received and dropped messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CmStats {
    /// Messages sent, repeats included (`cm_tx_msgs`).
    pub tx_msgs: PerMessage,
    /// Repeats (`cm_tx_retries`).
    pub tx_retries: PerMessage,
    /// Messages received (`cm_rx_msgs`).
    pub rx_msgs: PerMessage,
    /// Messages received again (`cm_rx_duplicates`).
    pub rx_duplicates: PerMessage,
    /// Datagrams that are not CM messages.
    pub rx_malformed: u64,
    /// Messages that name a connection but do not come from its peer.
    pub rx_spoofed: u64,
    /// Messages that name no connection, or that do not apply in its state.
    pub rx_unexpected: u64,
    /// Requests rejected because there was no room.
    pub rx_no_room: u64,
    /// Answers to strangers that were dropped because the queue was full.
    pub tx_dropped: u64,
}

/// Returns the index of a message in [`PerMessage`].
pub(crate) fn column(attr: AttrId) -> usize {
    usize::from(attr.0.saturating_sub(AttrId::CM_REQ.0)).min(MESSAGES - 1)
}
