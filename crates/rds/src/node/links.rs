//! Connections to other hosts: when they are made, and what happens when they are lost.

use std::time::Duration;

use super::peer::{OutgoingFrame, Pair, Peer, RequestDecision};
use super::{Action, Node};
use crate::connection::{Breach, Connection, ConnectionInput, ConnectionState, Outgoing};
use crate::limits::{CONNECTIONS_MAX, PONGS_WAITING_MAX, RECONNECT_DELAY_MIN};
use crate::rdma::{Direction, RdmaOperation, RdmaStatus};
use crate::wire::{PrivateData, Version};

impl Node {
    /// Connections, by their addresses.
    pub fn connections(&self) -> impl Iterator<Item = (Pair, &Connection)> {
        self.peers.iter().map(|(pair, peer)| (*pair, &peer.connection))
    }

    pub(super) fn add_peer(&mut self, pair: Pair) -> Result<(), ()> {
        if self.peers.contains_key(&pair) {
            return Ok(());
        }
        if self.peers.len() >= CONNECTIONS_MAX {
            // One that is down and owes nothing only remembers a sequence number.
            let is_unused = |(_, peer): &(&Pair, &Peer)| {
                peer.connection.state() == ConnectionState::Down && !peer.connection.has_messages()
            };
            let unused = self.peers.iter().find(is_unused).map(|(pair, _)| *pair).ok_or(())?;
            self.peers.remove(&unused);
        }
        let seed = self.config.seed ^ (u64::from(u32::from(pair.local)) << 32) ^ u64::from(u32::from(pair.peer));
        self.peers.insert(pair, Peer::new(self.config.first_sequence, seed));
        Ok(())
    }

    fn private_data(&self, pair: Pair, version: Version) -> PrivateData {
        let acknowledgement = self.peers.get(&pair).map_or(0, |peer| peer.connection.acknowledgement());
        PrivateData { source: pair.local, destination: pair.peer, version, acknowledgement }
    }

    /// Connects a pair that has messages, or sends frames.
    pub(super) fn want(&mut self, pair: Pair) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        if peer.connection.state() == ConnectionState::Up {
            self.actions.push_back(Action::Frames(pair));
        } else if peer.connection.has_messages() && peer.connection.handle(ConnectionInput::Wanted) {
            self.connect(pair);
        }
    }

    fn connect(&mut self, pair: Pair) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        peer.retry_at = None;
        let version = peer.version;
        let data = self.private_data(pair, version);
        self.actions.push_back(Action::Connect(pair, data));
    }

    /// Decides about a peer's request. The owner drops the queue pair that it has for the pair, if this accepts.
    pub fn handle_request(&mut self, pair: Pair, request: &PrivateData) -> RequestDecision {
        if self.add_peer(pair).is_err() {
            return RequestDecision::Reject;
        }
        let Some(peer) = self.peers.get_mut(&pair) else { return RequestDecision::Reject };
        // Both ends may connect at once. The smaller address goes first, so that one of the two attempts succeeds.
        if peer.connection.state() == ConnectionState::Connecting && pair.local < pair.peer {
            return RequestDecision::Reject;
        }
        if peer.connection.state() == ConnectionState::Up {
            self.counters.connections_lost += 1;
        }
        peer.connection.handle(ConnectionInput::Accepted);
        peer.retry_at = None;
        peer.version = request.version;
        peer.connection.handle_acknowledgement(request.acknowledgement);
        let version = peer.version;
        self.after(pair);
        RequestDecision::Accept(self.private_data(pair, version))
    }

    /// The connection manager has made the connection. `reply` is the private data of the peer's reply, if this end asked.
    pub fn handle_established(&mut self, pair: Pair, reply: Option<&PrivateData>) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        if !peer.connection.handle(ConnectionInput::Established) {
            return;
        }
        peer.delay = RECONNECT_DELAY_MIN;
        if let Some(reply) = reply {
            peer.version = reply.version;
            peer.connection.handle_acknowledgement(reply.acknowledgement);
        }
        let version = peer.version;
        self.counters.connections_made += 1;
        self.actions.push_back(Action::Log(format!("{pair}: connected, RDS {version}")));
        self.after(pair);
    }

    /// The queue pair is of no use any more, or could not be connected.
    pub fn handle_lost(&mut self, pair: Pair, reason: &str) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let was_up = peer.connection.state() == ConnectionState::Up;
        let has_messages = peer.connection.has_messages();
        let input = if has_messages { ConnectionInput::Lost } else { ConnectionInput::Ended };
        if !peer.connection.handle(input) {
            return;
        }
        if was_up {
            self.counters.connections_lost += 1;
            self.actions.push_back(Action::Log(format!("{pair}: connection lost: {reason}")));
        }
        if has_messages {
            // The next attempt proposes the older version where the peer may have refused this one.
            if !was_up {
                peer.version = if peer.version == Version::V4_1 { Version::V3_1 } else { Version::V4_1 };
            }
            peer.retry_later(self.now);
        } else {
            peer.retry_at = None;
        }
        self.after(pair);
    }

    /// Handles a frame of a pair's queue pair. A breach of the protocol costs the peer its queue pair.
    pub fn handle_frame(&mut self, pair: Pair, frame: &[u8]) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        self.counters.frames_received += 1;
        let done: Result<(), Breach> = peer.connection.handle_frame(frame);
        self.after(pair);
        if let Err(breach) = done {
            self.actions.push_back(Action::Disconnect(pair));
            self.handle_lost(pair, &breach.to_string());
        }
    }

    /// Returns the next frame of a pair's queue pair, unless [`Node::poll_operation`] returns something first.
    pub fn poll_frame(&mut self, pair: Pair) -> Option<OutgoingFrame> {
        let map = self.maps.entry(pair.local).or_default();
        let connection = &mut self.peers.get_mut(&pair)?.connection;
        let bytes = connection.poll_frame(map)?;
        self.counters.frames_sent += 1;
        Some(OutgoingFrame { bytes, is_last: !connection.is_mid_message() })
    }

    /// Returns the operation that a pair's queue pair gets before its next frame. The owner posts it, and reports the result
    /// to [`Node::handle_operation`].
    pub fn poll_operation(&mut self, pair: Pair) -> Option<RdmaOperation> {
        let map = self.maps.entry(pair.local).or_default();
        self.peers.get_mut(&pair)?.connection.poll_operation(map)
    }

    /// An operation of a pair's queue pair has completed or failed. After a failure the owner drops the queue pair.
    pub fn handle_operation(&mut self, pair: Pair, operation: &RdmaOperation, status: RdmaStatus) {
        if status == RdmaStatus::Success {
            match operation.direction {
                Direction::Write => self.counters.written_bytes += u64::from(operation.length),
                Direction::Read => self.counters.read_bytes += u64::from(operation.length),
            }
        }
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        peer.connection.operation_over(operation.id, status);
        self.after(pair);
    }

    /// Answers a ping: an empty message to port 0.
    pub(super) fn answer_ping(&mut self, pair: Pair, port: u16) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        if port == 0 || peer.connection.ownerless() >= PONGS_WAITING_MAX {
            return;
        }
        self.counters.pings_answered += 1;
        peer.connection.send(Outgoing { source_port: 0, destination_port: port, ..Outgoing::default() });
    }

    /// Time of the next [`Node::handle_timeout`].
    pub fn deadline(&self) -> Option<Duration> {
        self.peers.values().filter_map(|peer| peer.retry_at).min()
    }

    /// Does what is due. Also says what time it is.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.now = now;
        let is_due = |peer: &Peer| peer.retry_at.is_some_and(|at| at <= now);
        let due: Vec<_> = self.peers.iter().filter(|(_, peer)| is_due(peer)).map(|(pair, _)| *pair).collect();
        for pair in due {
            if let Some(peer) = self.peers.get_mut(&pair)
                && peer.connection.handle(ConnectionInput::Elapsed)
            {
                self.connect(pair);
            }
        }
    }
}
