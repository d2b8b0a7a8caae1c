//! Streams of iWARP queue pairs, for the owner of their sockets: it attaches a negotiated stream, reads into the places that
//! the queue pair names, and sends what the queue pair writes. A queue pair that wants to write takes its turn, as those that
//! send packets do.

use weft_iwarp::StreamParams;
use weft_transport::peers::PeerId;
use weft_transport::{RingEnd, StreamBatch, StreamOrder, StreamPhase, StreamPlaces};
use weft_verbs::{Access, Instant, QpAttr, QpAttrMask as Mask, QpId, QpState, QpType, Qpn, SrqId, VerbsError};

use crate::{Hca, HostInterface};

/// Error of a queue pair that has a stream, or is in a state without one.
const CANNOT_TAKE: VerbsError = VerbsError::Invalid("the queue pair cannot take a stream in its state");

impl<H: HostInterface> Hca<H> {
    /// Gives a queue pair the stream that its connection negotiated: it enters RTS.
    ///
    /// # Errors
    /// It is no iWARP queue pair, or has a stream already.
    pub fn attach_stream(&mut self, now: Instant, id: QpId, params: &StreamParams) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        if !entry.qp.attach_stream(now, params) {
            return Err(CANNOT_TAKE);
        }
        (entry.stream_blocked, entry.early_frame) = (false, false);
        self.settle(id, now);
        self.note_ready(now);
        Ok(())
    }

    /// Does the same for a stream whose data takes the ring to `peer`, the process with the peer's queue pair.
    ///
    /// # Errors
    /// As for [`Hca::attach_stream`].
    pub fn attach_ring(
        &mut self,
        now: Instant,
        id: QpId,
        params: &StreamParams,
        (peer, qpn): (PeerId, Qpn),
    ) -> Result<(), VerbsError> {
        // Of an earlier connection of both queue pairs.
        self.drain_ring(now, peer);
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let end = RingEnd { peer, qpn, early: std::mem::take(&mut entry.early_frame) };
        if !entry.qp.attach_ring(now, params, end, &mut self.context) {
            return Err(CANNOT_TAKE);
        }
        entry.stream_blocked = false;
        self.context.rings_open = true;
        self.settle(id, now);
        self.note_ready(now);
        Ok(())
    }

    /// Follows the payload of TCP's segments, in bytes.
    pub fn set_stream_segment(&mut self, id: QpId, bytes: u32) -> Result<(), VerbsError> {
        self.qps.get_mut(id)?.qp.set_stream_segment(bytes);
        Ok(())
    }

    /// Returns where the next bytes of a stream go. The caller reads into these ranges, then into a buffer of its own, and
    /// calls [`Hca::handle_stream`] before any other method.
    pub fn stream_places(&mut self, now: Instant, id: QpId) -> Result<StreamPlaces, VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        Ok(entry.qp.stream_places(&self.context))
    }

    /// Handles bytes of a stream: the first `direct` are at its places, the others are `staged`. Returns whether a WRITE of
    /// the peer ended.
    pub fn handle_stream(&mut self, now: Instant, id: QpId, direct: u32, staged: &[u8]) -> Result<bool, VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let written = entry.qp.handle_stream(now, direct, staged, &mut self.context);
        self.settle(id, now);
        Ok(written)
    }

    /// Goes on with a stream that waits for a receive.
    #[cold]
    pub(crate) fn resume_stream(&mut self, now: Instant, id: QpId) {
        let Ok(entry) = self.qps.get_mut(id) else { return };
        self.context.act(entry.device, now);
        entry.qp.resume_stream(now, &mut self.context);
        self.settle(id, now);
    }

    /// Goes on with a stream that waits for a receive of a shared queue: with one receive, the first that has waited.
    #[cold]
    pub(crate) fn resume_streams(&mut self, srq: SrqId) {
        let now = self.context.now;
        // The peer at the other end of a ring sends its message again, which then takes the receive.
        let mut is_taken = false;
        for id in std::mem::take(&mut self.paused_streams) {
            let Ok(entry) = self.qps.get(id) else { continue };
            if entry.init.srq == Some(srq) && !is_taken && entry.qp.awaits_receive() {
                is_taken = entry.qp.peer().is_some();
                self.resume_stream(now, id);
            }
            if self.qps.get(id).is_ok_and(|entry| entry.qp.awaits_receive()) {
                self.paused_streams.push(id);
            }
        }
    }

    /// Takes the next queue pair that wants to write to its stream.
    pub fn next_stream(&mut self) -> Option<QpId> {
        loop {
            let id = self.streams.next()?;
            if let Ok(entry) = self.qps.get_mut(id) {
                entry.stream_queued = false;
                return Some(id);
            }
        }
    }

    /// Whether any queue pair wants to write to its stream.
    #[inline]
    pub fn wants_stream(&self) -> bool {
        self.streams.len() > 0
    }

    /// Lets a queue pair write until about `room` bytes wait for TCP, and returns them. The caller sends them, and calls
    /// [`Hca::stream_sent`] before any other method, even if TCP took nothing.
    pub fn poll_stream(&mut self, now: Instant, id: QpId, room: usize) -> Result<Option<&StreamBatch>, VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        entry.qp.poll_stream(now, room, &mut self.context);
        Ok(entry.qp.stream_batch())
    }

    /// Notes that TCP took `len` bytes. A queue pair with more to write gets another turn only if TCP took all: otherwise
    /// the caller knows when the socket has room again, and polls it then.
    pub fn stream_sent(&mut self, now: Instant, id: QpId, len: usize) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let took_all = entry.qp.stream_batch().is_some_and(|batch| batch.len() == len);
        entry.qp.stream_sent(now, len, &mut self.context);
        entry.stream_blocked = !took_all;
        self.settle(id, now);
        Ok(())
    }

    /// Notes that a socket has room again.
    pub fn unblock_stream(&mut self, now: Instant, id: QpId) -> Result<(), VerbsError> {
        self.qps.get_mut(id)?.stream_blocked = false;
        self.settle(id, now);
        Ok(())
    }

    /// Handles the end of the peer's direction of a stream, or with `reset` of its connection. Frames that the peer sent
    /// before come first.
    pub fn stream_closed(&mut self, now: Instant, id: QpId, reset: bool) -> Result<(), VerbsError> {
        if let Some(peer) = self.qps.get(id)?.qp.peer() {
            self.drain_ring(now, peer);
        }
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        entry.qp.stream_closed(now, reset, &mut self.context);
        self.settle(id, now);
        Ok(())
    }

    /// Closes the stream of a queue pair for its program.
    pub fn close_stream(&mut self, now: Instant, id: QpId) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        entry.qp.close_stream(now, &mut self.context);
        self.settle(id, now);
        Ok(())
    }

    /// Returns what the owner of a queue pair's socket must do with it.
    pub fn stream_order(&self, id: QpId) -> Result<StreamOrder, VerbsError> {
        Ok(self.qps.get(id)?.qp.stream_order())
    }

    /// Takes the next queue pair whose order has changed, or that was destroyed with its stream. Calls that the owner of the
    /// socket does not see change it, too: a change of the state, a timeout, the overflow of a completion queue.
    pub fn next_stream_change(&mut self) -> Option<QpId> {
        let id = self.stream_changes.pop()?;
        if let Ok(entry) = self.qps.get_mut(id) {
            entry.order_changed = false;
        }
        Some(id)
    }

    /// Whether [`Hca::next_stream_change`] has any.
    #[inline]
    pub fn has_stream_changes(&self) -> bool {
        !self.stream_changes.is_empty()
    }

    /// Whether a queue pair is one of iWARP.
    pub fn is_iwarp(&self, id: QpId) -> bool {
        self.qps.get(id).is_ok_and(|entry| entry.qp.stream_phase().is_some())
    }

    /// Whether a queue pair can be connected and is not: then its stream may be on the way here.
    pub fn awaits_stream(&self, id: QpId) -> bool {
        self.qps.get(id).is_ok_and(|entry| {
            let can = matches!(entry.qp.state(), QpState::Init | QpState::Rtr);
            can && entry.qp.stream_phase() == Some(StreamPhase::Idle)
        })
    }

    /// Modifies an iWARP queue pair. It enters RTS with its stream. A connection manager may take it to RTR before, which
    /// means nothing; leaving RTS closes the stream, as Linux's siw does. Of the attributes the access rights count.
    pub(crate) fn modify_iwarp(&mut self, now: Instant, id: QpId, attr: &QpAttr, mask: Mask) -> Result<(), VerbsError> {
        let entry = self.qps.get_mut(id)?;
        self.context.act(entry.device, now);
        let from = entry.qp.state();
        let to = if mask.contains(Mask::STATE) { attr.qp_state } else { from };
        let connected = matches!(from, QpState::Rts | QpState::Sqd);
        match (from, to) {
            (_, QpState::Err | QpState::Sqe | QpState::Sqd) if connected => {
                entry.qp.close_stream(now, &mut self.context);
            }
            // A program that moves its queue pair itself may come after the stream: as in siw, nothing changes.
            (QpState::Rts, QpState::Init | QpState::Rtr) => {}
            // rdma_disconnect asks for SQD, even if the peer has closed: as in siw, there is nothing to do.
            (_, QpState::Sqd) => {}
            (_, QpState::Reset | QpState::Err)
            | (QpState::Reset | QpState::Init | QpState::Rtr, QpState::Init)
            | (QpState::Init | QpState::Rtr, QpState::Rtr)
            | (QpState::Rts, QpState::Rts) => {
                // As in siw, the memory's keys alone decide what the peer may do.
                let given = QpAttr { qp_state: to, qp_access: Access::all(), ..*attr };
                entry.qp.modify(now, &given, Mask::STATE | Mask::ACCESS_FLAGS, &mut self.context);
                if to == QpState::Reset && from != QpState::Reset {
                    self.forget_completions_of(id);
                }
            }
            (_, QpState::Rts) => {
                return Err(VerbsError::Invalid("an iWARP queue pair is connected by the RDMA connection manager"));
            }
            _ => return Err(VerbsError::Invalid("an iWARP queue pair does not change between these states")),
        }
        self.settle(id, now);
        Ok(())
    }
}

/// Checks that an RNIC can have a queue pair of this type.
pub(crate) fn check_type(qp_type: QpType) -> Result<(), VerbsError> {
    match qp_type {
        QpType::Rc => Ok(()),
        _ => Err(VerbsError::Invalid("iWARP has reliable connections only (IBV_QPT_RC)")),
    }
}
