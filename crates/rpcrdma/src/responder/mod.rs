//! Responder: the server's end of a connection. It turns received SENDs into whole RPC calls, and RPC replies into
//! WRITEs and a SEND.
//!
//! The owner posts [`ResponderConfig::credits`] receives, and some for the backchannel. It feeds each received SEND to
//! [`Responder::handle_receive`], carries out the actions of [`Responder::poll`], reports each completed READ, and gives
//! each call one [`Responder::reply`]. READs and WRITEs only ever name memory that the call's own header offered; what
//! the peer may ask for is bounded by its credits, by the longest message and by the memory of the connection.

mod assembly;
mod phase;
mod reply;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::backchannel::{BackchannelCaller, BackchannelError};
use crate::fault::PeerFault;
use crate::limits::{BACKCHANNEL_CREDITS, CREDITS_MAX, MESSAGE_MAX_BYTES};
use crate::operation::{SendPlan, are_items};
use crate::wire::{Body, ChunkLists, Header, HeaderError, MessageType, PrivateData, RdmaError, message_type};

pub use assembly::Assembly;
use phase::{Event, Phase};
use reply::ReplyTerms;
pub use reply::{ReplyPlan, ReplyRefusal};

/// Configuration of a responder.
#[derive(Clone, Copy, Debug)]
pub struct ResponderConfig {
    /// Private data that this end announced.
    pub local: PrivateData,
    /// Calls that the peer may have unanswered at a time: the receives that are posted for them.
    pub credits: u32,
    /// Longest call, in bytes.
    pub message_max_bytes: usize,
    /// Memory for messages of calls with chunks, in bytes. A call that does not fit waits; one at a time always fits.
    pub memory_max_bytes: usize,
}

/// A call of the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(u64);

/// Action of the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResponderAction {
    /// Provide a buffer for the call, fill in the inline parts, and post the READs. Report each one's end.
    Assemble(CallId, Assembly),
    /// The call's message is whole: execute it, and reply.
    Execute(CallId),
    /// Send an error; the message has no body.
    Send(SendPlan),
    /// The RPC reply to a backchannel call arrived.
    BackchannelReply(Vec<u8>),
    /// The peer refused the backchannel call with this transaction.
    BackchannelError(u32, RdmaError),
}

/// Reason why a reply cannot be planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplyError {
    /// The call is unknown, not whole yet, or answered.
    #[error("no such call waits for a reply")]
    Call,
    /// The results are not ascending and aligned ranges of the reply.
    #[error("the results are not parts of the reply")]
    Results,
}

#[derive(Debug)]
struct ReceivedCall {
    xid: u32,
    phase: Phase,
    /// The write list and the reply chunk.
    lists: ChunkLists,
    /// One of the offered keys.
    key: Option<u32>,
    reads_left: usize,
    /// Bytes of [`ResponderConfig::memory_max_bytes`] that it uses.
    memory: usize,
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct Responder {
    config: ResponderConfig,
    peer: PrivateData,
    granted: u32,
    next_id: u64,
    calls: BTreeMap<CallId, ReceivedCall>,
    waiting: VecDeque<(CallId, Assembly)>,
    memory_used: usize,
    actions: VecDeque<ResponderAction>,
    backchannel: BackchannelCaller,
}

impl Responder {
    /// Begins on an established connection; `peer` is the private data of the peer's request.
    pub fn new(config: ResponderConfig, peer: PrivateData) -> Responder {
        let config = ResponderConfig {
            credits: config.credits.clamp(1, CREDITS_MAX),
            message_max_bytes: config.message_max_bytes.min(MESSAGE_MAX_BYTES),
            ..config
        };
        Responder {
            config,
            peer,
            granted: 1,
            next_id: 0,
            calls: BTreeMap::new(),
            waiting: VecDeque::new(),
            memory_used: 0,
            actions: VecDeque::new(),
            backchannel: BackchannelCaller::new(BACKCHANNEL_CREDITS),
        }
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<ResponderAction> {
        self.actions.pop_front()
    }

    /// Returns the number of calls without a reply.
    pub fn unanswered(&self) -> usize {
        self.calls.len()
    }

    /// Returns the bytes in use for messages of calls with chunks.
    pub fn memory_used(&self) -> usize {
        self.memory_used
    }

    /// Handles a received SEND. An error is the peer's: the owner ends the connection.
    pub fn handle_receive(&mut self, payload: &[u8]) -> Result<(), PeerFault> {
        match Header::parse(payload) {
            Ok((header, len)) => self.handle_message(header, payload.get(len..).unwrap_or_default()),
            Err(error) => {
                self.refuse(error);
                Ok(())
            }
        }
    }

    fn handle_message(&mut self, header: Header, body: &[u8]) -> Result<(), PeerFault> {
        let Header { xid, credits, body: kind } = header;
        let max = self.config.message_max_bytes;
        let (assembly, lists) = match kind {
            Body::Msg(lists) if lists.reads.is_empty() && message_type(body) == Some(MessageType::Reply) => {
                self.handle_backchannel_reply(xid, credits, body);
                return Ok(());
            }
            Body::Msg(lists) => (Assembly::of_inline(body, &lists.reads, max), lists),
            Body::NoMsg(lists) => (Assembly::of_long_call(&lists.reads, max), lists),
            Body::Done => return Ok(()),
            Body::Error(error) => {
                if self.backchannel.answered(xid, credits) {
                    self.actions.push_back(ResponderAction::BackchannelError(xid, error));
                }
                return Ok(());
            }
        };
        match assembly {
            Ok(assembly) => self.accept(xid, credits, assembly, lists),
            Err(malformed) => {
                self.refuse(HeaderError::Body { xid, malformed });
                Ok(())
            }
        }
    }

    fn handle_backchannel_reply(&mut self, xid: u32, credits: u32, body: &[u8]) {
        if crate::wire::xid(body) == Some(xid) && self.backchannel.answered(xid, credits) {
            self.actions.push_back(ResponderAction::BackchannelReply(body.to_vec()));
        }
    }

    /// Answers a malformed message.
    fn refuse(&mut self, error: HeaderError) {
        let Some((xid, error)) = error.answer() else { return };
        let header = Header { xid, credits: self.granted, body: Body::Error(error) }.to_bytes();
        self.actions.push_back(ResponderAction::Send(SendPlan { header, ..SendPlan::default() }));
    }

    fn accept(&mut self, xid: u32, credits: u32, assembly: Assembly, lists: ChunkLists) -> Result<(), PeerFault> {
        if self.calls.len() >= self.config.credits as usize {
            return Err(PeerFault::Credits);
        }
        self.granted = credits.clamp(1, self.config.credits);
        let id = CallId(self.next_id);
        self.next_id += 1;
        let key = lists.segments().next().map(|segment| segment.handle);
        let reads_left = assembly.reads().len();
        let memory = if reads_left == 0 { 0 } else { assembly.message_len() };
        let lists = ChunkLists { reads: Vec::new(), ..lists };
        self.calls.insert(id, ReceivedCall { xid, phase: Phase::Waiting, lists, key, reads_left, memory });
        if memory == 0 {
            self.admit(id, assembly);
        } else {
            self.waiting.push_back((id, assembly));
            self.admit_waiting();
        }
        Ok(())
    }

    /// Admits calls in their order while there is memory, so that a long one is not overtaken for ever.
    fn admit_waiting(&mut self) {
        while let Some((_, assembly)) = self.waiting.front() {
            let used = self.memory_used + assembly.message_len();
            if self.memory_used > 0 && used > self.config.memory_max_bytes {
                return;
            }
            self.memory_used = used;
            if let Some((id, assembly)) = self.waiting.pop_front() {
                self.admit(id, assembly);
            }
        }
    }

    fn admit(&mut self, id: CallId, assembly: Assembly) {
        let is_whole = assembly.reads().is_empty();
        self.step(id, Event::Admit);
        self.actions.push_back(ResponderAction::Assemble(id, assembly));
        if is_whole {
            self.finish_reading(id);
        }
    }

    /// Notes that one of the call's READs completed. READs of different calls may complete in any order.
    pub fn read_completed(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.phase == Phase::Reading) else { return };
        call.reads_left = call.reads_left.saturating_sub(1);
        if call.reads_left == 0 {
            self.finish_reading(id);
        }
    }

    fn finish_reading(&mut self, id: CallId) {
        if self.step(id, Event::LastRead) {
            self.actions.push_back(ResponderAction::Execute(id));
        }
    }

    /// Moves a call along its table. Returns whether it moved.
    fn step(&mut self, id: CallId, event: Event) -> bool {
        let Some(call) = self.calls.get_mut(&id) else { return false };
        let next = phase::next(call.phase, event);
        call.phase = next.unwrap_or(call.phase);
        next.is_some()
    }

    /// Plans the reply of `len` bytes to a call, and ends the call; `results` are ranges of the reply with its
    /// DDP-eligible data ([`crate::nfs::CallInfo::results_of`]).
    pub fn reply(&mut self, id: CallId, len: usize, results: &[Range<usize>]) -> Result<ReplyPlan, ReplyError> {
        if !are_items(results, len) {
            return Err(ReplyError::Results);
        }
        if !self.step(id, Event::Reply) {
            return Err(ReplyError::Call);
        }
        let call = self.calls.remove(&id).ok_or(ReplyError::Call)?;
        self.memory_used -= call.memory;
        self.admit_waiting();
        let terms = ReplyTerms {
            xid: call.xid,
            credits: self.granted,
            threshold: self.config.local.threshold_to(&self.peer),
            invalidate: call.key.filter(|_| self.config.local.remote_invalidation && self.peer.remote_invalidation),
        };
        Ok(reply::plan(&terms, &call.lists, len, results).unwrap_or_else(|refusal| terms.refuse(refusal)))
    }

    /// Plans a backchannel call (RFC 8167): `message` is a whole RPC call, which must fit inline.
    pub fn call_back(&mut self, message: &[u8]) -> Result<SendPlan, BackchannelError> {
        self.backchannel.call(message, self.config.local.threshold_to(&self.peer))
    }
}

#[cfg(test)]
mod tests;
