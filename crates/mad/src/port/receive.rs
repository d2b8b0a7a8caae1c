//! Receive path of a port.

use weft_verbs::Instant;
use weft_wire::mad::rmpp::{RmppHeader, RmppStatus, RmppType, data_offset};
use weft_wire::mad::{Mad, Method};
use zerocopy::IntoBytes;

use super::incoming::Incoming;
use super::timers::TimerKey;
use super::{Peer, Port};
use crate::AgentId;
use crate::agent::is_response;
use crate::limits::{INCOMING_BYTES_MAX, INCOMING_TRANSFERS_MAX, RMPP_LINGER, RMPP_RECEIVE_TIMEOUT};
use crate::rmpp::{AckOutcome, Received, Receiver, header, set_header};

impl<P: Peer> Port<P> {
    /// Handles a datagram from `peer`. Returns `false` if it is for no agent: it answers no request, or no agent wants
    /// it.
    pub fn handle(&mut self, now: Instant, peer: P, mad: &Mad) -> bool {
        let response = is_response(&mad.header);
        let agent = if response { self.agents.asker(&mad.header) } else { self.agents.wanting(mad) };
        let Some(agent) = agent else { return false };
        let carried = self.agents.spec(agent).is_some_and(|spec| spec.rmpp);
        let data_at = data_offset(mad.header.class()).filter(|_| carried && header(mad).is_active());
        match data_at {
            Some(data_at) => self.handle_transfer(now, agent, peer, mad, data_at, response),
            None if response => match self.requests.find(agent, mad, &peer, true) {
                Some(key) => {
                    self.finish(key);
                    self.deliver(agent, peer, mad.as_bytes().to_vec());
                    true
                }
                // An agent that runs RMPP itself gets every segment.
                None => {
                    let own = !carried && data_offset(mad.header.class()).is_some() && header(mad).is_active();
                    if own {
                        self.deliver(agent, peer, mad.as_bytes().to_vec());
                    }
                    own
                }
            },
            None => {
                self.deliver(agent, peer, mad.as_bytes().to_vec());
                true
            }
        }
    }

    fn handle_transfer(
        &mut self,
        now: Instant,
        agent: AgentId,
        peer: P,
        mad: &Mad,
        data_at: usize,
        response: bool,
    ) -> bool {
        let head = header(mad);
        if head.version() != RmppHeader::VERSION {
            self.reject(mad, peer, RmppStatus::UNSUPPORTED_VERSION);
            return true;
        }
        match head.kind() {
            RmppType::DATA => self.handle_data(now, agent, peer, mad, data_at, response),
            RmppType::ACK => self.handle_ack(now, agent, peer, mad),
            RmppType::STOP | RmppType::ABORT => self.handle_end(agent, &peer, mad),
            _ => {
                self.reject(mad, peer, RmppStatus::BAD_TYPE);
                true
            }
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        agent: AgentId,
        peer: P,
        mad: &Mad,
        data_at: usize,
        response: bool,
    ) -> bool {
        let Some(at) = self.incoming_at(now, agent, &peer, mad, data_at, response) else { return false };
        let transfer = &mut self.incoming[at];
        let outcome = match transfer.receiver.on_data(mad) {
            Received::Quiet | Received::Ack if self.incoming_bytes() > INCOMING_BYTES_MAX => {
                Received::Abort(RmppStatus::RESOURCES_EXHAUSTED)
            }
            outcome => outcome,
        };
        let transfer = &mut self.incoming[at];
        match outcome {
            Received::Abort(status) => {
                let transfer = self.incoming.swap_remove(at);
                self.timers.cancel(transfer.deadline, TimerKey::Incoming(transfer.number));
                self.reject(mad, peer, status);
                return true;
            }
            Received::Quiet => {}
            Received::Ack | Received::Complete => {
                let ack = reply(&transfer.first, transfer.receiver.ack());
                self.transmit.push_back((transfer.peer.clone(), ack));
            }
        }
        if outcome == Received::Complete {
            let (bytes, number, before) = (transfer.receiver.take(), transfer.number, transfer.deadline);
            transfer.deadline = now + RMPP_LINGER;
            self.timers.move_to(before, now + RMPP_LINGER, TimerKey::Incoming(number));
            if response {
                self.answered(agent, &peer, mad);
            }
            self.deliver(agent, peer, bytes);
        } else if response {
            self.still_coming(now, agent, &peer, mad);
        }
        true
    }

    /// Returns the index of the transfer that a segment belongs to. The first segment of a response, or of a request
    /// that an agent wants, starts a new one.
    fn incoming_at(
        &mut self,
        now: Instant,
        agent: AgentId,
        peer: &P,
        mad: &Mad,
        data_at: usize,
        response: bool,
    ) -> Option<usize> {
        if let Some(at) = self.incoming.iter().position(|transfer| transfer.is_of(agent, mad, peer)) {
            if !self.incoming[at].receiver.is_complete() {
                let (number, before) = (self.incoming[at].number, self.incoming[at].deadline);
                self.incoming[at].deadline = now + RMPP_RECEIVE_TIMEOUT;
                self.timers.move_to(before, now + RMPP_RECEIVE_TIMEOUT, TimerKey::Incoming(number));
            }
            return Some(at);
        }
        if header(mad).segment() != 1 || response && self.requests.find(agent, mad, peer, true).is_none() {
            return None;
        }
        self.make_room();
        if self.incoming.len() >= INCOMING_TRANSFERS_MAX || self.incoming_bytes() >= INCOMING_BYTES_MAX {
            self.reject(mad, peer.clone(), RmppStatus::RESOURCES_EXHAUSTED);
            return None;
        }
        self.last_incoming = self.last_incoming.wrapping_add(1);
        let (number, deadline) = (self.last_incoming, now + RMPP_RECEIVE_TIMEOUT);
        let receiver = Receiver::new(data_at);
        self.incoming.push(Incoming { number, agent, peer: peer.clone(), first: *mad, receiver, deadline });
        self.timers.move_to(deadline, deadline, TimerKey::Incoming(number));
        Some(self.incoming.len() - 1)
    }

    /// Returns the bytes of incomplete transfers.
    pub fn incoming_bytes(&self) -> usize {
        self.incoming.iter().map(|transfer| transfer.receiver.held()).sum()
    }

    /// When too many transfers are remembered, forgets the one that completed longest ago.
    fn make_room(&mut self) {
        if self.incoming.len() < INCOMING_TRANSFERS_MAX {
            return;
        }
        let complete = self.incoming.iter().enumerate().filter(|(_, transfer)| transfer.receiver.is_complete());
        let Some(at) = complete.min_by_key(|(_, transfer)| transfer.deadline).map(|(at, _)| at) else { return };
        let transfer = self.incoming.swap_remove(at);
        self.timers.cancel(transfer.deadline, TimerKey::Incoming(transfer.number));
    }

    /// Ends the request that `mad` answers.
    fn answered(&mut self, agent: AgentId, peer: &P, mad: &Mad) {
        if let Some(key) = self.requests.find(agent, mad, peer, true) {
            self.finish(key);
        }
    }

    /// Restarts a request's wait: its answer is arriving in segments.
    fn still_coming(&mut self, now: Instant, agent: AgentId, peer: &P, mad: &Mad) {
        let Some(key) = self.requests.find(agent, mad, peer, true) else { return };
        let Some(request) = self.requests.get_mut(key) else { return };
        let before = request.deadline;
        request.progress();
        request.deadline = now + request.timeout;
        self.timers.move_to(before, request.deadline, TimerKey::Request(key));
    }

    fn handle_ack(&mut self, now: Instant, agent: AgentId, peer: P, mad: &Mad) -> bool {
        let Some(key) = self.requests.find(agent, mad, &peer, false) else { return false };
        let Some(request) = self.requests.get_mut(key) else { return false };
        let Some(sender) = &mut request.sender else { return false };
        let head = header(mad);
        match sender.on_ack(head.segment(), head.payload_len()) {
            AckOutcome::Old => {}
            AckOutcome::Done if !request.wants_answer() => drop(self.finish(key)),
            AckOutcome::Done => {
                let before = request.deadline;
                request.progress();
                request.deadline = now + request.timeout;
                self.timers.move_to(before, request.deadline, TimerKey::Request(key));
            }
            AckOutcome::Progress => {
                request.progress();
                self.begin(now, key);
            }
            AckOutcome::Window => self.begin(now, key),
            AckOutcome::Abort(status) => {
                self.reject(mad, peer, status);
                self.end(key);
            }
        }
        true
    }

    /// Handles a STOP or ABORT of a transfer, incoming or outgoing.
    fn handle_end(&mut self, agent: AgentId, peer: &P, mad: &Mad) -> bool {
        if let Some(key) = self.requests.find(agent, mad, peer, false) {
            self.end(key);
            return true;
        }
        let Some(at) = self.incoming.iter().position(|transfer| transfer.is_of(agent, mad, peer)) else {
            return false;
        };
        let transfer = self.incoming.swap_remove(at);
        self.timers.cancel(transfer.deadline, TimerKey::Incoming(transfer.number));
        if let Some(key) = self.requests.find(agent, mad, peer, true) {
            self.end(key);
        }
        true
    }

    /// Ends a request that will get no answer.
    fn end(&mut self, key: usize) {
        if let Some(request) = self.finish(key) {
            self.give_up(request);
        }
    }

    /// Tells the sender of `mad` that its transfer has ended.
    pub(super) fn reject(&mut self, mad: &Mad, peer: P, status: RmppStatus) {
        self.transmit.push_back((peer, reply(mad, RmppHeader::end(status))));
    }
}

/// Builds the RMPP datagram that answers this one: its header with the response bit inverted.
fn reply(mad: &Mad, head: RmppHeader) -> Mad {
    let mut reply = Mad { header: mad.header, data: [0; weft_wire::mad::DATA_LEN] };
    reply.header.set_method(Method(mad.header.method().0 ^ Method::RESPONSE_BIT));
    // The bytes that the class puts into each segment are echoed.
    let class_header = mad.data.len().min(32);
    reply.data[..class_header].copy_from_slice(&mad.data[..class_header]);
    set_header(&mut reply, head);
    reply
}
