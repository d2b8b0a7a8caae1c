//! An iWARP connection between two processes of one host. Its data goes as RC's does ([`crate::local`]): directly, or as
//! frames through a ring, without segments and without a TERMINATE. The TCP connection tells the end of the connection,
//! also that of a process. It carries no bytes.
//!
//! Two rules differ from RC's. There are no attributes for retries: the ring is tried until the TCP connection ends. And a
//! message without a receive ends the connection after a second, as on a stream; the responder asks for the message again
//! when a receive is posted.

use weft_verbs::{Instant, Qpn};

use crate::Env;
use crate::core::Core;
use crate::frame::Frame;
use crate::local::Local;
use crate::peers::PeerId;
use crate::rq::RecvQueue;
use crate::sq::SendQueue;

use super::Iwarp;
use super::limits::RECEIVE_WAIT;
use super::phase::{Event, StreamPhase};

/// Retry counts that mean "for ever", and the timeout that does.
const RETRIES: u8 = 7;
const NO_TIMEOUT: u8 = 0;
/// RNR timer of 655 ms: an announced receive ends the wait.
const LONGEST_RNR_TIMER: u8 = 0;

/// The peer's end of a connection within the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingEnd {
    /// The peer's process.
    pub peer: PeerId,
    /// Number of the peer's queue pair.
    pub qpn: Qpn,
    /// A frame of the peer came before this end was connected, and is lost.
    pub early: bool,
}

impl Iwarp {
    /// Sends the data of the stream that was just attached through the ring to the peer.
    pub fn attach_ring<E: Env>(&mut self, core: &mut Core, sq: &SendQueue, end: RingEnd, env: &mut E) {
        core.attr.dest_qpn = end.qpn;
        core.attr.timeout = NO_TIMEOUT;
        (core.attr.retry_cnt, core.attr.rnr_retry) = (RETRIES, RETRIES);
        core.attr.min_rnr_timer = LONGEST_RNR_TIMER;
        let mut ring = Box::new(Local::new(end.peer));
        ring.start_requester(core, sq);
        if end.early {
            ring.ask_again(core, env);
        }
        self.ring = Some(ring);
    }

    /// Returns the peer's process, if the data takes the ring to it.
    pub fn peer(&self) -> Option<PeerId> {
        self.ring.as_deref().map(Local::peer)
    }

    /// Handles a posted request. Returns `false` if it waits for its turn on the stream.
    pub fn on_post<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        ring.on_post(core, sq, env);
        self.settle_ring(core);
        true
    }

    /// Handles a frame from the peer.
    pub fn handle_frame<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        frame: &Frame,
        env: &mut E,
    ) {
        let Some(ring) = &mut self.ring else { return };
        ring.handle_frame(core, sq, rq, frame, env);
        self.settle_ring(core);
    }

    /// Returns whether [`Iwarp::poll_transmit`] would do something.
    #[inline]
    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        let runs = matches!(self.phase, StreamPhase::Open | StreamPhase::Terminating);
        runs && self.ring.as_deref().is_some_and(|ring| ring.wants_transmit(core, sq, now))
    }

    /// Sends answers first, then requests.
    pub fn poll_transmit<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if let Some(ring) = &mut self.ring {
            ring.poll_transmit(core, sq, env);
            self.settle_ring(core);
        }
    }

    /// Returns whether an acknowledgement waits for a frame to ride on.
    pub fn owes_ack(&self) -> bool {
        self.ring.as_deref().is_some_and(Local::owes_ack)
    }

    /// Sends that acknowledgement.
    pub fn flush_ack<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        if let Some(ring) = &mut self.ring {
            ring.flush_ack(core, env);
        }
    }

    /// Asks the peer for the message that found no receive. Returns whether the data takes a ring.
    pub(super) fn resume_ring<E: Env>(&mut self, core: &mut Core, env: &mut E) -> bool {
        let waits = self.waits();
        let Some(ring) = &mut self.ring else { return false };
        if waits {
            ring.announce_receive(core, env);
            self.settle_ring(core);
        }
        true
    }

    /// Handles the deadlines: the program posted no receive, the peer does not end, the ring is tried again.
    pub(super) fn handle_ring_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if self.deadline.is_some_and(|deadline| deadline <= core.now) {
            return self.closed(core, true);
        }
        let is_over = self.waits() && self.receive_by.is_some_and(|end| end <= core.now);
        let Some(ring) = &mut self.ring else { return };
        if is_over {
            ring.refuse_unready(core, env);
        } else {
            ring.handle_timeout(core, sq, env);
        }
        self.settle_ring(core);
    }

    /// Follows a fault to the end of the connection, and the wait for a receive.
    fn settle_ring(&mut self, core: &mut Core) {
        if core.fault.is_some() {
            self.step(core, Event::Fault);
        }
        if self.phase == StreamPhase::Terminating && !self.ring.as_deref().is_some_and(Local::has_answers) {
            self.step(core, Event::Terminated);
        }
        self.receive_by = if self.waits() { self.receive_by.or(Some(core.now + RECEIVE_WAIT)) } else { None };
    }
}
