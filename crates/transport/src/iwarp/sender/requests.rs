//! Requests of the send queue as segments, and the answers that end them.

use weft_verbs::{SendFlags, SendOp, WcStatus};
use weft_wire::iwarp::{
    AtomicRequest, Body, ImmediateData, Queue, RdmapOpcode, ReadRequest, SegmentHeader, Tagged, TermError, Terminate,
    Untagged,
};

use crate::Env;
use crate::core::Core;
use crate::progress;
use crate::segment::Payload;
use crate::sq::{SendQueue, Wqe};

use super::super::read_sink::read_sink;
use super::super::sink::Source;
use super::{Current, Sender, read_request};

impl Sender {
    /// Begins the next request; a local one ends here.
    pub(super) fn begin_request<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let at = self.progress.cur;
        if sq.get(at).has_response() && self.ord == 0 {
            return self.fail_request(core, sq, at, WcStatus::LocQpOpErr, env);
        }
        match progress::begin(core, sq.get(at), env) {
            Ok(false) => self.end_request(core, sq, at, env),
            Ok(true) => {
                let imm = sq.get(at).op.imm().is_some();
                self.current = Some(Current::Request { at, offset: 0, imm });
            }
            Err(status) => self.fail_request(core, sq, at, status, env),
        }
    }

    /// Notes that a request is written; it ends in its turn.
    fn end_request<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, at: u64, env: &mut E) {
        self.current = None;
        let wqe = sq.get_mut(at);
        (wqe.first, wqe.psns) = (self.progress.nxt, 0);
        (self.progress.cur, self.progress.started) = (at + 1, at + 1);
        self.retire(core, sq, env);
    }

    /// Ends the stream because a request failed on this side (as siw: a local catastrophe). Nothing more is written. The
    /// requests before it complete first: their bytes are in the batch, or at the peer.
    fn fail_request<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, at: u64, status: WcStatus, env: &mut E) {
        self.set_terminate(Terminate { error: TermError::LOCAL_CATASTROPHE, copied: None });
        if self.is_refusing() {
            // Answers that the requests before it wait for are not received any more.
            self.current = None;
            return self.progress.fail_now(core, sq, at, status, env);
        }
        self.progress.stopped = true;
        let wqe = sq.get_mut(at);
        // The peer does not answer a request that was not sent.
        (wqe.status, wqe.answered) = (status, wqe.length.max(1));
        self.end_request(core, sq, at, env);
    }

    /// Writes the next segment of a request.
    pub(super) fn write_request<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        (at, offset, imm): (u64, u64, bool),
        env: &mut E,
    ) {
        let wqe = sq.get(at);
        match wqe.op {
            SendOp::Send | SendOp::SendInv(_) => self.write_message(core, sq, (at, offset, false), env),
            // The WRITE is complete, and its Immediate Data is left.
            SendOp::WriteImm(_, value) if offset >= wqe.length && !imm => {
                let body = ImmediateData::new(value.to_ne_bytes(), wqe.length as u32);
                let solicited = wqe.flags.contains(SendFlags::SOLICITED);
                let opcode = if solicited { RdmapOpcode::IMMEDIATE_SE } else { RdmapOpcode::IMMEDIATE };
                let untagged = Untagged::new(Queue::SEND, self.next_send_msn(), 0, 0);
                let header = SegmentHeader::new(opcode, true, Body::Immediate(untagged, body));
                self.write(core, &header, (Source::Bytes(&[]), 0), env);
                self.end_request(core, sq, at, env);
            }
            SendOp::Write(_) | SendOp::WriteImm(..) => self.write_message(core, sq, (at, offset, imm), env),
            _ => {
                let msn = self.next_request_msn();
                let header = request_with_answer(wqe, msn);
                sq.get_mut(at).ssn = msn;
                self.outstanding += 1;
                self.oldest.get_or_insert(at);
                self.write(core, &header, (Source::Bytes(&[]), 0), env);
                self.end_request(core, sq, at, env);
            }
        }
    }

    /// Writes a segment of a SEND or WRITE.
    fn write_message<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        (at, offset, imm): (u64, u64, bool),
        env: &mut E,
    ) {
        let wqe = sq.get(at);
        let opcode = if wqe.op.target().is_some() {
            RdmapOpcode::WRITE
        } else {
            RdmapOpcode::send(wqe.flags.contains(SendFlags::SOLICITED), wqe.op.invalidates().is_some())
        };
        let len = (wqe.length - offset).min(self.payload_max(opcode)) as u32;
        let payload = match Payload::of(env, core.pd(), wqe, offset, len) {
            Ok(payload) => payload,
            Err(status) => return self.fail_request(core, sq, at, status, env),
        };
        let end = offset + u64::from(len);
        let last = end >= wqe.length;
        let body = match wqe.op.target() {
            Some(to) => Body::Write(Tagged::new(to.rkey, to.addr.wrapping_add(offset))),
            None => {
                let key = wqe.op.invalidates().unwrap_or(0);
                Body::Send(Untagged::new(Queue::SEND, self.send_msn, offset as u32, key))
            }
        };
        let source = match &payload {
            Payload::Inline(range) => Source::Bytes(wqe.inline.get(range.clone()).unwrap_or_default()),
            Payload::Pieces(pieces) => self.memory(pieces),
        };
        self.write(core, &SegmentHeader::new(opcode, last, body), (source, len), env);
        if last && !imm {
            if opcode.is_send() {
                self.next_send_msn();
            }
            return self.end_request(core, sq, at, env);
        }
        // After the last segment of the WRITE, `imm` is cleared: only the Immediate Data is left.
        self.current = Some(Current::Request { at, offset: end, imm: imm && !last });
    }

    fn next_send_msn(&mut self) -> u32 {
        let msn = self.send_msn;
        self.send_msn = msn.wrapping_add(1);
        msn
    }

    /// Returns the position of the oldest request that awaits an answer.
    pub fn oldest(&self, sq: &SendQueue) -> Option<u64> {
        self.oldest.filter(|at| *at >= sq.head())
    }

    /// Ends the oldest request that awaited an answer, which `len` bytes completed.
    pub fn answered<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, at: u64, env: &mut E) {
        let wqe = sq.get_mut(at);
        wqe.answered = wqe.length.max(1);
        self.oldest = (at + 1..self.progress.started).find(|&at| sq.get(at).awaits_answer());
        self.outstanding = self.outstanding.saturating_sub(1);
        self.retire(core, sq, env);
    }
}

/// Composes a READ or an atomic request.
fn request_with_answer(wqe: &Wqe, msn: u32) -> SegmentHeader {
    let (sink, source) = (read_sink(wqe), wqe.op.target().map_or(Tagged::new(0, 0), |t| Tagged::new(t.rkey, t.addr)));
    let request = match wqe.op {
        SendOp::CompareSwap { compare, swap, .. } => AtomicRequest::compare_swap(msn, source, compare, swap),
        SendOp::FetchAdd { add, .. } => AtomicRequest::fetch_add(msn, source, add),
        _ => return read_request(msn, ReadRequest::new(sink, source, wqe.length as u32)),
    };
    let body = Body::AtomicRequest(Untagged::new(Queue::READ_REQUEST, msn, 0, 0), request);
    SegmentHeader::new(RdmapOpcode::ATOMIC_REQUEST, true, body)
}
