//! Frames from other processes of the host: from a lane to the queue pair that it is for, and acknowledgements that waited
//! for company until the next look.

use weft_transport::Memory;
use weft_transport::same_host::{Frame, FrameKind, PeerId};
use weft_verbs::{Duration, Instant, QpId, Qpn};

use crate::Hca;

/// Frames of one call at most, so that packets and timers have their turn.
const FRAMES_MAX: usize = 256;
/// How long an acknowledgement waits for company, if nobody looks sooner.
const ACK_DELAY: Duration = Duration::from_micros(50);

/// Queue pairs that owe their peers an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct OwedAcks {
    of: Vec<QpId>,
    /// When they are sent at the latest.
    pub(crate) until: Option<Instant>,
}

impl OwedAcks {
    /// Something else waits for room in a lane: look there soon, though nothing comes.
    pub(crate) fn look_by(&mut self, now: Instant) {
        self.until.get_or_insert(now + ACK_DELAY);
    }
}

impl<M: Memory> Hca<M> {
    /// From now on frames may come: a process of this host was met.
    pub fn open_lanes(&mut self) {
        self.lanes = true;
    }

    /// Take what waits in the lanes of the host's other processes; answers how many frames.
    #[inline]
    pub fn handle_lanes(&mut self, now: Instant) -> usize {
        if !self.lanes {
            return 0;
        }
        self.flush_lanes(now);
        let mut frames = 0;
        while frames < FRAMES_MAX
            && let Some(peer) = self.world.memory.arrival()
        {
            frames += self.handle_lane(now, peer, FRAMES_MAX - frames);
        }
        frames
    }

    /// The same, for who looks again at once: the first lane with something in it will do, since lanes take turns.
    #[inline]
    pub fn handle_next_lane(&mut self, now: Instant) -> usize {
        if !self.lanes {
            return 0;
        }
        self.flush_lanes(now);
        match self.world.memory.arrival() {
            Some(peer) => self.handle_lane(now, peer, FRAMES_MAX),
            None => 0,
        }
    }

    #[inline]
    fn handle_lane(&mut self, now: Instant, peer: PeerId, most: usize) -> usize {
        let mut frames = 0;
        while frames < most
            && let Some(frame) = self.world.memory.next_frame(peer)
        {
            frames += 1;
            self.handle_frame(now, peer, &frame);
            self.world.memory.end_frame();
        }
        frames
    }

    /// The queue pair of this number; frames in a row are mostly for the same.
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
            return self.handle_datagram(now, peer, frame);
        }
        let Some(id) = self.addressee(frame.dest_qpn) else { return };
        let Ok(entry) = self.qps.get_mut(id) else { return };
        if entry.qp.peer() != Some(peer) {
            return;
        }
        self.world.act(entry.device, now);
        entry.qp.handle_frame(now, frame, &mut self.world);
        if entry.qp.owes_ack() && !std::mem::replace(&mut entry.owes_ack, true) {
            self.owed_acks.of.push(id);
            self.owed_acks.until.get_or_insert(now + ACK_DELAY);
        }
        self.settle(id, now);
    }

    /// Send what waited for company, or for room in a lane, until this look; or will not find any soon, since nobody looks.
    #[inline]
    pub fn flush_lanes(&mut self, now: Instant) {
        self.flush_owed_acks(now);
        self.push_full(now);
    }

    /// Send the acknowledgements that found no company since the last look.
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
            // Most have had company since.
            entry.owes_ack = entry.qp.owes_ack();
            if !entry.owes_ack {
                continue;
            }
            self.world.act(entry.device, now);
            entry.owes_ack = entry.qp.flush_ack(now, &mut self.world);
            if entry.owes_ack {
                self.owed_acks.of[kept] = id;
                kept += 1;
            }
            // The lane has room again, perhaps: what waited for that may go on.
            self.settle(id, now);
        }
        self.owed_acks.of.truncate(kept);
        // Those whose lanes are full.
        self.owed_acks.until = (kept > 0).then(|| now + ACK_DELAY);
    }

    /// Send what the queue pair, or every one, owes: it ends, or the process does.
    pub(crate) fn pay_acks(&mut self, now: Instant, only: Option<QpId>) {
        let owing: Vec<QpId> =
            self.owed_acks.of.iter().copied().filter(|id| only.is_none_or(|only| only == *id)).collect();
        for id in owing {
            if let Ok(entry) = self.qps.get_mut(id) {
                self.world.act(entry.device, now);
                entry.qp.flush_ack(now, &mut self.world);
            }
        }
    }
}
