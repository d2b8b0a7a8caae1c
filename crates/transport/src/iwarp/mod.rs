//! A queue pair whose service is a TCP stream: iWARP (RFC 5040, 5041, 5044, 7306), as Linux's siw speaks it.
//! `weft-iwarp` negotiates the stream and cuts it into segments; here segments become work: `sender` turns requests and
//! answers into segments, `receiver` places and delivers the peer's.
//!
//! Requests complete in the order of their posting. A SEND or WRITE is done when TCP has taken its last byte (RFC 5040
//! §5.5: the buffer may then be reused), a READ or atomic when its answer is delivered. There is no RNR: a SEND without
//! a receive holds up the stream, and ends it after a second.
//!
//! The owner of the socket calls, under the adapter's lock, in this order:
//!
//! ```text
//!   attach_stream                                          once, with the outcome of the negotiation
//!   stream_places ─▶ readv ─▶ handle_stream                when the socket is readable
//!   poll_stream ─▶ sendmsg ─▶ stream_sent                  when wants_stream, or the socket is writable
//!   stream_closed                                          at the end of the peer's stream, or an error of the socket
//!   resume_stream                                          when a receive was posted
//!   stream_order                                           after each of them: pause, shut down, or close
//! ```
//!
//! Between two processes of one host the data takes their rings instead (`ring`).

mod answer;
mod batch;
mod delivered;
mod errors;
mod limits;
mod opening;
mod phase;
mod read_sink;
mod receiver;
mod ring;
mod sender;
mod sink;

use weft_iwarp::StreamParams;
use weft_verbs::{CqId, Instant, SendOp};
use weft_wire::iwarp::Terminate;

use crate::Env;
use crate::core::{Core, Fault};
use crate::local::Local;
use crate::rq::RecvQueue;
use crate::segment::Pieces;
use crate::sq::SendQueue;

pub use batch::StreamBatch;
use errors::{ReceivedTerminate, Refused};
use limits::{LINGER, RECEIVE_WAIT, REFUSAL_WAIT};
use opening::Opening;
pub use phase::StreamPhase;
use phase::{Event, next};
use receiver::Receiver;
pub use ring::RingEnd;
use sender::Sender;

/// Action that a stream asks of the owner of its socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOrder {
    /// None: go on.
    Continue,
    /// Do not read until the order changes.
    Pause,
    /// Shut down the direction to the peer, and go on reading.
    ShutDown,
    /// Close the socket.
    Close,
}

/// The service of a queue pair over a stream.
#[derive(Debug, Default)]
pub(crate) struct Iwarp {
    phase: StreamPhase,
    params: StreamParams,
    sender: Sender,
    receiver: Receiver,
    opening: Opening,
    /// A segment is refused as soon as its CRC is known, or does not come.
    awaits_crc: bool,
    /// End of the opening, or of the patience with a peer that does not end.
    deadline: Option<Instant>,
    /// End of the wait for a receive.
    receive_by: Option<Instant>,
    /// The peer's TERMINATE.
    peer_terminate: Option<Terminate>,
    /// RESET took a stream away, whose socket the owner may still have.
    abandoned: bool,
    /// The data's path, if the peer is a process of this host.
    ring: Option<Box<Local>>,
}

/// Returns whether a request exists in RDMAP: atomics and immediate data only between peers that agreed on RFC 7306,
/// which has no SEND with immediate data.
pub(crate) fn carries(op: &SendOp, extensions: bool) -> bool {
    match op {
        SendOp::Send | SendOp::SendInv(_) | SendOp::Write(_) | SendOp::Read(_) => true,
        SendOp::BindMw(_) | SendOp::LocalInv(_) => true,
        SendOp::WriteImm(..) | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => extensions,
        // RFC 7306 has no form of the others.
        _ => false,
    }
}

impl Iwarp {
    /// Returns the phase.
    pub fn phase(&self) -> StreamPhase {
        self.phase
    }

    /// Returns the agreement with the peer.
    pub fn params(&self) -> &StreamParams {
        &self.params
    }

    /// Returns the peer's TERMINATE.
    pub fn peer_terminate(&self) -> Option<&Terminate> {
        self.peer_terminate.as_ref()
    }

    /// Begins with a stream.
    pub fn attach(&mut self, now: Instant, params: &StreamParams, sq: &SendQueue) {
        self.phase = next(self.phase, Event::Attach);
        self.params = *params;
        (self.abandoned, self.awaits_crc, self.receive_by) = (false, false, None);
        self.ring = None;
        self.opening = Opening::new(params);
        self.sender = Sender::new(params, self.opening.holds(), sq);
        self.receiver = Receiver::new(params);
        self.deadline = self.opening.timeout().map(|timeout| now + timeout);
    }

    /// Enters RESET: forgets the stream.
    pub fn reset(&mut self) {
        let abandoned = self.abandoned || self.phase != StreamPhase::Idle;
        *self = Iwarp { abandoned, ..Iwarp::default() };
    }

    /// Returns whether the peer's first FPDU is still missing, without which this side may not send.
    pub fn awaits_rtr(&self) -> bool {
        self.opening == Opening::AwaitsRtr
    }

    /// Follows the payload of TCP's segments.
    pub fn set_segment(&mut self, bytes: u32) {
        self.sender.set_segment(bytes);
    }

    /// Returns where the next bytes of the stream go, if they may go there directly.
    pub fn places<E: Env>(&self, core: &Core, sq: &SendQueue, env: &E) -> Pieces {
        if self.phase == StreamPhase::Open { self.receiver.places(&self.sender, core, sq, env) } else { Pieces::new() }
    }

    /// Returns whether a WRITE of the peer has ended since the last call.
    pub fn take_written(&mut self) -> bool {
        self.receiver.take_written()
    }

    /// Handles bytes of the stream: `direct` of them are at their places, `staged` follow.
    pub fn handle<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        (direct, staged): (u32, &[u8]),
        env: &mut E,
    ) {
        if self.phase != StreamPhase::Open {
            return;
        }
        if self.ring.is_some() {
            // The peer sends its data elsewhere.
            return self.closed(core, true);
        }
        let handled = self.receiver.handle(&mut self.sender, core, sq, rq, (direct, staged), env);
        self.on_handled(core, sq, handled, env);
    }

    /// Returns whether a message waits for a receive.
    pub fn waits(&self) -> bool {
        self.phase == StreamPhase::Open
            && (self.receiver.waits() || self.ring.as_deref().is_some_and(Local::awaits_receive))
    }

    /// Goes on with a message that waits for a receive, if there is one now.
    pub fn resume<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, rq: &mut RecvQueue, env: &mut E) {
        if self.resume_ring(core, env) {
            return;
        }
        if self.waits() {
            self.receive_by = None;
            let handled = self.receiver.resume(&mut self.sender, core, sq, rq, env);
            self.on_handled(core, sq, handled, env);
        }
    }

    fn on_handled<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        handled: Result<Option<ReceivedTerminate>, Refused>,
        env: &mut E,
    ) {
        match handled {
            Ok(None) => self.check_failure(core),
            Ok(Some(terminate)) => self.on_terminate(core, sq, terminate, env),
            Err(refused) => {
                self.receiver.refuse(&mut self.sender, core, refused, env);
                self.fault(core);
            }
        }
        // A first FPDU that ended the stream has set the deadline for the end.
        if self.phase == StreamPhase::Open && self.receiver.has_begun() && self.opening != Opening::Done {
            (self.opening, self.deadline) = (Opening::Done, None);
            self.sender.release();
        }
        self.await_crc(core);
        if self.waits() {
            self.receive_by = self.receive_by.or(Some(core.now + RECEIVE_WAIT));
        }
    }

    /// Sets the deadline for the CRC of a segment that will be refused.
    fn await_crc(&mut self, core: &Core) {
        let is_new = self.phase == StreamPhase::Open && !self.awaits_crc && self.receiver.pending_refusal().is_some();
        if is_new {
            self.awaits_crc = true;
            self.deadline = Some(core.now + REFUSAL_WAIT);
        }
    }

    /// The peer gave up: the READ that its message names ends with a status, all else is flushed.
    fn on_terminate<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, terminate: ReceivedTerminate, env: &mut E) {
        self.peer_terminate = Some(terminate.0);
        self.sender.on_terminate(core, sq, terminate, env);
        self.step(core, Event::PeerTerminate);
        core.fault = Some(Fault::Error);
    }

    /// Fills the batch. Returns whether more would follow.
    pub fn poll<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, room: usize, env: &mut E) -> bool {
        if self.ring.is_some() {
            return false;
        }
        if self.phase == StreamPhase::Terminating {
            self.sender.emit_terminate(core, env);
            self.step(core, Event::Terminated);
        }
        if self.phase != StreamPhase::Open {
            return false;
        }
        let more = self.sender.poll(core, sq, room, env);
        self.check_failure(core);
        more
    }

    /// Returns whether [`Iwarp::poll`] has something to send.
    pub fn wants(&self, core: &Core, sq: &SendQueue) -> bool {
        match self.phase {
            _ if self.ring.is_some() => false,
            StreamPhase::Terminating => true,
            StreamPhase::Open => !self.batch().is_empty() || self.sender.is_ready(core, sq),
            StreamPhase::Closing => !self.batch().is_empty(),
            StreamPhase::Idle | StreamPhase::Closed => false,
        }
    }

    /// Returns the bytes that wait for TCP.
    pub fn batch(&self) -> &StreamBatch {
        self.sender.batch()
    }

    /// Notes that TCP took `len` bytes of the batch.
    pub fn sent<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, len: usize, env: &mut E) {
        self.sender.sent(core, sq, len, env);
        self.check_failure(core);
        if self.phase == StreamPhase::Open && self.opening == Opening::Silent && len != 0 {
            self.opening = Opening::Unanswered;
            self.deadline = self.opening.timeout().map(|timeout| core.now + timeout);
        }
    }

    /// Handles the end of the peer's direction, or a reset. An end in the middle of an FPDU is one, too (as siw).
    pub fn closed(&mut self, core: &mut Core, reset: bool) {
        let was_open = self.phase == StreamPhase::Open;
        self.step(core, if reset { Event::Reset } else { Event::PeerEnd });
        if was_open {
            core.fault = Some(Fault::Error);
        }
    }

    /// Returns what the socket's owner must do. After RESET it closes the socket that it had, until the next stream.
    pub fn order(&self) -> StreamOrder {
        match self.phase {
            StreamPhase::Closing if self.owes_ack() => StreamOrder::Continue,
            StreamPhase::Closing if self.batch().is_empty() => StreamOrder::ShutDown,
            StreamPhase::Closed => StreamOrder::Close,
            StreamPhase::Idle if self.abandoned => StreamOrder::Close,
            StreamPhase::Open if self.receiver.waits() => StreamOrder::Pause,
            _ => StreamOrder::Continue,
        }
    }

    /// Returns when [`Iwarp::handle_timeout`] must be called.
    pub fn poll_timeout(&self, core: &Core) -> Option<Instant> {
        let receive_by = self.receive_by.filter(|_| self.waits());
        let ring = self.ring.as_deref().and_then(|ring| ring.poll_timeout(core));
        self.deadline.into_iter().chain(receive_by).chain(ring).min()
    }

    /// Handles the deadlines: the program posted no receive, or the peer did not begin, or did not end.
    pub fn handle_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if self.ring.is_some() {
            return self.handle_ring_timeout(core, sq, env);
        }
        if self.waits() && self.receive_by.is_some_and(|end| end <= core.now) {
            self.receive_by = None;
            if let Some(refused) = self.receiver.end_wait() {
                self.receiver.refuse(&mut self.sender, core, refused, env);
                return self.fault(core);
            }
        }
        if self.deadline.is_none_or(|deadline| deadline > core.now) {
            return;
        }
        self.deadline = None;
        if self.phase == StreamPhase::Open
            && let Some(refused) = self.receiver.pending_refusal()
        {
            self.receiver.refuse(&mut self.sender, core, refused, env);
            return self.fault(core);
        }
        match (self.phase, self.opening) {
            (StreamPhase::Open, Opening::Yields) => self.sender.release(),
            (StreamPhase::Open, Opening::Unanswered) => self.sender.repeat_first(),
            _ => return self.closed(core, true),
        }
        self.opening = Opening::Done;
    }

    /// Enters ERR. With `report`, a TERMINATE that is ready is still sent. Returns the receive in use.
    pub fn stop(&mut self, core: &Core, report: bool) -> Option<(u64, Option<CqId>)> {
        if !report {
            self.step(core, Event::Close);
        }
        if let Some(ring) = &mut self.ring {
            return ring.stop(report);
        }
        self.sender.stop();
        self.receiver.stop()
    }

    /// Returns whether every started request has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.ring.as_deref().map_or_else(|| self.sender.is_drained(sq), |ring| ring.is_drained(sq))
    }

    /// Ends the stream if a request of this side has failed, and those before it have completed.
    fn check_failure(&mut self, core: &mut Core) {
        if self.sender.has_failed(core) {
            self.fault(core);
        }
    }

    fn fault(&mut self, core: &mut Core) {
        self.step(core, Event::Fault);
        core.fault = Some(Fault::Error);
    }

    fn step(&mut self, core: &Core, event: Event) {
        let before = self.phase;
        self.phase = next(before, event);
        if self.phase == before {
            return;
        }
        self.deadline = (self.phase != StreamPhase::Closed).then(|| core.now + LINGER);
        if self.phase == StreamPhase::Closed {
            self.sender.drop_batch();
        }
    }
}

#[cfg(test)]
mod tests;
