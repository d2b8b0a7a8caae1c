//! Sending side of a stream: requests of the send queue and answers to the peer become segments, one message after the
//! other. The record of progress is the one of every service ([`SendProgress`]); its numbers are bytes of the stream: a
//! request that sends no more than others await is done when TCP has taken the byte before its end.
//!
//! ```text
//!   bytes    taken by TCP (una) ──── waiting in the batch ──── written (nxt)
//! ```

mod answers;
mod requests;

use std::collections::VecDeque;

use weft_iwarp::{FpduWriter, Rtr, StreamParams};
use weft_verbs::{QpState, SendOp};
use weft_wire::iwarp::{
    Body, CopiedHeaders, Queue, RdmapOpcode, ReadRequest, SegmentHeader, Tagged, Terminate, TerminateOrder, Untagged,
};

use crate::Env;
use crate::core::Core;
use crate::frame::HostRange;
use crate::progress::SendProgress;
use crate::sq::{SendQueue, Wqe};

use super::answer::{Answer, AnswerInProgress};
use super::batch::StreamBatch;
use super::errors::{self, ReceivedTerminate};
use super::limits::{ANSWERS_IN_A_ROW, BATCH_BYTES};
use super::read_sink::{NO_MEMORY, read_sink};
use super::sink::{Sink, Source};

/// Message that is being cut into segments.
#[derive(Clone, Copy, Debug)]
enum Current {
    /// The request at a position of the send queue; bytes written. `imm`: its Immediate Data is left to write.
    Request { at: u64, offset: u64, imm: bool },
    /// An answer.
    Answer(AnswerInProgress),
}

/// The sending side.
#[derive(Debug)]
pub(super) struct Sender {
    writer: FpduWriter,
    /// The owner must send each FPDU on its own.
    single_fpdus: bool,
    batch: StreamBatch,
    progress: SendProgress,
    current: Option<Current>,
    /// Numbers of the next messages: SEND, request with an answer, atomic response.
    send_msn: u32,
    request_msn: u32,
    response_msn: u32,
    /// Requests with an answer that are outstanding, and how many may be.
    outstanding: u16,
    ord: u16,
    /// Position of the oldest request that awaits an answer.
    oldest: Option<u64>,
    /// Answers that wait, and how many may.
    answers: VecDeque<Answer>,
    answers_max: usize,
    /// Answers sent since a request was.
    in_a_row: u8,
    /// First FPDU, or a repetition, that is due between two messages, and whether the answer to a first READ is outstanding.
    rtr: Option<Rtr>,
    rtr_read: bool,
    /// Nothing may be sent yet.
    held: bool,
    terminate: Option<Terminate>,
}

impl Default for Sender {
    fn default() -> Sender {
        Sender::with(&StreamParams::default(), SendProgress::default())
    }
}

impl Sender {
    /// Creates the sender of a stream. With `held`, it waits for [`Sender::release`].
    pub fn new(params: &StreamParams, held: bool, sq: &SendQueue) -> Sender {
        let mut sender = Sender::with(params, SendProgress::new(0, sq));
        sender.held = held;
        sender.answers.reserve_exact(sender.answers_max);
        sender
    }

    fn with(params: &StreamParams, progress: SendProgress) -> Sender {
        Sender {
            writer: FpduWriter::new(params),
            single_fpdus: params.crc && !params.extensions,
            batch: StreamBatch::default(),
            progress,
            current: None,
            send_msn: 1,
            request_msn: 1,
            response_msn: 1,
            outstanding: 0,
            ord: params.ord,
            oldest: None,
            answers: VecDeque::new(),
            answers_max: answers_max(params),
            in_a_row: 0,
            rtr: params.rtr,
            rtr_read: false,
            held: false,
            terminate: None,
        }
    }

    pub fn batch(&self) -> &StreamBatch {
        &self.batch
    }

    pub fn drop_batch(&mut self) {
        self.batch.clear();
    }

    /// Lets the stream begin.
    pub fn release(&mut self) {
        self.held = false;
    }

    /// Sends an empty WRITE, as a first FPDU does.
    pub fn repeat_first(&mut self) {
        self.rtr.get_or_insert(Rtr::Write);
    }

    pub fn set_segment(&mut self, bytes: u32) {
        self.writer.set_segment(bytes);
    }

    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.current.is_none() && self.progress.is_drained(sq)
    }

    /// Ends: what is written already may still be sent.
    pub fn stop(&mut self) {
        self.current = None;
        self.answers.clear();
        self.progress.stopped = true;
    }

    /// Returns whether a segment can be written now.
    pub fn is_ready(&self, core: &Core, sq: &SendQueue) -> bool {
        !self.held
            && !self.progress.stopped
            && (self.rtr.is_some()
                || self.current.is_some()
                || !self.answers.is_empty()
                || self.is_request_ready(core, sq))
    }

    /// Returns whether the next request may begin: after its fence, and if it has an answer, within the agreed depth.
    fn is_request_ready(&self, core: &Core, sq: &SendQueue) -> bool {
        if self.progress.cur >= sq.tail() || core.state() != QpState::Rts {
            return false;
        }
        let wqe = sq.get(self.progress.cur);
        let fenced = wqe.flags.contains(weft_verbs::SendFlags::FENCE) && self.outstanding != 0;
        // With a depth of zero, the request begins and fails.
        let waits = wqe.has_response() && self.ord != 0 && self.outstanding >= self.ord;
        !fenced && !waits
    }

    /// Writes segments until `room` bytes wait. Returns whether more are ready.
    pub fn poll<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, room: usize, env: &mut E) -> bool {
        while self.batch.len() < room.min(BATCH_BYTES) {
            if !self.is_ready(core, sq) {
                return false;
            }
            self.write_next(core, sq, env);
        }
        self.is_ready(core, sq)
    }

    /// Writes the next segment, or executes the next local request.
    fn write_next<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if self.current.is_none() {
            if let Some(rtr) = self.rtr.take() {
                return self.write_rtr(core, rtr, env);
            }
            self.choose(core, sq, env);
        }
        match self.current {
            Some(Current::Request { at, offset, imm }) => self.write_request(core, sq, (at, offset, imm), env),
            Some(Current::Answer(answer)) => self.write_answer(core, answer, env),
            None => {}
        }
    }

    /// Begins the next message. The peer's READs come first, but not for ever (as siw).
    fn choose<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let request = self.is_request_ready(core, sq);
        if (self.in_a_row < ANSWERS_IN_A_ROW || !request)
            && let Some(answer) = self.answers.pop_front()
        {
            self.in_a_row = if request { self.in_a_row + 1 } else { 0 };
            self.current = Some(Current::Answer(AnswerInProgress { answer, offset: 0 }));
            return;
        }
        self.in_a_row = 0;
        self.begin_request(core, sq, env);
    }

    /// Writes one FPDU.
    fn write<E: Env>(
        &mut self,
        core: &mut Core,
        header: &SegmentHeader,
        (source, len): (Source<'_>, u32),
        env: &mut E,
    ) {
        self.write_fpdu(header.write().as_slice(), (source, len), env);
        core.stats.tx_packets += 1;
        core.stats.tx_bytes += u64::from(len);
    }

    fn write_fpdu<E: Env>(&mut self, header: &[u8], (source, len): (Source<'_>, u32), env: &mut E) {
        let mut sink = Sink { batch: &mut self.batch, source, env };
        let bytes = self.writer.write(header, len, &mut sink);
        if self.single_fpdus {
            self.batch.end_fpdu(bytes);
        }
        self.progress.nxt += bytes as u64;
    }

    /// Returns registered memory as the payload of an FPDU. The program may write to it at any time, and a CRC must be
    /// that of the bytes sent.
    fn memory<'a>(&self, pieces: &'a [HostRange]) -> Source<'a> {
        if self.writer.has_crc() { Source::Copied(pieces) } else { Source::Memory(pieces) }
    }

    /// Returns the payload that fits behind a header of this opcode.
    fn payload_max(&self, opcode: RdmapOpcode) -> u64 {
        let header = opcode.info().map_or(0, weft_wire::iwarp::RdmapOpcodeInfo::header_len);
        u64::from(self.writer.mulpdu()) - header as u64
    }

    /// Writes the first FPDU of an initiator in peer-to-peer mode.
    fn write_rtr<E: Env>(&mut self, core: &mut Core, rtr: Rtr, env: &mut E) {
        let nothing = (Source::Bytes(&[]), 0);
        match rtr {
            Rtr::Fpdu => {
                self.write_fpdu(&[], nothing, env);
            }
            Rtr::Write => {
                let body = Body::Write(Tagged::new(NO_MEMORY, 0));
                self.write(core, &SegmentHeader::new(RdmapOpcode::WRITE, true, body), nothing, env);
            }
            Rtr::Read => {
                let read = ReadRequest::new(Tagged::new(NO_MEMORY, 0), Tagged::new(NO_MEMORY, 0), 0);
                let header = read_request(self.next_request_msn(), read);
                (self.rtr_read, self.outstanding) = (true, 1);
                self.write(core, &header, nothing, env);
            }
        }
    }

    /// Takes the answer to the first READ. Returns whether it was outstanding.
    pub fn end_rtr_read(&mut self) -> bool {
        if self.rtr_read {
            self.outstanding -= 1;
        }
        std::mem::take(&mut self.rtr_read)
    }

    pub fn awaits_rtr_read(&self) -> bool {
        self.rtr_read
    }

    fn next_request_msn(&mut self) -> u32 {
        let msn = self.request_msn;
        self.request_msn = msn.wrapping_add(1);
        msn
    }

    /// Notes that TCP took bytes, and completes the requests that are done. Bytes that it left are copied.
    pub fn sent<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, len: usize, env: &mut E) {
        let len = len.min(self.batch.len());
        self.progress.una += len as u64;
        self.batch.advance(len);
        self.batch.own(env.memory());
        self.retire(core, sq, env);
    }

    /// Completes the requests that are done, in their order.
    pub fn retire<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        self.progress.retire(core, sq, |wqe| wqe.awaits_answer(), |_, _| {}, env);
    }

    /// Prepares a TERMINATE; the first one is the one that counts.
    pub fn set_terminate(&mut self, terminate: Terminate) {
        self.terminate.get_or_insert(terminate);
    }

    /// Returns whether this side has failed: a TERMINATE is ready, and its turn has come.
    pub fn has_failed(&self, core: &Core) -> bool {
        self.terminate.is_some() && core.fault.is_some()
    }

    /// Writes the TERMINATE behind the last whole FPDU.
    pub fn emit_terminate<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        let Some(terminate) = self.terminate.take() else { return };
        let (control, copied) = terminate.parts();
        let body = Body::Terminate(Untagged::new(Queue::TERMINATE, 1, 0, 0), control);
        let header = SegmentHeader::new(RdmapOpcode::TERMINATE, true, body);
        self.write(core, &header, (Source::Bytes(copied), copied.len() as u32), env);
    }

    /// Fails the request that the peer's TERMINATE names: a READ or atomic.
    pub fn on_terminate<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        (terminate, order): ReceivedTerminate,
        env: &mut E,
    ) {
        let Some(named) = terminate.copied.and_then(|copied| named_request(&copied, order)) else { return };
        let mut started = sq.head()..self.progress.started;
        if let Some(at) = started.find(|&at| sq.get(at).awaits_answer() && named.is(sq.get(at))) {
            self.progress.fail_now(core, sq, at, errors::status(&terminate), env);
        }
    }
}

/// Name of a request in the peer's TERMINATE.
enum NamedRequest {
    /// Message number.
    Msn(u32),
    /// Buffer of a READ's answer.
    Sink(Tagged),
}

impl NamedRequest {
    fn is(&self, wqe: &Wqe) -> bool {
        match self {
            NamedRequest::Msn(msn) => wqe.ssn == *msn,
            NamedRequest::Sink(sink) => matches!(wqe.op, SendOp::Read(_)) && read_sink(wqe) == *sink,
        }
    }
}

/// Returns the request that repeated headers name. siw puts the length of a refused READ where its message number
/// belongs: its buffer names it, and of several READs into one buffer the peer refuses the oldest.
fn named_request(copied: &CopiedHeaders, order: TerminateOrder) -> Option<NamedRequest> {
    if order == TerminateOrder::Siw
        && let Ok(SegmentHeader { body: Body::ReadRequest(_, read), .. }) = SegmentHeader::parse_prefix(copied.header())
    {
        return Some(NamedRequest::Sink(read.sink()));
    }
    let header = copied.untagged().filter(|header| header.queue() == Queue::READ_REQUEST)?;
    Some(NamedRequest::Msn(header.msn()))
}

/// Returns how many requests of the peer may await their answers. siw rounds the agreed depth up to a power of two, so a
/// peer without extensions may have more outstanding than the negotiation says.
fn answers_max(params: &StreamParams) -> usize {
    let depth = usize::from(params.ird);
    if params.extensions { depth } else { depth.next_power_of_two() }
}

/// Composes the header of a Read Request.
fn read_request(msn: u32, read: ReadRequest) -> SegmentHeader {
    let body = Body::ReadRequest(Untagged::new(Queue::READ_REQUEST, msn, 0, 0), read);
    SegmentHeader::new(RdmapOpcode::READ_REQUEST, true, body)
}
