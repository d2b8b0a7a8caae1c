//! Answers to the peer's READs and atomics, in the order of its requests (RFC 5040 §5.5).

use weft_verbs::{Access, AsyncEvent};
use weft_wire::iwarp::{
    AtomicResponse, Body, Queue, RdmapOpcode, ReadRequest, SegmentHeader, Tagged, Terminate, Untagged,
};

use crate::Env;
use crate::core::{Core, Fault};
use crate::execute::refusal_event;
use crate::frame::HostRange;

use super::super::answer::{Answer, AnswerInProgress};
use super::super::errors;
use super::super::sink::Source;
use super::{Current, Sender, read_request};

impl Sender {
    /// Returns the answers that the peer waits for.
    pub fn answers_open(&self) -> usize {
        self.answers.len() + usize::from(matches!(self.current, Some(Current::Answer(_))))
    }

    /// Returns whether the peer may have another request with an answer outstanding.
    pub fn takes_answer(&self) -> bool {
        self.answers_open() < self.answers_max
    }

    /// Returns whether a refused request waits to end the stream: nothing more is received.
    pub fn is_refusing(&self) -> bool {
        matches!(self.answers.back(), Some(Answer::Refused { .. }))
    }

    /// Returns whether a refusal must wait for answers that the peer awaits. If nothing more is written, it need not.
    pub fn defers_refusal(&self) -> bool {
        self.answers_open() != 0 && !self.progress.stopped
    }

    /// Queues an answer.
    pub fn push_answer(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    /// Writes the next segment of an answer.
    pub(super) fn write_answer<E: Env>(&mut self, core: &mut Core, answer: AnswerInProgress, env: &mut E) {
        match answer.answer {
            Answer::Read { msn, request } => self.write_read(core, (msn, request), answer.offset, env),
            Answer::Value { id, value } => {
                let untagged = Untagged::new(Queue::ATOMIC_RESPONSE, self.response_msn, 0, 0);
                self.response_msn = self.response_msn.wrapping_add(1);
                let body = Body::AtomicResponse(untagged, AtomicResponse::new(id, value));
                let header = SegmentHeader::new(RdmapOpcode::ATOMIC_RESPONSE, true, body);
                self.write(core, &header, (Source::Bytes(&[]), 0), env);
                self.current = None;
            }
            Answer::Refused { terminate, code } => self.refuse(core, (terminate, refusal_event(code)), env),
        }
    }

    /// Ends the stream in the turn of a request that is refused.
    fn refuse<E: Env>(&mut self, core: &mut Core, (terminate, event): (Terminate, AsyncEvent), env: &mut E) {
        self.set_terminate(terminate);
        core.event(env, event);
        core.fault = Some(Fault::Error);
        self.stop();
    }

    /// Writes a segment of a Read Response. The key is checked again: the region may have gone since the request.
    fn write_read<E: Env>(&mut self, core: &mut Core, read: (u32, ReadRequest), offset: u32, env: &mut E) {
        let (msn, request) = read;
        let len = (request.len() - offset).min(self.payload_max(RdmapOpcode::READ_RESPONSE) as u32);
        let source = request.source();
        let from = source.offset().wrapping_add(offset.into());
        let range = match len {
            0 => Ok(0),
            _ => env.remote(core.pd(), core.qpn, source.stag(), from, len.into(), Access::REMOTE_READ),
        };
        let addr = match range {
            Ok(addr) => addr,
            Err(fault) => {
                let header = read_request(msn, request).write();
                let error = errors::source(fault);
                let terminate = Terminate::new(error, header.as_slice(), header.as_slice().len() as u16);
                return self.refuse(core, (terminate, AsyncEvent::QpAccessErr), env);
            }
        };
        let pieces = [HostRange { addr, len: len.into() }];
        let payload = self.memory(&pieces);
        let sink = request.sink();
        let end = offset + len;
        let last = end >= request.len();
        let body = Body::ReadResponse(Tagged::new(sink.stag(), sink.offset().wrapping_add(offset.into())));
        self.write(core, &SegmentHeader::new(RdmapOpcode::READ_RESPONSE, last, body), (payload, len), env);
        let answer = Answer::Read { msn, request };
        self.current = (!last).then_some(Current::Answer(AnswerInProgress { answer, offset: end }));
    }
}
