//! The stream of an iWARP queue pair: what the owner of its socket calls. All of them do nothing for other queue pairs.

use weft_iwarp::StreamParams;
use weft_verbs::{DeviceId, Instant, QpId, QpInit, QpState, QpType, Qpn, SendOp};
use weft_wire::iwarp::Terminate;

use crate::Env;
use crate::frame::HostRange;
use crate::iwarp::{Iwarp, RingEnd, StreamBatch, StreamOrder, StreamPhase, carries};
use crate::segment::Pieces;

use super::{Qp, Service};

impl Qp {
    /// Creates an iWARP queue pair in RESET; for programs it is one of type RC. It enters RTS with its stream.
    pub fn new_iwarp(id: QpId, qpn: Qpn, init: &QpInit, device: DeviceId) -> Qp {
        debug_assert!(init.qp_type == QpType::Rc);
        Qp::with(id, qpn, init, device, Service::Iwarp(Box::default()))
    }

    fn stream(&self) -> Option<&Iwarp> {
        if let Service::Iwarp(iwarp) = &self.service { Some(iwarp) } else { None }
    }

    fn stream_mut(&mut self) -> Option<&mut Iwarp> {
        if let Service::Iwarp(iwarp) = &mut self.service { Some(iwarp) } else { None }
    }

    /// Returns whether a stream carries the operation; packets carry them all.
    #[inline]
    pub(super) fn stream_carries(&self, op: &SendOp) -> bool {
        self.stream().is_none_or(|iwarp| carries(op, iwarp.params().extensions))
    }

    /// Returns the phase of its stream; `None` if it is no iWARP queue pair.
    pub fn stream_phase(&self) -> Option<StreamPhase> {
        self.stream().map(Iwarp::phase)
    }

    /// Returns the peer's TERMINATE, if the peer ended the stream with one.
    pub fn stream_terminate(&self) -> Option<&Terminate> {
        self.stream()?.peer_terminate()
    }

    /// Returns whether the peer's first FPDU is still missing, without which a responder in peer-to-peer mode may not
    /// send (RFC 6581 §9): until then the connection is not established for its program.
    pub fn stream_awaits_peer(&self) -> bool {
        self.stream().is_some_and(Iwarp::awaits_rtr)
    }

    /// Gives it a negotiated stream: it enters RTS, from INIT or RTR. Returns whether it could.
    pub fn attach_stream(&mut self, now: Instant, params: &StreamParams) -> bool {
        let ready = matches!(self.state(), QpState::Init | QpState::Rtr | QpState::Rts);
        let Service::Iwarp(iwarp) = &mut self.service else { return false };
        if !ready || iwarp.phase() != StreamPhase::Idle {
            return false;
        }
        self.core.now = now;
        self.core.attr.max_rd_atomic = depth(params.ord);
        self.core.attr.max_dest_rd_atomic = depth(params.ird);
        self.core.set_state(QpState::Rts);
        iwarp.attach(now, params, &self.sq);
        true
    }

    /// Does the same for a stream whose peer is a process of this host: the data takes the ring to it, and the stream tells
    /// the connection's end alone. The peer does likewise.
    pub fn attach_ring(&mut self, now: Instant, params: &StreamParams, end: RingEnd, env: &mut impl Env) -> bool {
        let begins_at_once =
            StreamParams { rtr: None, awaits_rtr: false, yields_first: false, repeats_first: false, ..*params };
        if !self.attach_stream(now, &begins_at_once) {
            return false;
        }
        if let Service::Iwarp(iwarp) = &mut self.service {
            iwarp.attach_ring(&mut self.core, &self.sq, end, env);
        }
        self.publish(env);
        self.after(env);
        true
    }

    /// Follows the payload of TCP's segments (`tcpi_snd_mss`), now and whenever it changes.
    pub fn set_stream_segment(&mut self, bytes: u32) {
        if let Some(iwarp) = self.stream_mut() {
            iwarp.set_segment(bytes);
        }
    }

    /// Returns where the next bytes of the stream go, in order, if they may be received there directly; often nothing.
    /// The owner reads from the socket into these ranges, followed by a buffer of its own, and then calls
    /// [`Qp::handle_stream`] without releasing the adapter's lock meanwhile.
    pub fn stream_places(&self, env: &impl Env) -> StreamPlaces {
        let places = self.stream().map(|iwarp| iwarp.places(&self.core, &self.sq, env));
        StreamPlaces(places.unwrap_or_default())
    }

    /// Handles bytes of the stream: the first `direct` of them are at [`Qp::stream_places`], the others in `staged`. A
    /// caller that reads into a buffer alone passes zero. Returns whether a WRITE of the peer ended: a program may wait for
    /// one without a call.
    pub fn handle_stream(&mut self, now: Instant, direct: u32, staged: &[u8], env: &mut impl Env) -> bool {
        self.core.now = now;
        let Service::Iwarp(iwarp) = &mut self.service else { return false };
        iwarp.handle(&mut self.core, &mut self.sq, &mut self.rq, (direct, staged), env);
        let written = iwarp.take_written();
        self.after(env);
        written
    }

    /// Returns whether a message of the peer waits for a receive.
    #[inline]
    pub fn awaits_receive(&self) -> bool {
        self.stream().is_some_and(Iwarp::waits)
    }

    /// Goes on with a message that waits for a receive, which was posted.
    pub fn resume_stream(&mut self, now: Instant, env: &mut impl Env) {
        self.core.now = now;
        let Service::Iwarp(iwarp) = &mut self.service else { return };
        iwarp.resume(&mut self.core, &mut self.sq, &mut self.rq, env);
        self.after(env);
    }

    /// Returns whether bytes wait, or [`Qp::poll_stream`] would write some.
    #[inline]
    pub fn wants_stream(&self) -> bool {
        self.stream().is_some_and(|iwarp| iwarp.wants(&self.core, &self.sq))
    }

    /// Writes FPDUs until about `room` bytes wait for TCP: what the socket's buffer will take. Returns whether there are
    /// more. The owner sends [`Qp::stream_batch`] before it releases the adapter's lock, and calls [`Qp::stream_sent`]
    /// even if nothing was sent.
    pub fn poll_stream(&mut self, now: Instant, room: usize, env: &mut impl Env) -> bool {
        self.core.now = now;
        let Service::Iwarp(iwarp) = &mut self.service else { return false };
        let more = iwarp.poll(&mut self.core, &mut self.sq, room, env);
        self.after(env);
        more
    }

    /// Returns the bytes that wait for TCP. [`StreamBatch::fpdus`] says whether one `sendmsg` may send them all.
    pub fn stream_batch(&self) -> Option<&StreamBatch> {
        self.stream().map(Iwarp::batch)
    }

    /// Notes that TCP took `len` bytes of the batch: requests complete. Bytes that it did not take are copied, so that no
    /// memory of the program is named from here on.
    pub fn stream_sent(&mut self, now: Instant, len: usize, env: &mut impl Env) {
        self.core.now = now;
        let Service::Iwarp(iwarp) = &mut self.service else { return };
        iwarp.sent(&mut self.core, &mut self.sq, len, env);
        self.after(env);
    }

    /// Handles the end of the peer's direction, or with `reset` that of the connection. An end ends this direction, too:
    /// RDMAP knows no half-closed streams (RFC 5040 §6.2).
    pub fn stream_closed(&mut self, now: Instant, reset: bool, env: &mut impl Env) {
        self.core.now = now;
        let Service::Iwarp(iwarp) = &mut self.service else { return };
        iwarp.closed(&mut self.core, reset);
        self.after(env);
    }

    /// Closes the connection for the program: the queue pair enters ERR, outstanding work is flushed, and the stream is
    /// shut down behind its last whole FPDU.
    pub fn close_stream(&mut self, now: Instant, env: &mut impl Env) {
        if let Service::Iwarp(iwarp) = &mut self.service {
            iwarp.flush_ack(&mut self.core, env);
            self.to_error(now, env);
        }
    }

    /// Returns what the owner of the socket must do; also after a change of the state to RESET.
    pub fn stream_order(&self) -> StreamOrder {
        self.stream().map_or(StreamOrder::Continue, Iwarp::order)
    }
}

/// Places for the next bytes of a stream.
#[derive(Debug)]
pub struct StreamPlaces(Pieces);

impl StreamPlaces {
    /// Returns the ranges, in order.
    pub fn ranges(&self) -> &[HostRange] {
        &self.0
    }
}

fn depth(depth: u16) -> u8 {
    u8::try_from(depth).unwrap_or(u8::MAX)
}
