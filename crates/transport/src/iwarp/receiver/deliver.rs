//! Delivery of a complete segment.

use weft_verbs::op::Operands;
use weft_verbs::{Access, Op, RemoteTarget, SendOp};
use weft_wire::NakCode;
use weft_wire::iwarp::{
    AtomicKind, AtomicRequest, AtomicResponse, Body, ReadRequest, SegmentHeader, Tagged, TermError, Terminate,
};

use crate::Env;
use crate::execute::{Answered, RemoteAccess, RemoteRange, answer};

use super::super::answer::Answer;
use super::super::delivered::Delivered;
use super::super::errors::{self, ReceivedTerminate, Refused};
use super::{Parts, Receiver, store_value};

impl Receiver {
    /// Delivers the segment. Returns the peer's TERMINATE, and the order of its bits.
    pub(super) fn deliver<E: Env>(&mut self, parts: &mut Parts<'_, E>) -> Result<Option<ReceivedTerminate>, Refused> {
        let Some(segment) = self.segment.take() else { return Ok(None) };
        match &segment.body {
            Body::Write(_) => self.written |= segment.control.is_last(),
            Body::Send(_) | Body::Immediate(..) => self.deliver_message(&segment, parts)?,
            Body::ReadResponse(_) => self.deliver_response(segment.control.is_last(), parts),
            Body::ReadRequest(untagged, read) => {
                self.request_msn = self.request_msn.wrapping_add(1);
                let answer = execute_read(untagged.msn(), read, parts);
                self.answer(answer, parts)?;
            }
            Body::AtomicRequest(_, request) => {
                self.request_msn = self.request_msn.wrapping_add(1);
                let answer = execute_atomic(request, parts);
                self.answer(answer, parts)?;
            }
            Body::AtomicResponse(_, response) => {
                self.response_msn = self.response_msn.wrapping_add(1);
                deliver_value(response, parts)?;
            }
            Body::Terminate(..) => {
                let end = self.terminate.len().min(4 + self.done as usize);
                return Ok(Terminate::parse(&self.terminate[..end]));
            }
        }
        Ok(None)
    }

    /// Queues the answer to a request. A refusal waits for the answers to the requests before it.
    fn answer<E: Env>(&mut self, answer: Result<Answer, Refused>, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        let answer = match answer {
            Err(refused) if refused.error.is_protection() && parts.sender.defers_refusal() => {
                Answer::Refused { terminate: self.terminate_for(refused.error), code: refused.code }
            }
            answer => answer?,
        };
        parts.sender.push_answer(answer);
        Ok(())
    }

    /// Delivers a segment of a SEND, or Immediate Data.
    fn deliver_message<E: Env>(&mut self, segment: &SegmentHeader, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        let (opcode, last) = (segment.control.opcode(), segment.control.is_last());
        let solicited = opcode.is_solicited();
        let message = match &segment.body {
            Body::Immediate(_, data) => {
                Delivered::Immediate { imm: u32::from_ne_bytes(data.imm()), written: data.written(), solicited }
            }
            Body::Send(untagged) => {
                let invalidates = opcode.invalidates().then(|| untagged.invalidates());
                Delivered::Send { first: self.first, last, bytes: self.done, solicited, invalidates }
            }
            _ => return Ok(()),
        };
        self.send_offset = self.send_offset.wrapping_add(self.done);
        let (core, rq, env) = (&mut *parts.core, &mut *parts.rq, &mut *parts.env);
        self.executor.execute(core, rq, &message, || 0, env).map_err(Refused::message)?;
        if last {
            self.send_msn = self.send_msn.wrapping_add(1);
        }
        Ok(())
    }

    /// Delivers a segment of the answer to the oldest READ.
    fn deliver_response<E: Env>(&mut self, last: bool, parts: &mut Parts<'_, E>) {
        if parts.sender.end_rtr_read() {
            return;
        }
        let Some(at) = parts.sender.oldest(parts.sq) else { return };
        if last {
            parts.sender.answered(parts.core, parts.sq, at, parts.env);
        } else {
            parts.sq.get_mut(at).answered += u64::from(self.done);
        }
    }
}

/// Executes a READ. One without bytes names no memory, and may be the first FPDU of an initiator.
fn execute_read<E: Env>(msn: u32, read: &ReadRequest, parts: &mut Parts<'_, E>) -> Result<Answer, Refused> {
    if !parts.sender.takes_answer() {
        return Err(Refused::protocol(TermError::STREAM_CATASTROPHE));
    }
    if !read.is_empty() {
        let access = remote_access(Op::Read, &read.source(), read.len().into(), Operands::default());
        execute(&access, Access::REMOTE_READ, parts)?;
    }
    Ok(Answer::Read { msn, request: *read })
}

/// Executes an atomic operation.
fn execute_atomic<E: Env>(request: &AtomicRequest, parts: &mut Parts<'_, E>) -> Result<Answer, Refused> {
    if !parts.sender.takes_answer() {
        return Err(Refused::protocol(TermError::STREAM_CATASTROPHE));
    }
    let op = match request.kind() {
        AtomicKind::FETCH_ADD if request.is_whole() => Op::FetchAdd,
        AtomicKind::CMP_SWAP if request.is_whole() => Op::CompareSwap,
        _ => return Err(Refused::protocol(TermError::UNSPECIFIED)),
    };
    let operands = Operands { compare: request.compare(), value: request.data() };
    let access = remote_access(op, &request.target(), 8, operands);
    match execute(&access, Access::REMOTE_ATOMIC, parts)? {
        Answered::Value(value) => Ok(Answer::Value { id: request.id(), value }),
        _ => Err(Refused::protocol(TermError::UNSPECIFIED)),
    }
}

fn remote_access(op: Op, at: &Tagged, length: u64, operands: Operands) -> RemoteAccess {
    let at = RemoteTarget { addr: at.offset(), rkey: at.stag() };
    RemoteAccess { op, target: RemoteRange { at, length }, operands, placement: 0, level: 0 }
}

/// Executes a request by the rules of every service, and finds the reason of a refusal for the TERMINATE.
fn execute<E: Env>(access: &RemoteAccess, need: Access, parts: &mut Parts<'_, E>) -> Result<Answered, Refused> {
    let core = &*parts.core;
    answer(core, core.pd(), access, parts.env).map_err(|code| {
        let RemoteRange { at, length } = access.target;
        let error = if code == NakCode::REMOTE_ACCESS {
            let fault = parts.env.remote(core.pd(), core.qpn, at.rkey, at.addr, length, need).err();
            fault.map_or(TermError::READ_STAG, errors::source)
        } else if core.attr.qp_access.contains(need) {
            TermError::UNSPECIFIED
        } else {
            TermError::READ_ACCESS
        };
        Refused { error, code, recv: None }
    })
}

/// Delivers the answer to the oldest request, an atomic.
fn deliver_value<E: Env>(response: &AtomicResponse, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
    let unexpected = Refused::protocol(TermError::UNTAGGED_MSN);
    let at = parts.sender.oldest(parts.sq).ok_or(unexpected)?;
    let wqe = parts.sq.get(at);
    let is_atomic = matches!(wqe.op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. });
    if !is_atomic || wqe.ssn != response.id() {
        return Err(unexpected);
    }
    store_value(parts.core, &wqe.sges, response.value(), parts.env)?;
    parts.sender.answered(parts.core, parts.sq, at, parts.env);
    Ok(())
}
