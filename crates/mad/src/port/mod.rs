//! MAD layer of one port, like the kernel's: it registers agents, matches responses to requests, retransmits requests,
//! runs RMPP for long datagrams, and delivers received datagrams to their agents.
//!
//! A sans-I/O value like the other protocol objects: the caller passes in the time and fetches datagrams to send and
//! deliveries. The caller also defines how datagrams are addressed.

mod expiry;
mod incoming;
mod peer;
mod receive;
mod requests;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::VecDeque;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::rmpp::data_offset;
use weft_wire::mad::{Mad, MadHeader};
use zerocopy::IntoBytes;

use crate::agent::{Agents, is_response};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::rmpp::{Sender, TransferError, first_mad, header};
use crate::{AgentId, AgentSpec, RegisterError};
use incoming::Incoming;
pub use peer::Peer;
use requests::{Request, Requests};
use timers::{TimerKey, Timers};

/// Datagram that an agent sends.
#[derive(Clone, Debug)]
pub struct Send<P> {
    /// Sending agent.
    pub agent: AgentId,
    /// Destination.
    pub peer: P,
    /// The datagram: at most 256 bytes, more if the port runs RMPP for the agent.
    pub bytes: Vec<u8>,
    /// Response timeout of each try; zero for datagrams without a response.
    pub timeout: Duration,
    /// Number of retransmissions.
    pub retries: u32,
}

/// Reason why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No such agent.
    NoAgent,
    /// Shorter than the common header.
    TooShort,
    /// Longer than 256 bytes without RMPP.
    TooLong,
    /// A request with this transaction ID is pending already.
    Duplicate,
    /// Too many requests or transfers are pending.
    TooMany,
    /// RMPP cannot carry it.
    Transfer(TransferError),
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SendError::NoAgent => f.write_str("no such agent: register it first"),
            SendError::TooShort => f.write_str("a datagram has a header of 24 bytes at least"),
            SendError::TooLong => f.write_str("more than 256 bytes need an agent registered with RMPP"),
            SendError::Duplicate => f.write_str("a request with this transaction ID waits for its answer"),
            SendError::TooMany => f.write_str("too many requests wait for their answers"),
            SendError::Transfer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

/// Datagram, or timeout of one, delivered to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery<P> {
    /// Receiving agent.
    pub agent: AgentId,
    /// No response arrived in time: `bytes` is the header of the request.
    pub timed_out: bool,
    /// Source of the datagram; after a timeout, the destination of the request.
    pub peer: P,
    /// The datagram, or all data of a multi-packet transfer after the headers of its first segment.
    pub bytes: Vec<u8>,
}

/// The management datagrams of one port.
#[derive(Debug)]
pub struct Port<P> {
    agents: Agents,
    requests: Requests<P>,
    incoming: Vec<Incoming<P>>,
    /// Number of the latest incoming transfer.
    last_incoming: u32,
    timers: Timers,
    transmit: VecDeque<(P, Mad)>,
    deliveries: VecDeque<Delivery<P>>,
}

impl<P> Default for Port<P> {
    fn default() -> Port<P> {
        Port {
            agents: Agents::default(),
            requests: Requests::default(),
            incoming: Vec::new(),
            last_incoming: 0,
            timers: Timers::default(),
            transmit: VecDeque::new(),
            deliveries: VecDeque::new(),
        }
    }
}

impl<P: Peer> Port<P> {
    /// Creates a port that numbers its agents from `first`, for users whose transaction IDs must not be predictable.
    pub fn numbered_from(first: u32) -> Port<P> {
        Port { agents: Agents::numbered_from(first), ..Port::default() }
    }

    /// Registers an agent.
    pub fn register(&mut self, spec: AgentSpec) -> Result<AgentId, RegisterError> {
        self.agents.register(spec)
    }

    /// Unregisters an agent. Its pending requests and undelivered datagrams are dropped.
    pub fn unregister(&mut self, agent: AgentId) -> bool {
        if !self.agents.unregister(agent) {
            return false;
        }
        for (key, deadline) in self.requests.remove_all_of(agent) {
            self.timers.cancel(deadline, TimerKey::Request(key));
        }
        let timers = &mut self.timers;
        self.incoming.retain(|transfer| {
            let stays = transfer.agent != agent;
            if !stays {
                timers.cancel(transfer.deadline, TimerKey::Incoming(transfer.number));
            }
            stays
        });
        self.deliveries.retain(|delivery| delivery.agent != agent);
        true
    }

    /// Returns the number of pending requests and outgoing transfers.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Returns the bytes of outgoing transfers that are not yet acknowledged.
    pub fn outgoing_bytes(&self) -> usize {
        self.requests.transfer_bytes()
    }

    /// Sends a datagram. Unless it is a response, the upper half of its transaction ID becomes the agent's number.
    pub fn send(&mut self, now: Instant, send: Send<P>) -> Result<(), SendError> {
        let spec = *self.agents.spec(send.agent).ok_or(SendError::NoAgent)?;
        if send.bytes.len() < MadHeader::LEN {
            return Err(SendError::TooShort);
        }
        let mut mad = first_mad(&send.bytes);
        let response = is_response(&mad.header);
        if !response {
            mad.header.set_tid(u64::from(send.agent.0) << 32 | mad.header.tid() & 0xffff_ffff);
        }
        let data_at = data_offset(mad.header.class());
        let head = header(&mad);
        // The sender sets only the active flag; the port writes the rest of the RMPP header.
        let transfer = spec.rmpp && data_at.is_some() && head.is_active();
        if !transfer && send.bytes.len() > weft_wire::mad::MAD_LEN {
            return Err(SendError::TooLong);
        }
        if !transfer && send.timeout.is_zero() {
            self.transmit.push_back((send.peer, mad));
            return Ok(());
        }
        if self.requests.is_duplicate(&mad, response, &send.peer) {
            return Err(SendError::Duplicate);
        }
        let sender = match transfer {
            true if !self.requests.may_transfer(send.bytes.len(), &send.peer)
                && send.bytes.len() <= TRANSFER_BYTES_MAX =>
            {
                return Err(SendError::TooMany);
            }
            true => {
                let mut bytes = send.bytes;
                bytes[..MadHeader::LEN].copy_from_slice(mad.header.as_bytes());
                Some(Sender::new(bytes, data_at).map_err(SendError::Transfer)?)
            }
            false => None,
        };
        let request = Request::new(send.agent, send.peer, mad, response, sender, send.timeout, send.retries);
        let key = self.requests.insert(request).ok_or(SendError::TooMany)?;
        self.begin(now, key);
        Ok(())
    }

    /// Sends what a request may send now, and starts its timer.
    fn begin(&mut self, now: Instant, key: usize) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let before = request.deadline;
        match &mut request.sender {
            Some(sender) if !sender.is_done() => {
                while let Some(segment) = sender.next_segment() {
                    self.transmit.push_back((request.peer.clone(), segment));
                }
            }
            _ => self.transmit.push_back((request.peer.clone(), request.mad)),
        }
        request.deadline = now + request.wait();
        self.timers.move_to(before, request.deadline, TimerKey::Request(key));
    }

    /// Removes a request.
    fn finish(&mut self, key: usize) -> Option<Request<P>> {
        let request = self.requests.remove(key)?;
        self.timers.cancel(request.deadline, TimerKey::Request(key));
        Some(request)
    }

    fn deliver(&mut self, agent: AgentId, peer: P, bytes: Vec<u8>) {
        self.deliveries.push_back(Delivery { agent, timed_out: false, peer, bytes });
    }

    /// Reports a timed-out request to its agent.
    fn give_up(&mut self, request: Request<P>) {
        let bytes = request.mad.header.as_bytes().to_vec();
        self.deliveries.push_back(Delivery { agent: request.agent, timed_out: true, peer: request.peer, bytes });
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(P, Mad)> {
        self.transmit.pop_front()
    }

    /// Returns the next delivery to an agent.
    pub fn poll_delivery(&mut self) -> Option<Delivery<P>> {
        self.deliveries.pop_front()
    }

    /// Returns when [`Port::handle_timeout`] must run next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }
}
