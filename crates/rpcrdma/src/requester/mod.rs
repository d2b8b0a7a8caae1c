//! Requester: the client's end of a connection. It chooses the form of each call, offers memory for arguments and
//! results, and takes replies apart.
//!
//! The owner posts [`RequesterConfig::credits`] receives, and some for the backchannel. It sends what
//! [`Requester::call`] plans and feeds each received SEND to [`Requester::handle_receive`]. A key is valid from the call
//! until its reply, its error or [`Requester::abandon`], and no longer: results are handed over after the keys became
//! invalid (RFC 8166 §4.4).

mod config;
mod errors;
mod pending;
mod plan;
mod registration;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::backchannel::{BackchannelCallee, BackchannelError};
use crate::eligible::EligibleData;
use crate::fault::PeerFault;
use crate::limits::{BACKCHANNEL_CREDITS, CREDITS_INITIAL, CREDITS_MAX};
use crate::operation::{SendPlan, without};
use crate::wire::{Body, Chunk, ChunkLists, Header, MessageType, RdmaError, ReadSegment, Segment, message_type, xid};

pub use config::RequesterConfig;
pub use errors::CallError;
use pending::{PendingCall, PendingState};
use plan::{ArgumentForm, CallPlan};
pub use registration::{OfferedMemory, RegisteredMemory, Registration, RegistrationFailed};

/// Place of a reply's message, without its chunked results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyBody {
    /// A range of the received SEND.
    Inline(Range<usize>),
    /// So many bytes of the memory offered by [`OfferedMemory::Reply`]. The owner checks that the transaction in them is
    /// the call's: this module does not see them.
    Long(usize),
}

/// Event of a received SEND.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequesterEvent {
    /// A reply. [`CallInfo::restore`](crate::nfs::CallInfo::restore) makes it whole.
    Reply {
        /// The call.
        xid: u32,
        /// Its message.
        body: ReplyBody,
        /// Bytes written to the memory of each result.
        results: Vec<usize>,
    },
    /// The responder refused the call, or could not return the reply.
    Error {
        /// The call.
        xid: u32,
        /// The error.
        error: RdmaError,
    },
    /// A backchannel call: a range of the received SEND.
    BackchannelCall(Range<usize>),
}

/// The client's end of a connection.
#[derive(Debug)]
pub struct Requester {
    config: RequesterConfig,
    granted: u32,
    calls: BTreeMap<u32, PendingCall>,
    backchannel: BackchannelCallee,
}

impl Requester {
    /// Begins on an established connection.
    pub fn new(config: RequesterConfig) -> Requester {
        let config = RequesterConfig { credits: config.credits.clamp(1, CREDITS_MAX), ..config };
        let backchannel = BackchannelCallee::new(BACKCHANNEL_CREDITS);
        Requester { config, granted: CREDITS_INITIAL, calls: BTreeMap::new(), backchannel }
    }

    /// Returns how many calls may be sent now.
    pub fn credits_left(&self) -> usize {
        (self.granted as usize).saturating_sub(self.calls.len())
    }

    /// Plans a call: `message` is a whole RPC call, `eligible` tells its eligible parts. Nothing stays registered after an
    /// error.
    pub fn call(
        &mut self,
        message: &[u8],
        eligible: &EligibleData,
        memory: &mut impl Registration,
    ) -> Result<SendPlan, CallError> {
        let xid = match (message_type(message), xid(message)) {
            (Some(MessageType::Call), Some(xid)) if !self.calls.contains_key(&xid) => xid,
            _ => return Err(CallError::Message),
        };
        if self.credits_left() == 0 {
            return Err(CallError::NoCredit);
        }
        let plan = plan::plan(&self.config, message.len(), eligible)?;
        let lists = register(xid, message.len(), &plan, memory)?;
        let body = match &plan.arguments {
            ArgumentForm::Inline => without(&[], message.len()),
            ArgumentForm::Chunks(arguments) => without(arguments, message.len()),
            ArgumentForm::Long => Vec::new(),
        };
        let kind = if plan.arguments == ArgumentForm::Long { Body::NoMsg } else { Body::Msg };
        let header = Header { xid, credits: self.config.credits, body: kind(lists.clone()) }.to_bytes();
        self.calls.insert(xid, PendingCall::new(lists));
        Ok(SendPlan { header, body, invalidate: None })
    }

    /// Handles a received SEND; `invalidated` is the key that it invalidated. An error is the peer's: the owner ends the
    /// connection, and calls [`Requester::abort`].
    pub fn handle_receive(
        &mut self,
        payload: &[u8],
        invalidated: Option<u32>,
        memory: &mut impl Registration,
    ) -> Result<Option<RequesterEvent>, PeerFault> {
        // The key is invalid, whatever else is wrong with the SEND.
        let owner = invalidated.and_then(|key| self.forget_key(key));
        let (header, len) = Header::parse(payload)?;
        let message = len..payload.len();
        let body = payload.get(message.clone()).unwrap_or_default();
        if invalidated.is_some() && !self.may_invalidate(header.xid, owner) {
            return Err(PeerFault::Invalidation);
        }
        if let Body::Msg(lists) = &header.body
            && message_type(body) == Some(MessageType::Call)
        {
            return self.handle_backchannel_call(header.xid, lists, message, body);
        }
        self.handle_reply(header, message, body, memory)
    }

    fn handle_backchannel_call(
        &mut self,
        header_xid: u32,
        lists: &ChunkLists,
        message: Range<usize>,
        body: &[u8],
    ) -> Result<Option<RequesterEvent>, PeerFault> {
        if !lists.is_empty() {
            return Err(PeerFault::Chunks);
        }
        if xid(body) != Some(header_xid) {
            return Err(PeerFault::Message);
        }
        if !self.backchannel.called(header_xid) {
            return Err(PeerFault::Credits);
        }
        Ok(Some(RequesterEvent::BackchannelCall(message)))
    }

    /// Notes that a key is invalid. Returns the call that offered it.
    fn forget_key(&mut self, key: u32) -> Option<u32> {
        self.calls.iter_mut().find_map(|(xid, call)| call.forget_key(key).then_some(*xid))
    }

    /// Whether a SEND about a call may invalidate a key that `owner` offered. Keys of an abandoned call are forgotten.
    fn may_invalidate(&self, xid: u32, owner: Option<u32>) -> bool {
        let is_abandoned = || self.calls.get(&xid).is_some_and(|call| call.state == PendingState::Abandoned);
        self.config.local.remote_invalidation && (owner == Some(xid) || owner.is_none() && is_abandoned())
    }

    fn handle_reply(
        &mut self,
        header: Header,
        message: Range<usize>,
        body: &[u8],
        memory: &mut impl Registration,
    ) -> Result<Option<RequesterEvent>, PeerFault> {
        let xid = header.xid;
        // A reply to no call is discarded.
        let Some(call) = self.calls.get_mut(&xid) else { return Ok(None) };
        let event = match &header.body {
            Body::Done => return Ok(None),
            Body::Error(error) => RequesterEvent::Error { xid, error: *error },
            Body::Msg(lists) => {
                let (results, long) = call.written(lists)?;
                if long != 0 || crate::wire::xid(body) != Some(xid) {
                    return Err(PeerFault::Message);
                }
                RequesterEvent::Reply { xid, body: ReplyBody::Inline(message), results }
            }
            Body::NoMsg(lists) => {
                let (results, long) = call.written(lists)?;
                if long == 0 {
                    return Err(PeerFault::Message);
                }
                RequesterEvent::Reply { xid, body: ReplyBody::Long(long), results }
            }
        };
        call.invalidate(memory);
        let is_waiting = call.state == PendingState::Waiting;
        self.calls.remove(&xid);
        self.granted = header.credits.clamp(1, self.config.credits);
        Ok(is_waiting.then_some(event))
    }

    /// Gives a call up: its keys become invalid, and its reply is discarded. A WRITE of the responder to them ends the
    /// connection. Returns whether the call waited.
    pub fn abandon(&mut self, xid: u32, memory: &mut impl Registration) -> bool {
        let waiting = self.calls.get_mut(&xid).filter(|call| call.state == PendingState::Waiting);
        waiting.is_some_and(|call| {
            call.invalidate(memory);
            call.state = PendingState::Abandoned;
            true
        })
    }

    /// Ends with the connection: all keys become invalid. Returns the calls that waited, to be sent again on another
    /// connection.
    pub fn abort(&mut self, memory: &mut impl Registration) -> Vec<u32> {
        let mut calls = std::mem::take(&mut self.calls);
        calls.values_mut().for_each(|call| call.invalidate(memory));
        calls.retain(|_, call| call.state == PendingState::Waiting);
        calls.into_keys().collect()
    }

    /// Plans the reply to a backchannel call; `message` is a whole RPC reply, which must fit inline.
    pub fn reply_back(&mut self, message: &[u8]) -> Result<SendPlan, BackchannelError> {
        self.backchannel.reply(message, self.config.local.threshold_to(&self.config.peer))
    }
}

/// Registers the memory of a plan; after a failure, none of it.
fn register(
    xid: u32,
    message_len: usize,
    plan: &CallPlan,
    memory: &mut impl Registration,
) -> Result<ChunkLists, RegistrationFailed> {
    let mut lists = ChunkLists::default();
    let registered = fill(&mut lists, xid, message_len, plan, memory);
    if registered.is_err() {
        lists.segments().for_each(|segment| memory.invalidate(segment.handle));
    }
    registered.map(|()| lists)
}

fn fill(
    lists: &mut ChunkLists,
    xid: u32,
    message_len: usize,
    plan: &CallPlan,
    memory: &mut impl Registration,
) -> Result<(), RegistrationFailed> {
    let mut segment = |offered, len| -> Result<Segment, RegistrationFailed> {
        let RegisteredMemory { handle, address } = memory.register(xid, offered)?;
        Ok(Segment { handle, length: len as u32, offset: address })
    };
    let whole = std::iter::once(0..message_len);
    let ranges: Vec<Range<usize>> = match &plan.arguments {
        ArgumentForm::Inline => Vec::new(),
        ArgumentForm::Chunks(arguments) => arguments.clone(),
        ArgumentForm::Long => whole.collect(),
    };
    for range in ranges {
        let (position, len) = (range.start as u32, range.len());
        lists.reads.push(ReadSegment { position, segment: segment(OfferedMemory::Call(range), len)? });
    }
    for (index, len) in plan.writes.iter().copied().enumerate() {
        // A chunk without segments keeps its place in the list.
        let empty = Chunk::default();
        let chunk = match len {
            0 => empty,
            _ => Chunk { segments: vec![segment(OfferedMemory::Result { index, len }, len)?] },
        };
        lists.writes.push(chunk);
    }
    if let Some(len) = plan.reply {
        lists.reply = Some(Chunk { segments: vec![segment(OfferedMemory::Reply { len }, len)?] });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
