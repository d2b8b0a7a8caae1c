//! Frames from other processes of the host: from a ring to their queue pair; and acknowledgements delayed until the
//! next turn.

use weft_transport::frame::{Frame, FrameKind};
use weft_transport::peers::PeerId;
use weft_transport::{Peers, StreamPhase};
use weft_verbs::{Duration, Instant, QpId, Qpn};

use crate::{Hca, HostInterface};

/// Maximum number of frames in one call, so that packets and timers have their turn.
const FRAMES_MAX: usize = 256;
/// Frames that a ring holds at most.
const RING_FRAMES_MAX: usize = 1 << 12;
/// How long an acknowledgement is delayed without another turn.
const ACK_DELAY: Duration = Duration::from_micros(50);

impl<H: HostInterface> Hca<H> {
    /// Enables frames, after this process has met one of this host.
    pub fn open_rings(&mut self) {
        self.context.rings_open = true;
    }

    /// Handles the frames in the rings of the host's other processes; returns how many.
    #[inline]
    pub fn handle_rings(&mut self, now: Instant) -> usize {
        if !self.context.rings_open {
            return 0;
        }
        self.flush_rings(now);
        let mut frames = 0;
        while frames < FRAMES_MAX
            && let Some(peer) = self.context.peers.arrival()
        {
            frames += self.handle_ring(now, peer, FRAMES_MAX - frames);
        }
        frames
    }

    /// Does the same for a caller that calls again at once: handles the first ring with a frame, since rings take
    /// turns.
    #[inline]
    pub fn handle_next_ring(&mut self, now: Instant) -> usize {
        if !self.context.rings_open {
            return 0;
        }
        self.flush_rings(now);
        match self.context.peers.arrival() {
            Some(peer) => self.handle_ring(now, peer, FRAMES_MAX),
            None => 0,
        }
    }

    #[inline]
    fn handle_ring(&mut self, now: Instant, peer: PeerId, most: usize) -> usize {
        let mut frames = 0;
        while frames < most
            && let Some(frame) = self.context.peers.next_frame(peer)
        {
            frames += 1;
            self.handle_frame(now, peer, &frame);
            self.context.peers.end_frame();
        }
        frames
    }

    /// Handles the frames that a peer has put into its ring before this call.
    pub(crate) fn drain_ring(&mut self, now: Instant, peer: PeerId) {
        let mut frames = 0;
        while frames < RING_FRAMES_MAX {
            match self.handle_ring(now, peer, RING_FRAMES_MAX - frames) {
                0 => return,
                more => frames += more,
            }
        }
    }

    /// Finds the queue pair of this number; successive frames are mostly for the same one.
    #[inline]
    fn addressee(&mut self, qpn: Qpn) -> Option<QpId> {
        let recent = self.recent_qp.filter(|id| self.qps.get(*id).is_ok_and(|entry| entry.qp.qpn() == qpn));
        if recent.is_none() {
            self.recent_qp = self.qp_by_number(qpn);
        }
        self.recent_qp
    }

    #[inline]
    fn handle_frame(&mut self, now: Instant, peer: PeerId, frame: &Frame) {
        if frame.kind == FrameKind::Datagram {
            return self.handle_datagram(now, frame);
        }
        let Some(id) = self.addressee(frame.dest_qpn) else { return };
        let Ok(entry) = self.qps.get_mut(id) else { return };
        if entry.qp.peer() != Some(peer) {
            entry.early_frame |= entry.qp.stream_phase() == Some(StreamPhase::Idle);
            return;
        }
        self.context.act(entry.device, now);
        entry.qp.handle_frame(now, frame, &mut self.context);
        if entry.qp.owes_ack() && !std::mem::replace(&mut entry.owes_ack, true) {
            self.owed_acks.of.push(id);
            self.owed_acks.until.get_or_insert(now + ACK_DELAY);
        }
        self.settle(id, now);
    }

    /// Sends delayed acknowledgements, and datagrams that wait for room in a ring: at each turn, or before the thread
    /// sleeps.
    #[inline]
    pub fn flush_rings(&mut self, now: Instant) {
        self.flush_owed_acks(now);
        self.context.push_full(now);
    }

    /// Sends the acknowledgements still owed since the last turn.
    #[inline]
    fn flush_owed_acks(&mut self, now: Instant) {
        match self.owed_acks.of.is_empty() {
            true => self.owed_acks.until = None,
            false => self.flush_owing(now),
        }
    }

    fn flush_owing(&mut self, now: Instant) {
        let mut kept = 0;
        for at in 0..self.owed_acks.of.len() {
            let id = self.owed_acks.of[at];
            let Ok(entry) = self.qps.get_mut(id) else { continue };
            // Most have left with other packets since.
            entry.owes_ack = entry.qp.owes_ack();
            if !entry.owes_ack {
                continue;
            }
            self.context.act(entry.device, now);
            entry.owes_ack = entry.qp.flush_ack(now, &mut self.context);
            if entry.owes_ack {
                self.owed_acks.of[kept] = id;
                kept += 1;
            }
            // The ring may have room again: continue sends that waited for it.
            self.settle(id, now);
        }
        self.owed_acks.of.truncate(kept);
        // The rest have full rings.
        self.owed_acks.until = (kept > 0).then(|| now + ACK_DELAY);
    }

    /// Sends the acknowledgements that the queue pair, or every one, owes, because it or the process ends.
    pub(crate) fn pay_acks(&mut self, now: Instant, only: Option<QpId>) {
        let owing: Vec<QpId> =
            self.owed_acks.of.iter().copied().filter(|id| only.is_none_or(|only| only == *id)).collect();
        for id in owing {
            if let Ok(entry) = self.qps.get_mut(id) {
                self.context.act(entry.device, now);
                entry.qp.flush_ack(now, &mut self.context);
            }
        }
    }
}
