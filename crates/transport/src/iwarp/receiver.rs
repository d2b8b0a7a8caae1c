//! Receiving side of a stream. The header of a segment is checked before its bytes are placed, its bytes are placed as
//! they come, and the segment is delivered when it is complete and its CRC is right (RFC 5041 §5.3): receives complete,
//! requests are executed, answers end requests of this side.
//!
//! A message without a receive waits for one, and the bytes behind it in the socket: TCP stops a peer that is faster than
//! the program here. It cannot wait for ever, as WRITEs and answers wait behind it.
//!
//! Keys are checked for the whole segment at its header, and again for every run of bytes: the adapter's lock is released
//! while a segment is incomplete, and the program may deregister the memory meanwhile.

mod check;
mod deliver;
mod held;

use weft_iwarp::{FpduEvent, FpduReader, StreamFault, StreamParams};
use weft_verbs::{Access, CqId};
use weft_wire::NakCode;
use weft_wire::iwarp::{Body, SegmentHeader, TERMINATE_LEN_MAX, TermError, Terminate};

use crate::core::Core;
use crate::execute::Executor;
use crate::frame::HostRange;
use crate::rq::RecvQueue;
use crate::segment::{self, Pieces};
use crate::sge_list::parts;
use crate::sq::SendQueue;
use crate::{Env, Memory};

use super::errors::{self, ReceivedTerminate, Refused};
use super::sender::Sender;
use held::Held;

/// The receiving side.
#[derive(Debug)]
pub(super) struct Receiver {
    reader: FpduReader,
    executor: Executor,
    extensions: bool,
    /// Header of the segment that is being received.
    segment: Option<SegmentHeader>,
    /// Fault of this segment: with CRCs, its end tells whether the peer sent it like that.
    refusal: Option<Refused>,
    crc: bool,
    /// Its message waits for a receive, and `held` behind it.
    waits: bool,
    held: Held,
    /// Bytes of its payload that are placed.
    done: u32,
    /// Whether it begins a message of queue 0.
    first: bool,
    /// Numbers of the next messages: SEND, request with an answer, atomic response.
    send_msn: u32,
    request_msn: u32,
    response_msn: u32,
    /// Bytes of the current SEND that are delivered.
    send_offset: u32,
    /// Content of a TERMINATE.
    terminate: [u8; TERMINATE_LEN_MAX],
    /// Whether an FPDU has been received.
    begun: bool,
    /// Whether a WRITE has ended since [`Receiver::take_written`].
    written: bool,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver::new(&StreamParams::default())
    }
}

/// The borrowed rest of a queue pair.
struct Parts<'a, E> {
    sender: &'a mut Sender,
    core: &'a mut Core,
    sq: &'a mut SendQueue,
    rq: &'a mut RecvQueue,
    env: &'a mut E,
}

impl Receiver {
    pub fn new(params: &StreamParams) -> Receiver {
        Receiver {
            reader: FpduReader::new(params),
            executor: Executor::default(),
            extensions: params.extensions,
            segment: None,
            refusal: None,
            crc: params.crc,
            waits: false,
            held: Held::default(),
            done: 0,
            first: false,
            send_msn: 1,
            request_msn: 1,
            response_msn: 1,
            send_offset: 0,
            terminate: [0; TERMINATE_LEN_MAX],
            begun: false,
            written: false,
        }
    }

    /// Returns whether a WRITE has ended since the last call.
    pub fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.written)
    }

    /// Returns whether the peer's first FPDU has come.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns whether a message waits for a receive.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Returns the refusal that waits for the end of its segment.
    pub fn pending_refusal(&self) -> Option<Refused> {
        self.refusal.or_else(|| self.reader.pending_fault().map(stream_fault))
    }

    /// Enters ERR. Returns the receive in use.
    pub fn stop(&mut self) -> Option<(u64, Option<CqId>)> {
        (self.waits, self.held) = (false, Held::default());
        self.executor.stop()
    }

    /// Returns where the next bytes go, if they may go there directly.
    pub fn places<E: Env>(&self, sender: &Sender, core: &Core, sq: &SendQueue, env: &E) -> Pieces {
        let len = self.reader.direct_len();
        if len == 0 || sender.is_refusing() {
            Pieces::new()
        } else {
            self.find(sender, core, sq, len, env).unwrap_or_default()
        }
    }

    /// Finds the memory of the next `len` bytes of the payload.
    fn find<E: Env>(&self, sender: &Sender, core: &Core, sq: &SendQueue, len: u32, env: &E) -> Result<Pieces, Refused> {
        let (pd, done) = (core.pd(), u64::from(self.done));
        let (list, offset) = match self.segment.map(|segment| segment.body) {
            Some(Body::Write(to)) => {
                let from = to.offset().wrapping_add(done);
                let addr = env
                    .remote(pd, core.qpn, to.stag(), from, len.into(), Access::REMOTE_WRITE)
                    .map_err(|fault| Refused::access(errors::tagged(fault)))?;
                return Ok(Pieces::from_slice(&[HostRange { addr, len: len.into() }]));
            }
            Some(Body::Send(_)) => (self.executor.recv_sges(), u64::from(self.send_offset)),
            Some(Body::ReadResponse(_)) => match sender.oldest(sq).map(|at| sq.get(at)) {
                Some(wqe) => (&wqe.sges[..], wqe.answered),
                None => return Ok(Pieces::new()),
            },
            _ => return Ok(Pieces::new()),
        };
        let mut places = Pieces::new();
        for part in parts(list, offset + done, len.into()) {
            let addr = env.local(pd, &part, true).map_err(|status| self.local_fault(status))?;
            places.push(HostRange { addr, len: part.length.into() });
        }
        Ok(places)
    }

    /// Handles bytes of the stream. Returns the peer's TERMINATE, and the order of its bits.
    pub fn handle<E: Env>(
        &mut self,
        sender: &mut Sender,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        (direct, staged): (u32, &[u8]),
        env: &mut E,
    ) -> Result<Option<ReceivedTerminate>, Refused> {
        if sender.is_refusing() {
            return Ok(None);
        }
        let direct = direct.min(self.reader.direct_len());
        self.reader.skip(direct);
        self.done += direct;
        core.stats.rx_bytes += u64::from(direct);
        if self.waits {
            self.held.append(staged);
            return Ok(None);
        }
        let mut input = staged;
        let result = self.read(&mut input, &mut Parts { sender, core, sq, rq, env });
        if self.waits {
            self.held.append(input);
        }
        result
    }

    /// Goes on with a message that waits for a receive, if there is one now.
    pub fn resume<E: Env>(
        &mut self,
        sender: &mut Sender,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        env: &mut E,
    ) -> Result<Option<ReceivedTerminate>, Refused> {
        let Some(header) = self.segment.filter(|_| self.waits) else { return Ok(None) };
        let mut parts = Parts { sender, core, sq, rq, env };
        self.admit(&header, &mut parts)?;
        if self.waits {
            return Ok(None);
        }
        let mut held = std::mem::take(&mut self.held);
        let mut input = held.bytes();
        let result = self.read(&mut input, &mut parts);
        if self.waits {
            let left = input.len();
            held.keep(left);
            self.held = held;
        }
        result
    }

    /// Reads bytes of the stream, until a message must wait for a receive.
    fn read<E: Env>(
        &mut self,
        input: &mut &[u8],
        parts: &mut Parts<'_, E>,
    ) -> Result<Option<ReceivedTerminate>, Refused> {
        while !self.waits
            && let Some(event) = self.reader.next(input).map_err(stream_fault)?
        {
            match event {
                FpduEvent::Header(header) => self.begin(header, parts)?,
                FpduEvent::Payload(bytes) => self.place(bytes, parts)?,
                FpduEvent::Empty => self.begun = true,
                FpduEvent::End => {
                    self.begun = true;
                    if let Some(refused) = self.refusal.take() {
                        return Err(refused);
                    }
                    if let Some(terminate) = self.deliver(parts)? {
                        return Ok(Some(terminate));
                    }
                    if parts.sender.is_refusing() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Checks the header of a segment.
    fn begin<E: Env>(&mut self, header: SegmentHeader, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        parts.core.stats.rx_packets += 1;
        (self.segment, self.done) = (Some(header), 0);
        self.admit(&header, parts)
    }

    /// Checks a header, or leaves its message waiting for a receive.
    fn admit<E: Env>(&mut self, header: &SegmentHeader, parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        let checked = self.check(header, self.reader.payload_left(), parts);
        self.waits = checked == Err(NO_RECEIVE);
        if self.waits {
            self.begun = true;
            return Ok(());
        }
        self.defer(checked)
    }

    /// Returns the refusal of a message that has waited long enough.
    pub fn end_wait(&mut self) -> Option<Refused> {
        std::mem::take(&mut self.waits).then_some(NO_RECEIVE)
    }

    /// With CRCs, defers a refusal to the end of the segment.
    fn defer(&mut self, result: Result<(), Refused>) -> Result<(), Refused> {
        match result {
            Err(refused) if self.crc => {
                self.refusal = Some(refused);
                Ok(())
            }
            result => result,
        }
    }

    /// Places the next bytes of a segment.
    fn place<E: Env>(&mut self, bytes: &[u8], parts: &mut Parts<'_, E>) -> Result<(), Refused> {
        parts.core.stats.rx_bytes += bytes.len() as u64;
        if self.refusal.is_some() {
            return Ok(());
        }
        if let Some(SegmentHeader { body: Body::Terminate(..), .. }) = self.segment {
            self.keep_terminate(bytes);
        } else {
            let places = match self.find(parts.sender, parts.core, parts.sq, bytes.len() as u32, parts.env) {
                Ok(places) => places,
                Err(refused) => return self.defer(Err(refused)),
            };
            let mut rest = bytes;
            for place in &places {
                let (now, later) = rest.split_at(place.len as usize);
                parts.env.memory().write(place.addr, now);
                rest = later;
            }
        }
        self.done += bytes.len() as u32;
        Ok(())
    }

    fn keep_terminate(&mut self, bytes: &[u8]) {
        let start = size_of::<[u8; 4]>() + self.done as usize;
        // A longer one has nothing more to say.
        for (to, from) in self.terminate.iter_mut().skip(start).zip(bytes) {
            *to = *from;
        }
    }

    /// Ends the stream: an event or a completion for this side, a TERMINATE for the peer.
    pub fn refuse<E: Env>(&mut self, sender: &mut Sender, core: &mut Core, refused: Refused, env: &mut E) {
        sender.set_terminate(self.terminate_for(refused.error));
        self.executor.refuse(core, refused.code, refused.recv, env);
    }

    /// Composes the TERMINATE about the current segment.
    fn terminate_for(&self, error: TermError) -> Terminate {
        Terminate::new(error, self.reader.header_bytes(), self.reader.ulpdu_len())
    }

    /// A fault of the memory that this side named: its receive, or the list of its READ.
    fn local_fault(&self, status: weft_verbs::WcStatus) -> Refused {
        Refused::receive(TermError::DDP_CATASTROPHE, status)
    }
}

/// The refusal of a message without a receive.
const NO_RECEIVE: Refused = Refused::protocol(TermError::UNTAGGED_NO_BUFFER);

/// A fault of the stream itself.
fn stream_fault(fault: StreamFault) -> Refused {
    Refused { error: fault.term_error(), code: NakCode::INVALID_REQUEST, recv: None }
}

/// Checks that a list is valid for `len` bytes from `offset` on.
fn check_list<E: Env>(
    core: &Core,
    list: &[weft_verbs::Sge],
    (offset, len): (u64, u32),
    env: &E,
) -> Result<(), weft_verbs::WcStatus> {
    parts(list, offset, len.into()).try_for_each(|part| env.local(core.pd(), &part, true).map(drop))
}

/// Stores an answer of eight bytes.
fn store_value<E: Env>(core: &Core, list: &[weft_verbs::Sge], value: u64, env: &mut E) -> Result<(), Refused> {
    segment::scatter(env, core.pd(), list, 0, &value.to_ne_bytes())
        .map_err(|status| Refused::receive(TermError::DDP_CATASTROPHE, status))
}
