//! Checks of a segment's header (RFC 5040 §7, RFC 5041 §7): queue, numbers, key, range, rights.

use weft_verbs::Access;
use weft_wire::iwarp::{Body, Queue, SegmentHeader, Tagged, TermError, Untagged};

use crate::{Env, sge_list};

use super::super::errors::{self, Refused};
use super::super::read_sink::read_sink;
use super::{Parts, Receiver, check_list};

impl Receiver {
    /// Checks a header whose segment brings `len` bytes.
    pub(super) fn check<E: Env>(
        &mut self,
        header: &SegmentHeader,
        len: u32,
        parts: &mut Parts<'_, E>,
    ) -> Result<(), Refused> {
        let opcode = header.control.opcode();
        if opcode.info().is_none_or(|info| info.is_extension && !self.extensions) {
            return Err(Refused::protocol(TermError::OPCODE));
        }
        match &header.body {
            Body::Write(to) => check_write(to, len, parts),
            Body::ReadResponse(to) => check_response(to, header.control.is_last(), len, parts),
            Body::Send(untagged) => self.check_send(untagged, len, parts),
            Body::Immediate(untagged, _) => {
                check_untagged(untagged, Queue::SEND, self.send_msn)?;
                // Immediate Data ends a WRITE, not a SEND.
                if !self.executor.is_idle() {
                    return Err(Refused::protocol(TermError::UNTAGGED_MSN));
                }
                self.executor.open_recv(parts.core, parts.rq, parts.env).map_err(Refused::message)
            }
            Body::ReadRequest(untagged, _) | Body::AtomicRequest(untagged, _) => {
                check_untagged(untagged, Queue::READ_REQUEST, self.request_msn)
            }
            Body::AtomicResponse(untagged, _) => check_untagged(untagged, Queue::ATOMIC_RESPONSE, self.response_msn),
            // A TERMINATE ends the stream, whatever its numbers are: no other one answers it.
            Body::Terminate(_, control) => {
                self.terminate[..control.len()].copy_from_slice(control);
                Ok(())
            }
        }
    }

    fn check_send<E: Env>(&mut self, untagged: &Untagged, len: u32, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        check_queue(untagged, Queue::SEND, self.send_msn)?;
        self.first = self.executor.is_idle();
        if self.first {
            self.send_offset = 0;
            self.executor.open_recv(parts.core, parts.rq, parts.env).map_err(Refused::message)?;
        }
        if untagged.offset() != self.send_offset {
            return Err(Refused::protocol(TermError::UNTAGGED_OFFSET));
        }
        let (list, offset) = (self.executor.recv_sges(), u64::from(self.send_offset));
        if offset + u64::from(len) > sge_list::total(list) {
            return Err(Refused::receive(TermError::UNTAGGED_TOO_LONG, weft_verbs::WcStatus::LocLenErr));
        }
        check_list(parts.core, list, (offset, len), parts.env).map_err(|status| self.local_fault(status))
    }
}

/// Checks queue and number of a message.
fn check_queue(untagged: &Untagged, queue: Queue, msn: u32) -> Result<(), Refused> {
    if untagged.queue() != queue {
        return Err(Refused::protocol(TermError::UNTAGGED_QUEUE));
    }
    if untagged.msn() != msn {
        return Err(Refused::protocol(TermError::UNTAGGED_MSN));
    }
    Ok(())
}

/// Checks a message of one segment.
fn check_untagged(untagged: &Untagged, queue: Queue, msn: u32) -> Result<(), Refused> {
    check_queue(untagged, queue, msn)?;
    if untagged.offset() == 0 { Ok(()) } else { Err(Refused::protocol(TermError::UNTAGGED_OFFSET)) }
}

/// Checks the buffer of a WRITE. One without bytes names none.
fn check_write<E: Env>(to: &Tagged, len: u32, parts: &Parts<'_, E>) -> Result<(), Refused> {
    if len == 0 {
        return Ok(());
    }
    let core = &parts.core;
    if !core.attr.qp_access.contains(Access::REMOTE_WRITE) {
        return Err(Refused::access(TermError::TAGGED_STAG));
    }
    parts
        .env
        .remote(core.pd(), core.qpn, to.stag(), to.offset(), len.into(), Access::REMOTE_WRITE)
        .map(drop)
        .map_err(|fault| Refused::access(errors::tagged(fault)))
}

/// Checks a Read Response: it continues the answer to the oldest READ, in its buffer, and ends with its last byte.
fn check_response<E: Env>(to: &Tagged, last: bool, len: u32, parts: &Parts<'_, E>) -> Result<(), Refused> {
    if parts.sender.awaits_rtr_read() {
        return if last && len == 0 { Ok(()) } else { Err(Refused::protocol(TermError::TAGGED_BOUNDS)) };
    }
    let oldest = parts.sender.oldest(parts.sq).map(|at| parts.sq.get(at));
    let Some(wqe) = oldest.filter(|wqe| matches!(wqe.op, weft_verbs::SendOp::Read(_))) else {
        return Err(Refused::protocol(TermError::DDP_CATASTROPHE));
    };
    let sink = read_sink(wqe);
    if to.stag() != sink.stag() {
        return Err(Refused::protocol(TermError::TAGGED_STAG));
    }
    let end = wqe.answered + u64::from(len);
    let fits = if last { end == wqe.length } else { end < wqe.length };
    if to.offset() != sink.offset().wrapping_add(wqe.answered) || !fits {
        return Err(Refused::protocol(TermError::TAGGED_BOUNDS));
    }
    // Empty segments without an end would keep this side busy for nothing.
    if len == 0 && !last {
        return Err(Refused::protocol(TermError::TAGGED_BOUNDS));
    }
    check_list(parts.core, &wqe.sges, (wqe.answered, len), parts.env)
        .map_err(|status| Refused::receive(TermError::DDP_CATASTROPHE, status))
}
