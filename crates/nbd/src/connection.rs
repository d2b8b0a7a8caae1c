//! Connection of a client.
//!
//! ```text
//! greeting ─▶ client's flags ─▶ options ─▶ requests ─▶ ended
//!                                 │ │       │ ▲  │ ▲
//!                          too long │       ▼ │  ▼ │
//!                                 skipped  payload, refused payload
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U32;

use crate::export::Export;
use crate::input::Input;
use crate::limits::{
    ANSWER_BYTES_MAX, DATA_BYTES_MAX, OPTION_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_STEP, RECEIVE_BYTES, REQUESTS_MAX,
};
use crate::negotiation::{self, Chosen};
use crate::output::{Output, Transmit};
use crate::reply::{Reply, ReplyData};
use crate::request::{Command, ErrorCode, Request, RequestId, check};
use crate::wire::{
    FIXED_NEWSTYLE, NO_ZEROES, OPTION_MAGIC, OptionHeader, REPLY_MAGIC, REQUEST_MAGIC, RequestHeader, SimpleReply,
    command,
};

#[derive(Debug)]
enum State {
    Flags,
    Options,
    /// Data of an option that is too long: so many bytes are left.
    Skipping(u32),
    Requests,
    /// Data of a WRITE, which the request of this number waits for.
    Payload {
        id: RequestId,
        offset: u64,
        durable: bool,
        data: Vec<u8>,
        length: usize,
    },
    /// Data of a WRITE that was refused: so many bytes are left.
    Refused(u32),
    Ended,
}

/// Request in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    cookie: u64,
    /// Bytes of data, of the request or of its reply.
    bytes: usize,
    /// Whether the reply has data.
    is_read: bool,
}

/// Event of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Execute a request, then call [`Connection::reply`].
    Request(Request),
    /// The client has finished, or broke the protocol: end the connection once the output is sent.
    End,
}

/// Connection of a client. `D` is data of a READ's reply that the owner sends from where it lies.
#[derive(Debug)]
pub struct Connection<D = Vec<u8>> {
    exports: Arc<[Export]>,
    chosen: usize,
    has_zeroes: bool,
    state: State,
    input: Input,
    output: Output<D>,
    open: BTreeMap<RequestId, Open>,
    next: u64,
    /// Bytes of the requests in progress.
    data_bytes: usize,
    has_told_end: bool,
}

impl<D: ReplyData> Connection<D> {
    /// Begins with the server's greeting.
    pub fn new(exports: Arc<[Export]>) -> Connection<D> {
        let mut output = Output::default();
        output.push(negotiation::greeting());
        Connection {
            exports,
            chosen: 0,
            has_zeroes: true,
            state: State::Flags,
            input: Input::default(),
            output,
            open: BTreeMap::new(),
            next: 0,
            data_bytes: 0,
            has_told_end: false,
        }
    }

    /// Whether bytes may be received now; up to [`RECEIVE_BYTES`] at a time.
    pub fn wants_input(&self) -> bool {
        let is_busy = match self.state {
            State::Flags | State::Options => self.output.len() > ANSWER_BYTES_MAX,
            State::Requests => self.is_full(),
            State::Skipping(_) | State::Payload { .. } | State::Refused(_) => false,
            State::Ended => true,
        };
        !is_busy && self.input.len() < RECEIVE_BYTES
    }

    fn is_full(&self) -> bool {
        self.open.len() >= REQUESTS_MAX || self.data_bytes + self.output.len() > DATA_BYTES_MAX
    }

    /// Takes received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
    }

    /// Returns the data of a WRITE that is arriving, so that the owner can append received bytes to it without a copy in between: as
    /// many as its capacity has room for. `None`: received bytes go to [`Connection::receive`].
    pub fn payload(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            State::Payload { data, length, .. } if self.input.len() == 0 && data.len() < *length => {
                if data.len() == data.capacity() {
                    // The memory grows with the data: a client that only announces it takes one step.
                    data.reserve_exact((*length - data.len()).min(data.len().max(PAYLOAD_STEP)));
                }
                Some(data)
            }
            _ => None,
        }
    }

    /// Returns what is to be sent next.
    pub fn transmit(&self) -> Option<Transmit<'_, D>> {
        self.output.next()
    }

    /// Removes bytes that are sent.
    pub fn sent(&mut self, count: usize) {
        self.output.advance(count);
    }

    /// The export that the client uses: an index.
    pub fn export(&self) -> usize {
        self.chosen
    }

    /// Number of requests in progress.
    pub fn in_progress(&self) -> usize {
        self.open.len()
    }

    /// Requests that the owner executes, with the bytes of their data.
    pub fn executing(&self) -> impl Iterator<Item = (RequestId, usize)> + '_ {
        let arriving = if let State::Payload { id, .. } = &self.state { Some(*id) } else { None };
        self.open.iter().filter(move |(id, _)| Some(**id) != arriving).map(|(id, open)| (*id, open.bytes))
    }

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            let event = match self.state {
                State::Flags => self.client_flags()?,
                State::Options => self.option()?,
                State::Skipping(left) => self.skip(left)?,
                State::Requests => self.request()?,
                State::Payload { .. } => self.complete_payload()?,
                State::Refused(left) => self.drop_payload(left)?,
                State::Ended if self.has_told_end => return None,
                State::Ended => {
                    self.has_told_end = true;
                    return Some(Event::End);
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Replies to a request: to a READ with its data, to all others without. A READ with less data, or more, has failed.
    pub fn reply(&mut self, id: RequestId, result: Result<Reply<D>, ErrorCode>) {
        let Some(open) = self.open.remove(&id) else { return };
        self.data_bytes -= open.bytes;
        let data = result.and_then(|data| match open.is_read {
            true if data.len() != open.bytes => Err(ErrorCode::Io),
            true => Ok(data),
            false => Ok(Reply::default()),
        });
        self.answer(open.cookie, data);
    }

    fn answer(&mut self, cookie: u64, result: Result<Reply<D>, ErrorCode>) {
        let error = result.as_ref().err().map_or(0, |error| error.number());
        let header = SimpleReply { magic: REPLY_MAGIC.into(), error: error.into(), cookie: cookie.into() };
        match result {
            Ok(Reply::Bytes(data)) => self.output.push([header.as_bytes(), &data].concat()),
            Ok(Reply::Data(data)) => {
                self.output.push(header.as_bytes().to_vec());
                self.output.push_data(data);
            }
            Err(_) => self.output.push(header.as_bytes().to_vec()),
        }
    }

    /// Each of these functions returns `None` if it needs more input.
    fn client_flags(&mut self) -> Option<Option<Event>> {
        let flags = self.input.take::<U32>()?.get();
        let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
        self.has_zeroes = flags & u32::from(NO_ZEROES) == 0;
        self.state = if flags & !known == 0 { State::Options } else { State::Ended };
        Some(None)
    }

    fn option(&mut self) -> Option<Option<Event>> {
        if self.output.len() > ANSWER_BYTES_MAX {
            return None;
        }
        let header: OptionHeader = self.input.peek()?;
        let (option, length) = (header.option.get(), header.length.get());
        if header.magic.get() != OPTION_MAGIC {
            self.state = State::Ended;
            return Some(None);
        }
        if length > OPTION_BYTES_MAX {
            self.input.take::<OptionHeader>();
            self.output.push(negotiation::too_big(option));
            self.state = State::Skipping(length);
            return Some(None);
        }
        if self.input.len() < size_of::<OptionHeader>() + length as usize {
            return None;
        }
        self.input.take::<OptionHeader>();
        let data = self.input.take_some(length as usize);
        let mut answer = Vec::new();
        let chosen = negotiation::handle(option, data, &self.exports, self.has_zeroes, &mut answer);
        self.output.push(answer);
        match chosen {
            Chosen::Nothing => {}
            Chosen::Export(index) => {
                self.chosen = index;
                self.state = State::Requests;
            }
            Chosen::End => self.state = State::Ended,
        }
        Some(None)
    }

    fn skip(&mut self, left: u32) -> Option<Option<Event>> {
        let skipped = self.input.take_some(left as usize).len() as u32;
        self.state = if skipped == left { State::Options } else { State::Skipping(left - skipped) };
        (skipped > 0).then_some(None)
    }

    fn request(&mut self) -> Option<Option<Event>> {
        if self.is_full() {
            return None;
        }
        let header: RequestHeader = self.input.take()?;
        let (kind, length) = (header.command.get(), header.length.get());
        let is_write = kind == command::WRITE;
        if header.magic.get() != REQUEST_MAGIC || kind == command::DISCONNECT || is_write && length > PAYLOAD_BYTES_MAX
        {
            self.state = State::Ended;
            return Some(None);
        }
        let Some(export) = self.exports.get(self.chosen) else {
            self.state = State::Ended;
            return Some(None);
        };
        let checked = check(&header, export);
        let bytes = if matches!(kind, command::READ | command::WRITE) && checked.is_ok() { length as usize } else { 0 };
        let cookie = header.cookie.get();
        match (is_write, checked) {
            (true, Ok(Command::Write { offset, durable, .. })) => {
                let id = self.begin(cookie, bytes, false);
                self.state = State::Payload { id, offset, durable, data: Vec::new(), length: bytes };
                Some(None)
            }
            (true, refused) => {
                // A WRITE is checked as nothing else.
                self.answer(cookie, Err(refused.err().unwrap_or(ErrorCode::Invalid)));
                self.state = State::Refused(length);
                Some(None)
            }
            (false, Ok(command)) => {
                let id = self.begin(cookie, bytes, kind == command::READ);
                Some(Some(Event::Request(Request { id, command })))
            }
            (false, Err(error)) => {
                self.answer(cookie, Err(error));
                Some(None)
            }
        }
    }

    fn begin(&mut self, cookie: u64, bytes: usize, is_read: bool) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.data_bytes += bytes;
        self.open.insert(id, Open { cookie, bytes, is_read });
        id
    }

    fn complete_payload(&mut self) -> Option<Option<Event>> {
        let State::Payload { id, offset, durable, data, length } = &mut self.state else { return None };
        let some = self.input.take_some(length.saturating_sub(data.len()));
        data.extend_from_slice(some);
        if data.len() < *length {
            return None;
        }
        // The allocator may give more capacity than was asked for, and the owner fills it.
        let next = data.split_off(*length);
        let command = Command::Write { offset: *offset, data: std::mem::take(data), durable: *durable };
        let id = *id;
        self.input.push(&next);
        self.state = State::Requests;
        Some(Some(Event::Request(Request { id, command })))
    }

    fn drop_payload(&mut self, left: u32) -> Option<Option<Event>> {
        let dropped = self.input.take_some(left as usize).len() as u32;
        self.state = if dropped == left { State::Requests } else { State::Refused(left - dropped) };
        (dropped > 0 || left == 0).then_some(None)
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
