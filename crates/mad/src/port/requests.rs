//! Pending datagrams of a port's agents, awaiting a response or acknowledgements of a transfer.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weft_verbs::{Duration, Instant};
use weft_wire::mad::{Class, Mad};

use super::peer::Peer;
use crate::AgentId;
use crate::limits::{
    OUTGOING_BYTES_MAX, OUTGOING_BYTES_PER_PEER_MAX, OUTGOING_TRANSFERS_MAX, REQUESTS_MAX, RMPP_ACK_TIMEOUT,
};
use crate::rmpp::Sender;

/// Pending datagram or transfer.
#[derive(Debug)]
pub(super) struct Request<P> {
    pub agent: AgentId,
    pub peer: P,
    /// The datagram; of a transfer, its first bytes.
    pub mad: Mad,
    /// Whether it is a response itself, which awaits only acknowledgements.
    pub response: bool,
    /// The transfer, if it is one.
    pub sender: Option<Sender>,
    pub timeout: Duration,
    /// Retries in total after the first try; a transfer that makes progress gets all of them back.
    retries: u32,
    left: u32,
    pub deadline: Instant,
}

impl<P> Request<P> {
    pub fn new(
        agent: AgentId,
        peer: P,
        mad: Mad,
        response: bool,
        sender: Option<Sender>,
        timeout: Duration,
        retries: u32,
    ) -> Request<P> {
        Request { agent, peer, mad, response, sender, timeout, retries, left: retries, deadline: Instant(u64::MAX) }
    }

    /// Returns how long the current try waits.
    pub fn wait(&self) -> Duration {
        match &self.sender {
            Some(sender) if !sender.is_done() && self.timeout.is_zero() => RMPP_ACK_TIMEOUT,
            Some(sender) if !sender.is_done() => self.timeout.min(RMPP_ACK_TIMEOUT),
            _ => self.timeout,
        }
    }

    /// Returns the bytes of the transfer that it holds.
    fn transfer_bytes(&self) -> usize {
        self.sender.as_ref().map_or(0, Sender::len)
    }

    /// Uses up a try; `false` if none is left. A transfer resumes with the unacknowledged segments; if all are
    /// acknowledged and the response is missing, it restarts from the first segment.
    pub fn try_again(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        match &mut self.sender {
            Some(sender) if sender.is_done() => sender.restart(),
            Some(sender) => sender.go_back(),
            None => {}
        }
        true
    }

    /// Records progress: all tries become available again.
    pub fn progress(&mut self) {
        self.left = self.retries;
    }

    /// Returns whether it ends with a response rather than the last acknowledgement.
    pub fn wants_answer(&self) -> bool {
        !self.response && !self.timeout.is_zero()
    }
}

type Tid = (u64, Class);

/// All pending datagrams, found by transaction ID and class.
#[derive(Debug)]
pub(super) struct Requests<P> {
    slots: Vec<Option<Request<P>>>,
    free: Vec<usize>,
    by_tid: FxHashMap<Tid, SmallVec<[usize; 1]>>,
    /// Those that are transfers.
    transfers: Vec<usize>,
    /// Their bytes.
    bytes: usize,
}

impl<P> Default for Requests<P> {
    fn default() -> Requests<P> {
        Requests { slots: Vec::new(), free: Vec::new(), by_tid: FxHashMap::default(), transfers: Vec::new(), bytes: 0 }
    }
}

fn tid(mad: &Mad) -> Tid {
    (mad.header.tid(), mad.header.class())
}

impl<P: Peer> Requests<P> {
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the bytes of all transfers.
    pub fn transfer_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a transfer of this many bytes to this peer fits the bounds.
    pub fn may_transfer(&self, bytes: usize, peer: &P) -> bool {
        let same = |key: &usize| self.get(*key).filter(|request| request.peer.same_end(peer));
        let to_peer: usize = self.transfers.iter().filter_map(same).map(Request::transfer_bytes).sum();
        self.transfers.len() < OUTGOING_TRANSFERS_MAX
            && bytes <= OUTGOING_BYTES_MAX.saturating_sub(self.bytes)
            && bytes <= OUTGOING_BYTES_PER_PEER_MAX.saturating_sub(to_peer)
    }

    /// Returns whether another one with this transaction ID is pending: among requests any; among responses, one to the
    /// same end.
    pub fn is_duplicate(&self, mad: &Mad, response: bool, peer: &P) -> bool {
        self.keys(mad).iter().filter_map(|key| self.get(*key)).any(|other| match (response, other.response) {
            (false, false) => true,
            (true, true) => other.peer.same_end(peer),
            _ => false,
        })
    }

    pub fn insert(&mut self, request: Request<P>) -> Option<usize> {
        if self.len() >= REQUESTS_MAX {
            return None;
        }
        let tid = tid(&request.mad);
        let (transfer, bytes) = (request.sender.is_some(), request.transfer_bytes());
        let key = match self.free.pop() {
            Some(key) => {
                self.slots[key] = Some(request);
                key
            }
            None => {
                self.slots.push(Some(request));
                self.slots.len() - 1
            }
        };
        if transfer {
            self.transfers.push(key);
            self.bytes += bytes;
        }
        self.by_tid.entry(tid).or_default().push(key);
        Some(key)
    }

    pub fn get(&self, key: usize) -> Option<&Request<P>> {
        self.slots.get(key)?.as_ref()
    }

    pub fn get_mut(&mut self, key: usize) -> Option<&mut Request<P>> {
        self.slots.get_mut(key)?.as_mut()
    }

    pub fn remove(&mut self, key: usize) -> Option<Request<P>> {
        let request = self.slots.get_mut(key)?.take()?;
        self.free.push(key);
        if request.sender.is_some() {
            self.transfers.retain(|other| *other != key);
            self.bytes -= request.transfer_bytes();
        }
        if let std::collections::hash_map::Entry::Occupied(mut keys) = self.by_tid.entry(tid(&request.mad)) {
            keys.get_mut().retain(|other| *other != key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        Some(request)
    }

    /// Returns the pending datagram of this agent that a datagram from `peer` concerns: the request that it responds to
    /// if `answer`, else the transfer that it acknowledges.
    pub fn find(&self, agent: AgentId, mad: &Mad, peer: &P, answer: bool) -> Option<usize> {
        // A directed route names its end by the path to it: there is no address to compare.
        let directed = mad.header.class() == Class::SUBN_DIRECTED_ROUTE;
        self.keys(mad).iter().copied().find(|key| {
            self.get(*key).is_some_and(|request| {
                request.agent == agent
                    && (if answer { request.wants_answer() } else { request.sender.is_some() })
                    && (directed || request.peer.same_end(peer))
            })
        })
    }

    /// Removes everything of an agent and returns the keys and deadlines.
    pub fn remove_all_of(&mut self, agent: AgentId) -> Vec<(usize, Instant)> {
        let of_agent = |(key, slot): (usize, &Option<Request<P>>)| {
            slot.as_ref().filter(|request| request.agent == agent).map(|request| (key, request.deadline))
        };
        let found: Vec<_> = self.slots.iter().enumerate().filter_map(of_agent).collect();
        found.iter().for_each(|(key, _)| drop(self.remove(*key)));
        found
    }

    fn keys(&self, mad: &Mad) -> &[usize] {
        self.by_tid.get(&tid(mad)).map_or(&[], |keys| keys)
    }
}
