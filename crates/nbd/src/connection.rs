//! Connection of a client.
//!
//! ```text
//! greeting ─▶ client's flags ─▶ options ─▶ requests ─▶ ended
//!                                 │ │        │   ▲
//!                          too long │        ▼   │
//!                                 skipped   payload
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U32;

use crate::export::Export;
use crate::input::Input;
use crate::limits::{
    ANSWER_BYTES_MAX, DATA_BYTES_MAX, OPTION_BYTES_MAX, PAYLOAD_BYTES_MAX, RECEIVE_BYTES, REQUESTS_MAX,
};
use crate::negotiation::{self, Chosen};
use crate::output::Output;
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
    /// Data of a WRITE, which the request of this number waits for; `None`: it was refused, and its data is dropped.
    Payload {
        id: RequestId,
        write: Option<(u64, bool)>,
        data: Vec<u8>,
        left: u32,
    },
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

/// Connection of a client.
#[derive(Debug)]
pub struct Connection {
    exports: Arc<[Export]>,
    chosen: usize,
    has_zeroes: bool,
    state: State,
    input: Input,
    output: Output,
    open: BTreeMap<RequestId, Open>,
    next: u64,
    /// Bytes of the requests in progress.
    data_bytes: usize,
    has_told_end: bool,
}

impl Connection {
    /// Begins with the server's greeting.
    pub fn new(exports: Arc<[Export]>) -> Connection {
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
            State::Skipping(_) | State::Payload { .. } => false,
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

    /// Returns the bytes to send.
    pub fn transmit(&self) -> Option<&[u8]> {
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

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            let event = match self.state {
                State::Flags => self.client_flags()?,
                State::Options => self.option()?,
                State::Skipping(left) => self.skip(left)?,
                State::Requests => self.request()?,
                State::Payload { .. } => self.payload()?,
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

    /// Replies to a request: to a READ with its data, to all others without.
    pub fn reply(&mut self, id: RequestId, result: Result<Vec<u8>, ErrorCode>) {
        let Some(open) = self.open.remove(&id) else { return };
        self.data_bytes -= open.bytes;
        self.answer(open.cookie, result.map(|data| if open.is_read { data } else { Vec::new() }));
    }

    fn answer(&mut self, cookie: u64, result: Result<Vec<u8>, ErrorCode>) {
        let error = result.as_ref().err().map_or(0, |error| error.number());
        let header = SimpleReply { magic: REPLY_MAGIC.into(), error: error.into(), cookie: cookie.into() };
        self.output.push(header.as_bytes().to_vec());
        self.output.push(result.unwrap_or_default());
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
            (true, checked) => {
                let write = match checked {
                    Ok(Command::Write { offset, durable, .. }) => Some((offset, durable)),
                    Ok(_) => None,
                    Err(error) => {
                        self.answer(cookie, Err(error));
                        None
                    }
                };
                let id = if write.is_some() { self.begin(cookie, bytes, false) } else { RequestId(self.next) };
                self.state = State::Payload { id, write, data: Vec::new(), left: length };
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

    fn payload(&mut self) -> Option<Option<Event>> {
        let State::Payload { id, write, data, left } = &mut self.state else { return None };
        let some = self.input.take_some(*left as usize);
        let is_new = !some.is_empty();
        *left -= some.len() as u32;
        if write.is_some() {
            data.extend_from_slice(some);
        }
        if *left > 0 {
            return is_new.then_some(None);
        }
        let (id, write, data) = (*id, *write, std::mem::take(data));
        self.state = State::Requests;
        let request = write.map(|(offset, durable)| Request { id, command: Command::Write { offset, data, durable } });
        Some(request.map(Event::Request))
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
