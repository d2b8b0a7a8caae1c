//! Connection of one client: its responder, its queue pair, and the calls in progress.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use weft_client::rdmacm::{CmId, ConnParam, PeerParam};
use weft_client::verbs::{Buffer, Pd, Remote};
use weft_rdma_service::limits::RETRIES;
use weft_rdma_service::{Completed, Endpoint, EndpointConfig, Pool, Statistics, Work};
use weft_rpcrdma::limits::{BACKCHANNEL_CREDITS, INLINE_PREFERRED_BYTES, MESSAGE_MAX_BYTES};
use weft_rpcrdma::nfs::CallInfo;
use weft_rpcrdma::wire::{self, MessageType, PrivateData};
use weft_rpcrdma::{
    Assembly, BackchannelError, CallId, ReplyPlan, Responder, ResponderAction, ResponderConfig, SendPlan,
};
use weft_tool::errln;

use super::backend::Backend;
use super::end::End;
use super::service::Service;
use crate::export::{CallBytes, Done, Job, ReplyBytes};
use crate::limits::{
    BACKCHANNEL_WAITING_MAX, CALL_MEMORY_MAX, COMPLAINTS_MAX, READS_IN_PROGRESS, REPLY_MEMORY_MAX, TRANSFER_MAX,
};
use crate::protocol::rpc::system_error;
use crate::tcp::Outgoing;

/// Properties that the server announces.
const LOCAL: PrivateData = PrivateData {
    remote_invalidation: true,
    send_bytes: INLINE_PREFERRED_BYTES,
    receive_bytes: INLINE_PREFERRED_BYTES,
};
/// Results above this have memory of their own; shorter ones are copied.
const COPIED_MAX: u32 = 2048;
/// Bytes of a reply besides its data: headers and attributes.
const REPLY_HEAD: usize = 1024;
/// Batches of completions in one turn, so that one client does not keep the others waiting.
const POLLS_PER_TURN: usize = 8;
/// Infinite: a client posts its receives before it calls, but loses time on other things.
const RNR_RETRIES: u8 = 7;

/// Message of a call.
#[derive(Debug)]
enum Message {
    Inline(Vec<u8>),
    Registered(Buffer, usize),
    /// It is on its way to the backend.
    Gone,
}

#[derive(Debug)]
struct OpenCall {
    message: Message,
    info: CallInfo,
    /// Memory for the reply.
    reply: Option<Buffer>,
}

/// Reply with its bytes.
enum ReplyMessage {
    Bytes(Vec<u8>),
    Registered(Buffer, usize),
}

/// A client's connection.
#[derive(Debug)]
pub struct Session {
    key: u64,
    /// Address of the client.
    pub client: Arc<str>,
    endpoint: Endpoint<CallId>,
    pool: Pool,
    responder: Responder,
    /// Connection to the backend, of a gateway.
    pub backend: Option<Backend>,
    accept: Option<ConnParam>,
    calls: BTreeMap<CallId, OpenCall>,
    /// Calls that wait for memory of their replies.
    waiting: VecDeque<CallId>,
    /// Bytes of replies that the client has not received.
    reply_memory: usize,
    /// Counters.
    pub statistics: Statistics,
    /// Time of the last message from the client.
    pub heard: Instant,
    /// Lines about refused messages.
    complaints: u32,
    scratch: Vec<u8>,
}

impl Session {
    /// Prepares a connection for a client's request.
    pub fn new(key: u64, id: &CmId, peer: &PeerParam, service: &Service, credits: u32) -> std::io::Result<Session> {
        let context = id.context()?;
        let pd = Pd::new(&context)?;
        let receives = (credits + BACKCHANNEL_CREDITS) as usize;
        let config = EndpointConfig {
            receives,
            receive_bytes: INLINE_PREFERRED_BYTES,
            sends: receives,
            send_bytes: INLINE_PREFERRED_BYTES,
        };
        let endpoint = Endpoint::new(id, &pd, config)?;
        let responder = Responder::new(
            ResponderConfig {
                local: LOCAL,
                credits,
                message_max_bytes: MESSAGE_MAX_BYTES,
                memory_max_bytes: CALL_MEMORY_MAX,
            },
            PrivateData::parse(&peer.private_data),
        );
        let reads = u8::try_from(context.query_device()?.orig_attr.max_qp_init_rd_atom).unwrap_or(u8::MAX);
        let accept = ConnParam {
            private_data: LOCAL.to_bytes().to_vec(),
            // Clients READ nothing.
            responder_resources: 0,
            initiator_depth: peer.initiator_depth.min(reads).clamp(1, READS_IN_PROGRESS),
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        };
        let backend = match service {
            Service::Backend(address) => Some(Backend::connect(*address)?),
            Service::Export(_) => None,
        };
        let client = id.peer_addr().map_or_else(
            || "unknown".into(),
            |addr| match addr.ip() {
                Some(ip) => ip.to_string(),
                None => format!("{addr:?}"),
            },
        );
        Ok(Session {
            key,
            client: client.into(),
            endpoint,
            pool: Pool::new(&pd),
            responder,
            backend,
            accept: Some(accept),
            calls: BTreeMap::new(),
            waiting: VecDeque::new(),
            reply_memory: 0,
            statistics: Statistics::new("call"),
            heard: Instant::now(),
            complaints: 0,
            scratch: Vec::new(),
        })
    }

    /// Prints a line about a message of the client, up to a number of them.
    fn complain(&mut self, about: std::fmt::Arguments<'_>) {
        self.complaints += 1;
        match self.complaints {
            0..COMPLAINTS_MAX => errln!("weft nfs serve: client {}: {about}", self.client),
            COMPLAINTS_MAX => errln!("weft nfs serve: client {}: {about}; no more lines about it", self.client),
            _ => self.complaints = COMPLAINTS_MAX,
        }
    }

    /// Returns the queue pair's side of the connection.
    pub fn endpoint(&self) -> &Endpoint<CallId> {
        &self.endpoint
    }

    /// Accepts the client's request, once.
    pub fn accept(&mut self) -> std::io::Result<()> {
        self.accept.take().map_or(Ok(()), |param| self.endpoint.id().accept(Some(&param)))
    }

    /// Whether the request was accepted.
    pub fn is_accepted(&self) -> bool {
        self.accept.is_none()
    }

    /// Whether the client has not taken the replies that are here.
    pub fn is_full(&self) -> bool {
        self.reply_memory > REPLY_MEMORY_MAX
    }

    /// Handles completions. Returns whether there may be more.
    pub fn on_completions(&mut self, service: &Service) -> Result<bool, End> {
        let mut completed = Vec::new();
        let mut has_more = true;
        for _ in 0..POLLS_PER_TURN {
            has_more = self.endpoint.poll(&mut completed)?;
            for event in completed.drain(..) {
                self.on_completed(event, service)?;
            }
            if !has_more {
                break;
            }
        }
        Ok(has_more)
    }

    fn on_completed(&mut self, event: Completed<CallId>, service: &Service) -> Result<(), End> {
        match event {
            Completed::Received { slot, len, .. } => {
                self.heard = Instant::now();
                let mut scratch = std::mem::take(&mut self.scratch);
                self.endpoint.take_received(slot, len, &mut scratch)?;
                let handled = self.responder.handle_receive(&scratch);
                self.scratch = scratch;
                handled?;
            }
            Completed::Read(id) => self.responder.read_completed(id),
            // No WRITE here asks for a completion of its own.
            Completed::Written(_) => {}
            Completed::Sent(memory) => {
                if let Some(memory) = memory {
                    self.reply_memory -= memory.len();
                    self.pool.give(memory);
                    self.admit_replies(service)?;
                }
            }
        }
        self.act(service)
    }

    /// Carries out the responder's actions.
    fn act(&mut self, service: &Service) -> Result<(), End> {
        while let Some(action) = self.responder.poll() {
            match action {
                ResponderAction::Assemble(id, assembly) => self.assemble(id, &assembly)?,
                ResponderAction::Execute(id) => self.execute(id, service)?,
                ResponderAction::Send(plan) => {
                    self.complain(format_args!("a malformed message was answered by an error"));
                    self.send(&plan, &[], None)?;
                }
                ResponderAction::BackchannelReply(reply) => self.reply_to_backend(reply)?,
                ResponderAction::BackchannelError(xid, error) => {
                    self.complain(format_args!("callback {xid:#x}: {error}"));
                    self.reply_to_backend(system_error(xid))?;
                }
            }
        }
        Ok(())
    }

    fn assemble(&mut self, id: CallId, assembly: &Assembly) -> Result<(), End> {
        let len = assembly.message_len();
        let message = if assembly.reads().is_empty() {
            let mut bytes = vec![0; len];
            assembly.place_inline(&mut bytes);
            Message::Inline(bytes)
        } else {
            let memory = self.pool.take(len).map_err(End::Memory)?;
            assembly.inline_parts().for_each(|(at, bytes)| memory.write(at, bytes));
            for read in assembly.reads() {
                let piece = memory.sge(read.at, read.source.length as usize);
                self.statistics.bytes_in += u64::from(read.source.length);
                self.endpoint.post(Work::Read(id, piece, remote(read.source)))?;
            }
            Message::Registered(memory, len)
        };
        self.calls.insert(id, OpenCall { message, info: CallInfo::default(), reply: None });
        Ok(())
    }

    /// Begins to execute a call whose message is whole.
    fn execute(&mut self, id: CallId, service: &Service) -> Result<(), End> {
        let Some(call) = self.calls.get_mut(&id) else { return Ok(()) };
        let bytes = match &call.message {
            Message::Inline(bytes) => CallInfo::parse(bytes),
            // The results that matter are announced by arguments before the data of a WRITE.
            Message::Registered(memory, len) => CallInfo::parse(&CallBytes::Registered(memory.memory(), *len).head()),
            Message::Gone => CallInfo::default(),
        };
        call.info = bytes;
        match service {
            Service::Export(_) => {
                self.waiting.push_back(id);
                self.admit_replies(service)
            }
            Service::Backend(_) => self.forward(id),
        }
    }

    /// Submits calls in their order while there is memory for their replies; one always fits.
    fn admit_replies(&mut self, service: &Service) -> Result<(), End> {
        let Service::Export(workers) = service else { return Ok(()) };
        while let Some(id) = self.waiting.front().copied() {
            let Some(call) = self.calls.get_mut(&id) else {
                self.waiting.pop_front();
                continue;
            };
            let results = &call.info.eligible.results;
            let needs_memory = results.iter().any(|len| *len > COPIED_MAX);
            let data: usize = results.iter().map(|len| (*len).min(TRANSFER_MAX) as usize).sum();
            if needs_memory {
                if self.reply_memory > 0 && self.reply_memory + data > REPLY_MEMORY_MAX {
                    return Ok(());
                }
                let memory = self.pool.take(REPLY_HEAD + data).map_err(End::Memory)?;
                self.reply_memory += memory.len();
                call.reply = Some(memory);
            }
            let message = match &mut call.message {
                Message::Inline(bytes) => CallBytes::Inline(std::mem::take(bytes)),
                Message::Registered(memory, len) => CallBytes::Registered(memory.memory(), *len),
                Message::Gone => CallBytes::Inline(Vec::new()),
            };
            let memory = call.reply.as_ref().map(Buffer::memory);
            workers.submit(self.key, Job { session: self.key, call: id, client: self.client.clone(), message, memory });
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Handles an executed call.
    pub fn on_executed(&mut self, done: Done, service: &Service) -> Result<(), End> {
        let Some(mut call) = self.calls.remove(&done.call) else { return Ok(()) };
        let message = match (done.reply.message, call.reply.take()) {
            (ReplyBytes::Registered(len), Some(memory)) => ReplyMessage::Registered(memory, len),
            (ReplyBytes::Registered(_), None) => return Ok(()),
            (ReplyBytes::Bytes(bytes), memory) => {
                if let Some(memory) = memory {
                    self.reply_memory -= memory.len();
                    self.pool.give(memory);
                }
                ReplyMessage::Bytes(bytes)
            }
        };
        if let Message::Registered(memory, _) = call.message {
            self.pool.give(memory);
        }
        self.reply(done.call, message, &done.reply.results)?;
        self.admit_replies(service)?;
        self.act(service)
    }

    /// Sends a reply.
    fn reply(&mut self, id: CallId, message: ReplyMessage, results: &[Range<usize>]) -> Result<(), End> {
        let len = match &message {
            ReplyMessage::Bytes(bytes) => bytes.len(),
            ReplyMessage::Registered(_, len) => *len,
        };
        let planned = self.responder.reply(id, len, results).or_else(|_| self.responder.reply(id, len, &[]));
        let Ok(ReplyPlan { writes, send, refusal }) = planned else {
            if let ReplyMessage::Registered(memory, _) = message {
                self.reply_memory -= memory.len();
                self.pool.give(memory);
            }
            return Ok(());
        };
        if let Some(refusal) = refusal {
            self.complain(format_args!("a reply became ERR_CHUNK: {refusal}"));
        }
        self.statistics.answered += 1;
        let (bytes, memory) = match message {
            ReplyMessage::Registered(memory, _) => (inline_part(&send, &memory), Some(memory)),
            ReplyMessage::Bytes(bytes) if writes.is_empty() => (send.to_bytes(&bytes), None),
            ReplyMessage::Bytes(bytes) => {
                let memory = self.pool.take(len).map_err(End::Memory)?;
                self.reply_memory += memory.len();
                memory.write(0, &bytes);
                (send.to_bytes(&bytes), Some(memory))
            }
        };
        if let Some(memory) = &memory {
            for write in writes {
                let piece = memory.sge(write.source.start, write.source.len());
                self.statistics.bytes_out += write.source.len() as u64;
                self.endpoint.post(Work::Write(piece, remote(write.target)))?;
            }
        }
        Ok(self.endpoint.post(Work::Send { bytes, invalidate: send.invalidate, holds: memory })?)
    }

    fn send(&mut self, plan: &SendPlan, message: &[u8], holds: Option<Buffer>) -> Result<(), End> {
        Ok(self.endpoint.post(Work::Send { bytes: plan.to_bytes(message), invalidate: plan.invalidate, holds })?)
    }

    /// Sends a call to the backend.
    fn forward(&mut self, id: CallId) -> Result<(), End> {
        let (Some(call), Some(backend)) = (self.calls.get_mut(&id), &mut self.backend) else { return Ok(()) };
        let (xid, message) = match std::mem::replace(&mut call.message, Message::Gone) {
            Message::Inline(bytes) => (wire::xid(&bytes), Outgoing::Bytes(bytes)),
            Message::Registered(memory, len) => {
                let mut first = [0; 4];
                memory.read(0, &mut first);
                (wire::xid(&first), Outgoing::Registered(memory, len))
            }
            Message::Gone => return Ok(()),
        };
        let mut done = Vec::new();
        backend.call(xid.unwrap_or(0), id, message, &mut done).map_err(End::Backend)?;
        self.take_back(done);
        Ok(())
    }

    fn take_back(&mut self, sent: Vec<Outgoing>) {
        for message in sent {
            if let Outgoing::Registered(memory, _) = message {
                self.pool.give(memory);
            }
        }
    }

    fn reply_to_backend(&mut self, message: Vec<u8>) -> Result<(), End> {
        let Some(backend) = &mut self.backend else { return Ok(()) };
        let mut done = Vec::new();
        backend.reply(message, &mut done).map_err(End::Backend)?;
        self.take_back(done);
        self.call_back()
    }

    /// Handles events of the backend's socket.
    pub fn on_backend(&mut self, service: &Service) -> Result<(), End> {
        let Some(backend) = &mut self.backend else { return Ok(()) };
        if !backend.is_connected() {
            backend.finish_connecting().map_err(End::Backend)?;
            if !backend.is_connected() {
                return Ok(());
            }
            self.accept().map_err(End::Memory)?;
        }
        let Some(backend) = &mut self.backend else { return Ok(()) };
        let (mut sent, mut records) = (Vec::new(), Vec::new());
        let flushed = backend.flush(&mut sent);
        let received = backend.receive(&mut records);
        self.take_back(sent);
        for record in records {
            self.on_record(record)?;
        }
        self.act(service)?;
        flushed.and(received).map_err(End::Backend)
    }

    fn on_record(&mut self, record: Vec<u8>) -> Result<(), End> {
        let Some(backend) = &mut self.backend else { return Ok(()) };
        match (wire::message_type(&record), wire::xid(&record)) {
            (Some(MessageType::Reply), Some(xid)) => {
                // A reply to no call is discarded, as a client over TCP does.
                let Some(id) = backend.answered(xid) else { return Ok(()) };
                let Some(call) = self.calls.remove(&id) else { return Ok(()) };
                let results = call.info.results_of(&record);
                self.reply(id, ReplyMessage::Bytes(record), &results)
            }
            (Some(MessageType::Call), Some(xid)) => {
                if backend.callbacks.len() >= BACKCHANNEL_WAITING_MAX {
                    return self.reply_to_backend(system_error(xid));
                }
                backend.callbacks.push_back(record);
                self.call_back()
            }
            _ => Ok(()),
        }
    }

    /// Sends callbacks to the client while it has credits for them.
    fn call_back(&mut self) -> Result<(), End> {
        while let Some(message) = self.backend.as_mut().and_then(|backend| backend.callbacks.pop_front()) {
            match self.responder.call_back(&message) {
                Ok(plan) => self.send(&plan, &message, None)?,
                Err(BackchannelError::NoCredit) => {
                    self.backend.iter_mut().for_each(|backend| backend.callbacks.push_front(message.clone()));
                    break;
                }
                Err(error) => {
                    let xid = wire::xid(&message).unwrap_or(0);
                    self.complain(format_args!("callback {xid:#x}: {error}"));
                    let mut done = Vec::new();
                    if let Some(backend) = &mut self.backend {
                        backend.reply(system_error(xid), &mut done).map_err(End::Backend)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns a segment as verbs name memory.
fn remote(segment: wire::Segment) -> Remote {
    Remote { addr: segment.offset, rkey: segment.handle }
}

/// Returns the bytes of a SEND whose message is in registered memory.
fn inline_part(send: &SendPlan, memory: &Buffer) -> Vec<u8> {
    let mut bytes = send.header.clone();
    for range in &send.body {
        let at = bytes.len();
        bytes.resize(at + range.len(), 0);
        memory.read(range.start, bytes.get_mut(at..).unwrap_or_default());
    }
    bytes
}
