//! Queue pair with the adapter's data about it.

use weft_transport::{Qp, StreamOrder};
use weft_verbs::{AddressVector, DeviceId, Instant, QpId, QpInit};

use crate::schedule::Schedule;

/// A queue pair and the adapter's data about it.
pub(crate) struct QpEntry {
    pub(crate) qp: Qp,
    pub(crate) device: DeviceId,
    /// Creation attributes, with the granted sizes.
    pub(crate) init: QpInit,
    /// The path to the peer (connected kinds, from RTR on): packets from elsewhere are dropped.
    pub(crate) peer: Option<AddressVector>,
    /// Number of open handles: more than one for an XRC target that was opened again.
    pub(crate) opens: u32,
    /// Number of multicast groups that it is attached to.
    pub(crate) groups: u32,
    /// Whether it waits for its turn to send.
    pub(crate) queued: bool,
    /// Whether it waits for its turn to write to its stream, and whether its socket is full.
    pub(crate) stream_queued: bool,
    pub(crate) stream_blocked: bool,
    /// The order that the owner of its socket has, or finds in the list of changes, and whether it is in that list.
    pub(crate) stream_order: StreamOrder,
    pub(crate) order_changed: bool,
    /// Whether it waits in line for a place among the senders to its peer.
    pub(crate) in_line: bool,
    /// Its time in the set of timers.
    pub(crate) armed: Option<Instant>,
    /// Whether it may get packets.
    pub(crate) on_wire: bool,
    /// Whether it is in the list of queue pairs that owe an acknowledgement.
    pub(crate) owes_ack: bool,
    /// Whether a frame came before its connection, which is on its way here.
    pub(crate) early_frame: bool,
    /// Number of posted work requests: sends, receives.
    pub(crate) posted: (u64, u64),
}

/// Source of the packets of a queue pair on a fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FabricSource {
    pub(crate) device: DeviceId,
    pub(crate) port: u8,
    pub(crate) pkey: u16,
}

impl QpEntry {
    /// Returns the entry of a new queue pair.
    pub(crate) fn new(qp: Qp, device: DeviceId, init: QpInit) -> QpEntry {
        QpEntry {
            qp,
            device,
            init,
            peer: None,
            opens: 1,
            groups: 0,
            queued: false,
            stream_queued: false,
            stream_blocked: false,
            stream_order: StreamOrder::Continue,
            order_changed: false,
            in_line: false,
            armed: None,
            on_wire: false,
            owes_ack: false,
            early_frame: false,
            posted: (0, 0),
        }
    }

    /// Gives it a turn if it wants to write to its stream, and notes a changed order.
    #[inline]
    pub(crate) fn settle_stream(
        &mut self,
        id: QpId,
        turns: &mut Schedule,
        changes: &mut Vec<QpId>,
        paused: &mut Vec<QpId>,
    ) {
        if self.qp.stream_phase().is_none() {
            return;
        }
        if !self.stream_blocked && !self.stream_queued && self.qp.wants_stream() {
            turns.add(id, &mut self.stream_queued);
        }
        if self.init.srq.is_some() && self.qp.awaits_receive() && !paused.contains(&id) {
            paused.push(id);
        }
        let order = self.qp.stream_order();
        if order != self.stream_order {
            self.stream_order = order;
            self.note_order(id, changes);
        }
    }

    /// Enters the list of changes.
    pub(crate) fn note_order(&mut self, id: QpId, changes: &mut Vec<QpId>) {
        if !std::mem::replace(&mut self.order_changed, true) {
            changes.push(id);
        }
    }

    /// Returns the source of its packets on a fabric.
    pub(crate) fn fabric_source(&self) -> FabricSource {
        let port = self.qp.query().port_num.max(1);
        FabricSource { device: self.device, port, pkey: self.qp.pkey() }
    }
}
