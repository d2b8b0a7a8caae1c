//! Connection to a server, from the resolution of its address on.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_TCP,
};
use weft_client::Which;
use weft_client::rdmacm::{CmId, CmLibrary, ConnParam, Event, EventChannel, IdKey, PeerParam, SockAddr, lookup};
use weft_client::verbs::Pd;
use weft_rdma_service::limits::RETRIES;
use weft_rdma_service::{Completed, Endpoint, EndpointConfig, Work};
use weft_rpcrdma::limits::{BACKCHANNEL_CREDITS, INLINE_PREFERRED_BYTES};
use weft_rpcrdma::nfs::CallInfo;
use weft_rpcrdma::wire::{self, PrivateData};
use weft_rpcrdma::{CallError, OfferedMemory, ReplyBody, Requester, RequesterConfig, RequesterEvent};
use weft_tool::errno;

use super::answer::{Answer, Heard};
use super::lost::Lost;
use super::offers::Offers;
use crate::limits::{CONNECTS_WITHIN, READS_IN_PROGRESS, REPLY_UNKNOWN_MAX, SEGMENTS_OF_CALL_MAX};
use crate::protocol::rpc::system_error;

/// Time limit of one step of the connection manager, in milliseconds.
const STEP_MS: i32 = 2000;
/// Infinite: a server posts its receives before it accepts, but loses time on other things.
const RNR_RETRIES: u8 = 7;
/// Batches of completions in one turn.
const POLLS_PER_TURN: usize = 8;

/// Opens a channel for events of connections.
///
/// # Errors
/// There is no RDMA device.
pub fn open_channel(which: Which) -> Result<EventChannel> {
    EventChannel::new(CmLibrary::load(which)?)
        .map_err(|error| anyhow::anyhow!("{}", errno::text(&error)))
        .context("no RDMA device; `weft status` and `weft link` show Weft's")
}

/// Looks up a server's address.
///
/// # Errors
/// The name is unknown.
pub fn resolve(host: &str, port: u16) -> Result<SockAddr> {
    lookup(Some(host), Some(&port.to_string()), 0).map_err(|error| anyhow::anyhow!("{host}: {error}"))
}

/// Connection to a server. Dropping it ends the connection.
#[derive(Debug)]
pub struct Connection {
    phase: Phase,
    id: CmId,
    credits: u32,
    deadline: Instant,
}

#[derive(Debug)]
enum Phase {
    Resolving,
    Connecting(Box<Parts>),
    Ready(Box<Link>),
    /// A failed step.
    Ended,
}

/// Queue pair and memory of a connection.
#[derive(Debug)]
struct Parts {
    endpoint: Endpoint<()>,
    offers: Offers,
    local: PrivateData,
}

/// An established connection.
#[derive(Debug)]
struct Link {
    parts: Parts,
    requester: Requester,
    /// Calls that wait for a credit or for memory.
    waiting: VecDeque<Arc<Vec<u8>>>,
    /// Unanswered calls.
    open: BTreeMap<u32, CallInfo>,
    scratch: Vec<u8>,
}

impl Connection {
    /// Begins to connect; the server may be sent `credits` calls at a time.
    pub fn start(channel: &EventChannel, server: &SockAddr, credits: u32) -> Result<Connection, Lost> {
        let id = CmId::new(channel, RDMA_PS_TCP)?;
        id.resolve_addr(None, server, STEP_MS)?;
        Ok(Connection { phase: Phase::Resolving, id, credits, deadline: Instant::now() + CONNECTS_WITHIN })
    }

    /// Returns the key of its events.
    pub fn key(&self) -> IdKey {
        self.id.key()
    }

    /// Returns the time at which an attempt to connect is given up.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_ready()).then_some(self.deadline)
    }

    /// Whether calls can be made.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready(_))
    }

    /// Returns the descriptor of completions, once the connection is there.
    pub fn completions(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match &self.phase {
            Phase::Ready(link) => Some(link.parts.endpoint.as_fd()),
            _ => None,
        }
    }

    /// Handles an event of the connection manager. Returns whether the connection became ready.
    pub fn on_event(&mut self, event: &Event) -> Result<bool, Lost> {
        match (event.kind, std::mem::replace(&mut self.phase, Phase::Ended)) {
            (RDMA_CM_EVENT_ADDR_RESOLVED, Phase::Resolving) => {
                self.id.resolve_route(STEP_MS)?;
                self.phase = Phase::Resolving;
            }
            (RDMA_CM_EVENT_ROUTE_RESOLVED, Phase::Resolving) => {
                self.phase = Phase::Connecting(Box::new(self.connect()?))
            }
            (RDMA_CM_EVENT_ESTABLISHED, Phase::Connecting(parts)) => {
                let peer = event.peer.clone().unwrap_or_default();
                self.phase = Phase::Ready(Box::new(Link::new(*parts, &peer, self.credits)));
                return Ok(true);
            }
            (kind, _) => {
                let name = self.id.library().event_name(kind);
                return Err(Lost::Event(name.trim_start_matches("RDMA_CM_EVENT_").to_lowercase().replace('_', " ")));
            }
        }
        Ok(false)
    }

    fn connect(&self) -> Result<Parts, Lost> {
        let pd = Pd::new(&self.id.context()?)?;
        let receives = (self.credits + BACKCHANNEL_CREDITS) as usize;
        let config = EndpointConfig {
            receives,
            receive_bytes: INLINE_PREFERRED_BYTES,
            sends: receives,
            send_bytes: INLINE_PREFERRED_BYTES,
        };
        let endpoint = Endpoint::new(&self.id, &pd, config)?;
        let offers = Offers::new(&pd)?;
        let local = PrivateData {
            remote_invalidation: offers.takes_invalidation(),
            send_bytes: INLINE_PREFERRED_BYTES,
            receive_bytes: INLINE_PREFERRED_BYTES,
        };
        let reads = u8::try_from(pd.context().query_device()?.orig_attr.max_qp_rd_atom).unwrap_or(u8::MAX);
        self.id.connect(&ConnParam {
            private_data: local.to_bytes().to_vec(),
            // The server READs, and this end does not.
            responder_resources: reads.clamp(1, READS_IN_PROGRESS),
            initiator_depth: 0,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            qp_num: 0,
        })?;
        Ok(Parts { endpoint, offers, local })
    }

    /// Sends a call, or keeps it until the server has a credit for it. A call whose transaction is in use is ignored: the
    /// reply to the first one answers it.
    pub fn call(&mut self, message: Arc<Vec<u8>>) -> Result<(), Lost> {
        let Phase::Ready(link) = &mut self.phase else { return Ok(()) };
        link.waiting.push_back(message);
        link.send_waiting()
    }

    /// Returns the bytes of calls that wait for a credit.
    pub fn waiting_bytes(&self) -> usize {
        match &self.phase {
            Phase::Ready(link) => link.waiting.iter().map(|message| message.len()).sum(),
            _ => 0,
        }
    }

    /// Sends the reply to a callback. One that cannot be sent becomes SYSTEM_ERR.
    pub fn reply_back(&mut self, message: &[u8]) -> Result<(), Lost> {
        let Phase::Ready(link) = &mut self.phase else { return Ok(()) };
        let error = || wire::xid(message).map(system_error).unwrap_or_default();
        let (plan, bytes) = match link.requester.reply_back(message) {
            Ok(plan) => (plan, message.to_vec()),
            Err(_) => {
                let error = error();
                // A reply to no callback is discarded.
                let Ok(plan) = link.requester.reply_back(&error) else { return Ok(()) };
                (plan, error)
            }
        };
        let bytes = plan.to_bytes(&bytes);
        Ok(link.parts.endpoint.post(Work::Send { bytes, invalidate: None, holds: None })?)
    }

    /// Takes the event that made the descriptor of completions readable.
    pub fn on_readable(&self) -> Result<(), Lost> {
        match &self.phase {
            Phase::Ready(link) => Ok(link.parts.endpoint.on_readable()?),
            _ => Ok(()),
        }
    }

    /// Handles completions. Returns whether there may be more.
    pub fn on_completions(&mut self, heard: &mut Vec<Heard>) -> Result<bool, Lost> {
        match &mut self.phase {
            Phase::Ready(link) => link.on_completions(heard),
            _ => Ok(false),
        }
    }

    /// Disconnects. Fails if the server was first, which does not matter.
    pub fn disconnect(&self) {
        if self.is_ready() {
            let _ = self.id.disconnect();
        }
    }
}

impl Link {
    fn new(parts: Parts, peer: &PeerParam, credits: u32) -> Link {
        let peer = PrivateData::parse(&peer.private_data);
        let config = RequesterConfig { local: parts.local, peer, credits, reply_max_bytes: REPLY_UNKNOWN_MAX };
        Link {
            parts,
            requester: Requester::new(config),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    fn send_waiting(&mut self) -> Result<(), Lost> {
        while let Some(message) = self.waiting.front() {
            let xid = wire::xid(message).unwrap_or(0);
            if self.open.contains_key(&xid) {
                self.waiting.pop_front();
                continue;
            }
            if self.parts.endpoint.room() < SEGMENTS_OF_CALL_MAX {
                return Ok(());
            }
            let info = CallInfo::parse(message);
            let planned = self.requester.call(message, &info.eligible, &mut self.parts.offers.of_call(message));
            let plan = match planned {
                Ok(plan) => plan,
                Err(CallError::NoCredit) => return Ok(()),
                Err(error) => {
                    let unsent = self.parts.offers.take(xid);
                    self.parts.offers.give(unsent);
                    // Memory comes back with the reply to another call.
                    if matches!(error, CallError::Registration(_)) && !self.open.is_empty() {
                        return Ok(());
                    }
                    return Err(Lost::Call(io::Error::other(error)));
                }
            };
            self.parts.offers.bind(xid, &mut self.parts.endpoint)?;
            let bytes = plan.to_bytes(message);
            self.open.insert(xid, info);
            self.waiting.pop_front();
            self.parts.endpoint.post(Work::Send { bytes, invalidate: None, holds: None })?;
        }
        Ok(())
    }

    fn on_completions(&mut self, heard: &mut Vec<Heard>) -> Result<bool, Lost> {
        let mut completed = Vec::new();
        for _ in 0..POLLS_PER_TURN {
            let has_more = self.parts.endpoint.poll(&mut completed)?;
            for event in completed.drain(..) {
                if let Completed::Received { slot, len, invalidated } = event {
                    heard.extend(self.on_received(slot, len, invalidated)?);
                }
            }
            self.send_waiting()?;
            if !has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn on_received(&mut self, slot: usize, len: usize, invalidated: Option<u32>) -> Result<Option<Heard>, Lost> {
        let mut payload = std::mem::take(&mut self.scratch);
        self.parts.endpoint.take_received(slot, len, &mut payload)?;
        if let Some(key) = invalidated {
            self.parts.offers.invalidated(key);
        }
        let event = self.requester.handle_receive(&payload, invalidated, &mut self.parts.offers.of_call(&[]))?;
        let heard = match event {
            None => None,
            Some(RequesterEvent::BackchannelCall(range)) => {
                Some(Heard::Callback(payload.get(range).unwrap_or_default().to_vec()))
            }
            Some(RequesterEvent::Error { xid, .. }) => {
                self.open.remove(&xid);
                let offers = self.parts.offers.take(xid);
                self.parts.offers.give(offers);
                Some(Heard::Refused(xid))
            }
            Some(RequesterEvent::Reply { xid, body, results }) => {
                Some(Heard::Answer(self.answer(xid, &body, &results, &payload)?))
            }
        };
        self.scratch = payload;
        Ok(heard)
    }

    fn answer(&mut self, xid: u32, body: &ReplyBody, lengths: &[usize], payload: &[u8]) -> Result<Answer, Lost> {
        let info = self.open.remove(&xid).unwrap_or_default();
        let offers = self.parts.offers.take(xid);
        let mut head = match body {
            ReplyBody::Inline(range) => payload.get(range.clone()).unwrap_or_default().to_vec(),
            ReplyBody::Long(_) => Vec::new(),
        };
        let mut results = vec![Vec::new(); lengths.len()];
        for offer in &offers {
            match (&offer.memory, body) {
                (OfferedMemory::Result { index, .. }, _) => {
                    let len = lengths.get(*index).copied().unwrap_or(0);
                    if let Some(result) = results.get_mut(*index) {
                        *result = offer.bytes(len);
                    }
                }
                (OfferedMemory::Reply { .. }, ReplyBody::Long(len)) => head = offer.bytes(*len),
                _ => {}
            }
        }
        self.parts.offers.give(offers);
        if wire::xid(&head) != Some(xid) {
            return Err(Lost::Reply);
        }
        Ok(Answer { xid, head, results, info })
    }
}
