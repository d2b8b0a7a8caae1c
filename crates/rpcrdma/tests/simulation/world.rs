//! Both ends, the connection between them, and the programs above them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;

use weft_rpcrdma::limits::MESSAGE_MAX_BYTES;
use weft_rpcrdma::nfs::CallInfo;
use weft_rpcrdma::wire::{Body, Header, PrivateData, Segment};
use weft_rpcrdma::{
    BackchannelError, CallError, CallId, OfferedMemory, RemoteRead, ReplyBody, ReplyPlan, Requester, RequesterConfig,
    RequesterEvent, Responder, ResponderAction, ResponderConfig, SendPlan,
};

use crate::client_memory::{AccessRefused, ClientMemory};
use crate::forge::forge;
use crate::rng::Rng;
use crate::upper_layer::{DATA_MAX, Exchange, PATHS_MAX, REST_MAX, backchannel, exchange};

/// End whose messages are forged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forger {
    Requester,
    Responder,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub replies: u64,
    /// Replies with results in write chunks.
    pub restored: u64,
    pub long_calls: u64,
    pub long_replies: u64,
    pub reads: u64,
    pub backchannel: u64,
    pub remote_invalidations: u64,
    pub abandoned: u64,
    /// RDMA_ERROR messages.
    pub errors: u64,
    /// Accesses that the client's adapter refused.
    pub refused_accesses: u64,
    /// Peers that broke the protocol.
    pub faults: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.replies += other.replies;
        self.restored += other.restored;
        self.long_calls += other.long_calls;
        self.long_replies += other.long_replies;
        self.reads += other.reads;
        self.backchannel += other.backchannel;
        self.remote_invalidations += other.remote_invalidations;
        self.abandoned += other.abandoned;
        self.errors += other.errors;
        self.refused_accesses += other.refused_accesses;
        self.faults += other.faults;
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call,
    ReachServer,
    CompleteRead,
    Execute,
    ReachClient,
    CallBack,
    Abandon,
}

/// The end of a connection, with its reason.
struct Ended;

const STEPS_MAX: usize = 20_000;

pub struct World {
    rng: Rng,
    forger: Option<Forger>,
    requester: Requester,
    responder: Responder,
    ends: [PrivateData; 2],
    credits: u32,
    memory_max: usize,
    memory: ClientMemory,
    to_send: Vec<u32>,
    exchanges: BTreeMap<u32, Exchange>,
    waiting: Vec<u32>,
    to_server: VecDeque<Vec<u8>>,
    to_client: VecDeque<(Vec<u8>, Option<u32>)>,
    /// Messages under assembly or execution.
    buffers: BTreeMap<CallId, Vec<u8>>,
    reads: Vec<(CallId, RemoteRead)>,
    whole: Vec<CallId>,
    callbacks_left: u32,
    callbacks: BTreeMap<u32, Exchange>,
    /// All segments that headers offered.
    offered: Vec<Segment>,
    tally: Tally,
}

impl World {
    pub fn new(seed: u64, forger: Option<Forger>) -> World {
        let mut rng = Rng::new(seed);
        let mut end = || PrivateData {
            remote_invalidation: !rng.once_in(3),
            send_bytes: rng.within(1..=8) * 1024,
            receive_bytes: rng.within(1..=8) * 1024,
        };
        let ends = [end(), end()].map(|end| PrivateData::parse(&end.to_bytes()));
        let credits = rng.within(1..=8) as u32;
        let memory_max = rng.within(10_000..=400_000);
        let requester = RequesterConfig {
            local: ends[0],
            peer: ends[1],
            credits: rng.within(1..=12) as u32,
            reply_max_bytes: DATA_MAX + REST_MAX + PATHS_MAX,
        };
        let responder = ResponderConfig {
            local: ends[1],
            credits,
            message_max_bytes: MESSAGE_MAX_BYTES,
            memory_max_bytes: memory_max,
        };
        let to_send: Vec<u32> = (0..rng.within(1..=25) as u32).collect();
        let exchanges = to_send.iter().map(|xid| (*xid, exchange(&mut rng, *xid))).collect();
        World {
            forger,
            requester: Requester::new(requester),
            responder: Responder::new(responder, ends[0]),
            ends,
            credits,
            memory_max,
            memory: ClientMemory::new(seed),
            to_send,
            exchanges,
            waiting: Vec::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            buffers: BTreeMap::new(),
            reads: Vec::new(),
            whole: Vec::new(),
            callbacks_left: rng.within(0..=4) as u32,
            callbacks: BTreeMap::new(),
            offered: Vec::new(),
            tally: Tally::default(),
            rng,
        }
    }

    /// Runs until nothing is left, or a fault ends the connection.
    pub fn run(mut self) -> Tally {
        for _ in 0..STEPS_MAX {
            let Some(step) = self.choose() else { break };
            if self.step(step).is_err() {
                break;
            }
            self.check_bounds();
        }
        if self.forger.is_none() {
            assert!(self.to_send.is_empty() && self.waiting.is_empty() && self.callbacks.is_empty(), "all is answered");
            assert_eq!((self.responder.unanswered(), self.responder.memory_used()), (0, 0));
            assert_eq!(self.memory.valid_keys(), 0, "keys are valid no longer than their calls");
        }
        self.requester.abort(&mut self.memory);
        assert_eq!(self.memory.valid_keys(), 0, "the end of a connection makes all keys invalid");
        self.tally
    }

    fn choose(&mut self) -> Option<Step> {
        let idle = [
            (Step::Call, !self.to_send.is_empty() && self.requester.credits_left() > 0),
            (Step::ReachServer, !self.to_server.is_empty()),
            (Step::CompleteRead, !self.reads.is_empty()),
            (Step::Execute, !self.whole.is_empty()),
            (Step::ReachClient, !self.to_client.is_empty()),
            (Step::CallBack, self.callbacks_left > 0),
        ];
        let possible: Vec<Step> = idle.iter().filter(|(_, possible)| *possible).map(|(step, _)| *step).collect();
        let step = *possible.get(self.rng.within(0..=possible.len().max(1) - 1))?;
        Some(if self.rng.once_in(60) { Step::Abandon } else { step })
    }

    fn step(&mut self, step: Step) -> Result<(), Ended> {
        match step {
            Step::Call => self.call(),
            Step::ReachServer => return self.reach_server(),
            Step::CompleteRead => return self.complete_read(),
            Step::Execute => return self.execute(),
            Step::ReachClient => return self.reach_client(),
            Step::CallBack => self.call_back(),
            Step::Abandon => self.abandon(),
        }
        Ok(())
    }

    fn check_bounds(&self) {
        assert!(self.responder.unanswered() <= self.credits as usize);
        let longest = self.buffers.values().map(Vec::len).max().unwrap_or(0);
        assert!(self.responder.memory_used() <= self.memory_max.max(longest));
    }

    fn call(&mut self) {
        let at = self.rng.within(0..=self.to_send.len() - 1);
        let xid = self.to_send[at];
        let message = self.exchanges[&xid].call.clone();
        let info = CallInfo::parse(&message);
        self.memory.messages.insert(xid, message.clone());
        let before = self.memory.valid_keys();
        match self.requester.call(&message, &info.eligible, &mut self.memory) {
            Ok(send) => {
                self.to_send.swap_remove(at);
                self.waiting.push(xid);
                self.send_to_server(&send, &message);
            }
            Err(CallError::Registration(_)) => {
                assert_eq!(self.memory.valid_keys(), before);
                self.memory.take(xid);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn send_to_server(&mut self, send: &SendPlan, message: &[u8]) {
        let mut bytes = send.to_bytes(message);
        assert!(bytes.len() <= self.ends[0].threshold_to(&self.ends[1]), "the SEND fits into a receive");
        if self.forger == Some(Forger::Requester) && self.rng.once_in(4) {
            if self.rng.once_in(8) {
                self.to_server.push_back(bytes.clone());
            }
            bytes = forge(&mut self.rng, bytes);
        }
        self.to_server.push_back(bytes);
    }

    fn reach_server(&mut self) -> Result<(), Ended> {
        let Some(bytes) = self.to_server.pop_front() else { return Ok(()) };
        if let Ok((Header { body: Body::Msg(lists) | Body::NoMsg(lists), .. }, _)) = Header::parse(&bytes) {
            self.offered.extend(lists.segments().copied());
        }
        let handled = self.responder.handle_receive(&bytes);
        handled.map_err(|fault| self.fault(&fault))?;
        self.serve();
        Ok(())
    }

    /// Carries out the responder's actions.
    fn serve(&mut self) {
        while let Some(action) = self.responder.poll() {
            match action {
                ResponderAction::Assemble(id, assembly) => {
                    let mut buffer = vec![0xbb; assembly.message_len()];
                    assembly.place_inline(&mut buffer);
                    self.buffers.insert(id, buffer);
                    self.reads.extend(assembly.reads().iter().map(|read| (id, *read)));
                }
                ResponderAction::Execute(id) => self.whole.push(id),
                ResponderAction::Send(send) => self.send_to_client(&send, &[]),
                ResponderAction::BackchannelReply(message) => self.take_callback_reply(&message),
                ResponderAction::BackchannelError(..) => self.tally.errors += 1,
            }
        }
    }

    fn take_callback_reply(&mut self, message: &[u8]) {
        let xid = weft_rpcrdma::wire::xid(message).expect("a message");
        let expected = self.callbacks.remove(&xid).expect("called");
        if self.forger.is_none() {
            assert_eq!(message, expected.reply);
        }
        self.tally.backchannel += 1;
    }

    /// READs of one connection complete in order; here they need not.
    fn complete_read(&mut self) -> Result<(), Ended> {
        let at = self.rng.within(0..=self.reads.len() - 1);
        let (id, read) = self.reads.swap_remove(at);
        self.assert_offered(read.source);
        let data = self.memory.read(read.source).map_err(|refused| self.refused(&refused))?;
        self.buffers.get_mut(&id).expect("assembled")[read.at..read.at + data.len()].copy_from_slice(&data);
        self.responder.read_completed(id);
        self.tally.reads += 1;
        self.serve();
        Ok(())
    }

    /// Executes a call: finds it by its transaction, and answers with its reply.
    fn execute(&mut self) -> Result<(), Ended> {
        let at = self.rng.within(0..=self.whole.len() - 1);
        let id = self.whole.swap_remove(at);
        let call = self.buffers.remove(&id).expect("assembled");
        let found = weft_rpcrdma::wire::xid(&call).and_then(|xid| self.exchanges.get(&xid));
        let reply = match found {
            Some(exchange) => {
                assert!(self.forger == Some(Forger::Requester) || exchange.call == call, "the call arrives as it was");
                exchange.reply.clone()
            }
            None => self.rng.bytes(100),
        };
        let results = CallInfo::parse(&call).results_of(&reply);
        let plan = self.responder.reply(id, reply.len(), &results).expect("waits for a reply");
        self.serve();
        self.return_reply(&plan, &reply, results.len())
    }

    fn return_reply(&mut self, plan: &ReplyPlan, reply: &[u8], results: usize) -> Result<(), Ended> {
        for write in &plan.writes {
            self.assert_offered(write.target);
            let data = &reply[write.source.clone()];
            self.memory.write(write.target, data).map_err(|refused| self.refused(&refused))?;
        }
        let written: usize = plan.writes.iter().map(|write| write.source.len()).sum();
        let inline: usize = plan.send.body.iter().map(|range| range.len()).sum();
        match &plan.refusal {
            Some(refusal) => assert_eq!(self.forger, Some(Forger::Requester), "{refusal}"),
            None => assert!(written + inline + 3 * results >= reply.len(), "all but padding is returned"),
        }
        self.send_to_client(&plan.send, reply);
        Ok(())
    }

    fn send_to_client(&mut self, send: &SendPlan, message: &[u8]) {
        let mut bytes = send.to_bytes(message);
        assert!(bytes.len() <= self.ends[1].threshold_to(&self.ends[0]), "the SEND fits into a receive");
        let mut invalidate = send.invalidate;
        if self.forger == Some(Forger::Responder) && self.rng.once_in(4) {
            bytes = forge(&mut self.rng, bytes);
            if self.rng.once_in(8) {
                invalidate = self.offered.get(self.rng.within(0..=20)).map(|segment| segment.handle);
            }
        }
        self.to_client.push_back((bytes, invalidate));
    }

    fn reach_client(&mut self) -> Result<(), Ended> {
        let Some((bytes, invalidate)) = self.to_client.pop_front() else { return Ok(()) };
        if let Some(key) = invalidate {
            self.memory.invalidate_remotely(key).map_err(|refused| self.refused(&refused))?;
            self.tally.remote_invalidations += 1;
        }
        let event = self.requester.handle_receive(&bytes, invalidate, &mut self.memory);
        match event.map_err(|fault| self.fault(&fault))? {
            None => {}
            Some(RequesterEvent::Reply { xid, body, results }) => self.take_reply(xid, &body, &results, &bytes),
            Some(RequesterEvent::Error { xid, error }) => {
                assert!(self.forger.is_some(), "{error}");
                self.tally.errors += 1;
                self.waiting.retain(|waiting| *waiting != xid);
            }
            Some(RequesterEvent::BackchannelCall(range)) => self.answer_callback(&bytes[range]),
        }
        Ok(())
    }

    /// Makes a reply whole, and compares it.
    fn take_reply(&mut self, xid: u32, body: &ReplyBody, results: &[usize], payload: &[u8]) {
        assert!(!self.memory.has_keys(xid), "no key is valid when the reply is handed over");
        self.waiting.retain(|waiting| *waiting != xid);
        let memory = self.memory.take(xid);
        let result = |index: usize, len: usize| {
            let has_index =
                |memory: &OfferedMemory| matches!(memory, OfferedMemory::Result { index: i, .. } if *i == index);
            let bytes = memory.iter().find(|(memory, _)| has_index(memory)).map_or(&[][..], |(_, bytes)| bytes);
            &bytes[..len]
        };
        let results: Vec<&[u8]> = results.iter().enumerate().map(|(index, len)| result(index, *len)).collect();
        let message = match body {
            ReplyBody::Inline(range) => &payload[range.clone()],
            ReplyBody::Long(len) => {
                self.tally.long_replies += 1;
                let reply = memory.iter().find(|(memory, _)| matches!(memory, OfferedMemory::Reply { .. }));
                &reply.expect("offered").1[..*len]
            }
        };
        let exchange = &self.exchanges[&xid];
        let whole = CallInfo::parse(&exchange.call).restore(message, &results);
        if self.forger.is_none() {
            assert_eq!(whole.as_ref(), Some(&exchange.reply), "the reply arrives as it was");
        }
        self.tally.replies += 1;
        self.tally.restored += u64::from(results.iter().any(|result| !result.is_empty()));
        let long_call =
            memory.iter().any(|(memory, _)| matches!(memory, OfferedMemory::Call(range) if range.start == 0));
        self.tally.long_calls += u64::from(long_call);
    }

    fn call_back(&mut self) {
        let xid = 1000 + self.callbacks_left;
        let exchange = backchannel(&mut self.rng, xid);
        match self.responder.call_back(&exchange.call) {
            Ok(send) => {
                self.send_to_client(&send, &exchange.call);
                self.callbacks.insert(xid, exchange);
                self.callbacks_left -= 1;
            }
            // A forging client keeps the credit.
            Err(BackchannelError::NoCredit) if self.forger.is_some() => self.callbacks_left -= 1,
            Err(BackchannelError::NoCredit) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn answer_callback(&mut self, message: &[u8]) {
        let xid = weft_rpcrdma::wire::xid(message).expect("a message");
        let Some(exchange) = self.callbacks.get(&xid).cloned() else { return };
        let send = self.requester.reply_back(&exchange.reply).expect("called");
        self.send_to_server(&send, &exchange.reply);
    }

    /// Gives up a call without keys: with keys, the server's next access would end the connection.
    fn abandon(&mut self) {
        let Some(xid) = self.waiting.iter().copied().find(|xid| !self.memory.has_keys(*xid)) else { return };
        assert!(self.requester.abandon(xid, &mut self.memory));
        self.waiting.retain(|waiting| *waiting != xid);
        self.tally.abandoned += 1;
    }

    /// Only memory that a header offered is ever named.
    fn assert_offered(&self, access: Segment) {
        let holds = |offered: &Segment| {
            let ahead = access.offset.wrapping_sub(offered.offset);
            let end = ahead.checked_add(u64::from(access.length));
            offered.handle == access.handle && end.is_some_and(|end| end <= u64::from(offered.length))
        };
        assert!(self.offered.iter().any(holds), "{access:?} was not offered");
    }

    fn refused(&mut self, refused: &AccessRefused) -> Ended {
        assert!(self.forger.is_some(), "{refused:?}");
        self.tally.refused_accesses += 1;
        Ended
    }

    /// A forging end makes its peer break the protocol, too: by credits that it did not grant, for instance.
    fn fault(&mut self, fault: &weft_rpcrdma::PeerFault) -> Ended {
        assert!(self.forger.is_some(), "{fault}");
        self.tally.faults += 1;
        Ended
    }
}
