//! A host: its sockets, the connections to other hosts, and the congestion of its ports.

mod counters;
mod info;
mod links;
mod peer;
mod socket;
mod sockets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub use counters::NodeCounters;
pub use info::{InfoKind, InfoTable};
pub use peer::{OutgoingFrame, Pair, RequestDecision};
pub use socket::{Datagram, SendError, SendExtras, SocketError, SocketKey, SocketOptions};

use crate::connection::{ConnectionEvent, Outgoing};
use crate::limits::RECEIVED_BYTES_MAX;
use crate::rdma::{Notification, OperationId, RdmaOperation, RdmaStatus};
use crate::wire::{CongestionMap, PrivateData};
use peer::Peer;
use sockets::Sockets;

/// Values that the owner chooses once.
#[derive(Clone, Copy, Debug)]
pub struct NodeConfig {
    /// Sequence number of a connection's first message; greater than those of an earlier process.
    pub first_sequence: u64,
    /// Seed of reconnect delays and of ports that programs leave open.
    pub seed: u64,
}

/// Action for the owner of the queue pairs and sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Connect to the other address of the pair, with this private data.
    Connect(Pair, PrivateData),
    /// Drop the queue pair, or the attempt.
    Disconnect(Pair),
    /// The socket may have datagrams to take, or room for further ones to send.
    Ready(SocketKey),
    /// There may be frames for [`Node::poll_frame`], or operations for [`Node::poll_operation`].
    Frames(Pair),
    /// No queue pair uses the local memory of an operation any more.
    OperationOver(OperationId),
    /// The peer has used memory that the socket offers under this key; it comes before the peer's datagram.
    KeyUsed(SocketKey, u32),
    /// Line for the log.
    Log(String),
}

/// The host.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    sockets: Sockets,
    peers: BTreeMap<Pair, Peer>,
    /// Congested ports of this host's addresses.
    maps: BTreeMap<Ipv4Addr, CongestionMap>,
    /// Datagrams for congested ports of this host, with their sources and owners.
    held: VecDeque<(SocketKey, SocketAddrV4, Datagram)>,
    /// Bytes that wait for programs.
    received_bytes: usize,
    counters: NodeCounters,
    actions: VecDeque<Action>,
    /// Sockets that an action in `actions` names already.
    announced: BTreeSet<SocketKey>,
    now: Duration,
}

impl Node {
    /// Creates a host without sockets.
    pub fn new(config: NodeConfig) -> Node {
        Node {
            config,
            sockets: Sockets::new(config.seed),
            peers: BTreeMap::new(),
            maps: BTreeMap::new(),
            held: VecDeque::new(),
            received_bytes: 0,
            counters: NodeCounters::default(),
            actions: VecDeque::new(),
            announced: BTreeSet::new(),
            now: Duration::ZERO,
        }
    }

    /// Counters.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Sockets, by their keys.
    pub fn sockets(&self) -> impl Iterator<Item = (SocketKey, &SocketOptions)> {
        self.sockets.iter().map(|(key, socket)| (key, &socket.options))
    }

    /// Adds a socket.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(&mut self, key: SocketKey) -> Result<(), SocketError> {
        self.sockets.open(key)
    }

    /// Removes a socket. Datagrams that it has sent still reach their peers, unless they wait with operations.
    pub fn close(&mut self, key: SocketKey) {
        let Some(socket) = self.sockets.close(key) else { return };
        if socket.has_operations() {
            let pairs: Vec<_> = self.peers.keys().copied().collect();
            for pair in pairs {
                if let Some(peer) = self.peers.get_mut(&pair) {
                    peer.connection.cancel_operations(key);
                }
                self.after(pair);
            }
        }
        self.received_bytes -= socket.received_bytes();
        self.announced.remove(&key);
        if let Some(address) = socket.options.bound {
            self.mark(address, false);
        }
    }

    /// Gives a socket its address; port 0: an unused one. Returns the address.
    ///
    /// # Errors
    /// The address is in use, or the socket has one already.
    pub fn bind(&mut self, key: SocketKey, address: SocketAddrV4) -> Result<SocketAddrV4, SocketError> {
        self.sockets.bind(key, address)
    }

    /// Sets the sizes of a socket's buffers, in bytes.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn set_options(&mut self, key: SocketKey, change: impl FnOnce(&mut SocketOptions)) -> Result<(), SocketError> {
        let socket = self.sockets.get_mut(key).ok_or(SocketError::Unknown)?;
        change(&mut socket.options);
        socket.options.clamp();
        self.announce(key);
        Ok(())
    }

    /// Whether a socket's send buffer has room.
    pub fn can_send(&self, key: SocketKey) -> bool {
        self.sockets.get(key).is_some_and(|socket| socket.has_room())
    }

    /// Returns the socket at an address of this host.
    pub fn socket_at(&self, address: SocketAddrV4) -> Option<SocketKey> {
        self.sockets.at(address)
    }

    /// Whether a socket of this host has the address: datagrams to it need no queue pair.
    pub fn is_local(&self, key: SocketKey, to: SocketAddrV4) -> bool {
        let from = self.sockets.get(key).and_then(|socket| socket.options.bound);
        from.is_some_and(|from| from.ip() == to.ip()) || self.sockets.has_address(*to.ip())
    }

    /// Sends a datagram without operation.
    ///
    /// # Errors
    /// As [`Node::send_with`].
    pub fn send(&mut self, key: SocketKey, to: SocketAddrV4, payload: Vec<u8>) -> Result<(), SendError> {
        self.send_with(key, to, payload, SendExtras::default())
    }

    /// Sends a datagram. It waits where it must: for the connection, for room of the peer, for its acknowledgement. The owner
    /// carries out operations between sockets of this host itself, before it sends the datagram ([`Node::is_local`]).
    ///
    /// # Errors
    /// The socket has no address, or the datagram is too long.
    pub fn send_with(
        &mut self,
        key: SocketKey,
        to: SocketAddrV4,
        payload: Vec<u8>,
        extras: SendExtras,
    ) -> Result<(), SendError> {
        let socket = self.sockets.get_mut(key).ok_or(SendError::NotBound)?;
        let from = socket.check(payload.len())?;
        let SendExtras { rdma, destination } = extras;
        if self.is_local(key, to) {
            self.counters.datagrams_sent += 1;
            let datagram = Datagram { from, payload, cookie: destination };
            self.deliver_locally(key, to, datagram);
            return Ok(());
        }
        let pair = Pair { local: *from.ip(), peer: *to.ip() };
        self.add_peer(pair).map_err(|()| SendError::TooManyPeers)?;
        self.counters.datagrams_sent += 1;
        self.counters.operations += u64::from(rdma.is_some());
        let socket = self.sockets.get_mut(key).ok_or(SendError::NotBound)?;
        let (source_port, destination_port, owner) = (from.port(), to.port(), Some(key));
        let mut message =
            Outgoing { source_port, destination_port, payload, owner, is_urgent: false, rdma, destination };
        message.is_urgent = socket.charge(message.buffer_bytes());
        if let Some(rdma) = &rdma {
            socket.operation_begins(rdma);
        }
        if let Some(peer) = self.peers.get_mut(&pair) {
            peer.connection.send(message);
        }
        self.after(pair);
        Ok(())
    }

    /// Queues the result of an operation for a socket's program, if it wants that.
    pub fn notify(&mut self, key: SocketKey, operation: &RdmaOperation, status: RdmaStatus) {
        let is_error = status != RdmaStatus::Success && operation.options.reports_errors;
        if operation.options.notifies || is_error {
            self.queue_notification(key, Notification { token: operation.token, status });
        }
    }

    fn queue_notification(&mut self, key: SocketKey, notification: Notification) {
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.notifications.push_back(notification);
            self.announce(key);
        }
    }

    /// Result of an operation that the socket's program gets next, before any datagram.
    pub fn next_notification(&self, key: SocketKey) -> Option<Notification> {
        self.sockets.get(key)?.notifications.front().copied()
    }

    /// The program has the result of [`Node::next_notification`].
    pub fn notified(&mut self, key: SocketKey) {
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.notifications.pop_front();
        }
    }

    /// Forgets the datagrams of a socket to an address that are not being sent right now.
    pub fn cancel(&mut self, key: SocketKey, to: SocketAddrV4) {
        let from = self.sockets.get(key).and_then(|socket| socket.options.bound);
        let Some(from) = from else { return };
        let pair = Pair { local: *from.ip(), peer: *to.ip() };
        if let Some(peer) = self.peers.get_mut(&pair) {
            peer.connection.cancel(key, to.port());
            self.after(pair);
        }
    }

    /// Datagram that the socket's program gets next.
    pub fn next_datagram(&self, key: SocketKey) -> Option<&Datagram> {
        self.sockets.get(key)?.received.front()
    }

    /// The program has the datagram of [`Node::next_datagram`].
    pub fn delivered(&mut self, key: SocketKey) {
        let Some(socket) = self.sockets.get_mut(key) else { return };
        self.received_bytes -= socket.take();
        if let Some((address, false)) = socket.congestion_change() {
            self.mark(address, false);
        }
    }

    /// Whether so much waits for programs that no more frames can be taken.
    pub fn is_full(&self) -> bool {
        self.received_bytes > RECEIVED_BYTES_MAX
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if let Some(Action::Ready(key)) = &action {
            self.announced.remove(key);
        }
        action
    }

    fn announce(&mut self, key: SocketKey) {
        if self.announced.insert(key) {
            self.actions.push_back(Action::Ready(key));
        }
    }

    /// Handles the events of a connection, and whatever it wants.
    fn after(&mut self, pair: Pair) {
        while let Some(event) = self.peers.get_mut(&pair).and_then(|peer| peer.connection.poll_event()) {
            match event {
                ConnectionEvent::Released { owner, bytes } => self.release(owner, bytes),
                ConnectionEvent::OperationOver { owner, operation } => self.operation_over(owner, &operation),
                ConnectionEvent::Notification { owner, notification } => {
                    self.queue_notification(owner, notification);
                }
                ConnectionEvent::Received(delivery) => {
                    let from = SocketAddrV4::new(pair.peer, delivery.source_port);
                    let to = SocketAddrV4::new(pair.local, delivery.destination_port);
                    if to.port() == 0 {
                        self.answer_ping(pair, from.port());
                    } else {
                        self.use_key(to, delivery.used_key);
                        self.deliver(to, Datagram { from, payload: delivery.payload, cookie: delivery.cookie });
                    }
                }
            }
        }
        self.want(pair);
    }

    /// The peer has used memory of the socket at an address.
    fn use_key(&mut self, to: SocketAddrV4, key: Option<u32>) {
        if let (Some(socket), Some(key)) = (self.sockets.at(to), key) {
            self.actions.push_back(Action::KeyUsed(socket, key));
        }
    }

    fn operation_over(&mut self, owner: Option<SocketKey>, operation: &RdmaOperation) {
        self.actions.push_back(Action::OperationOver(operation.id));
        let Some(owner) = owner else { return };
        if self.sockets.get_mut(owner).is_some_and(|socket| socket.operation_over(operation)) {
            self.announce(owner);
        }
    }

    fn release(&mut self, key: SocketKey, bytes: usize) {
        let Some(socket) = self.sockets.get_mut(key) else { return };
        if socket.release(bytes) {
            self.announce(key);
        }
    }

    /// Delivers a datagram between two sockets of this host.
    fn deliver_locally(&mut self, owner: SocketKey, to: SocketAddrV4, datagram: Datagram) {
        if to.port() == 0 {
            let (to, from) = (datagram.from, to);
            return self.deliver(to, Datagram { from, payload: Vec::new(), cookie: None });
        }
        let is_congested = |map: &CongestionMap| map.is_congested(to.port());
        if !self.maps.get(to.ip()).is_some_and(is_congested) {
            return self.deliver(to, datagram);
        }
        if let Some(socket) = self.sockets.get_mut(owner) {
            socket.charge(datagram.buffer_bytes());
        }
        self.held.push_back((owner, to, datagram));
    }

    fn deliver(&mut self, to: SocketAddrV4, datagram: Datagram) {
        let Some(key) = self.sockets.at(to) else {
            self.counters.dropped_without_socket += 1;
            return;
        };
        let Some(socket) = self.sockets.get_mut(key) else { return };
        self.counters.datagrams_received += 1;
        self.received_bytes += socket.receive(datagram);
        if let Some((address, true)) = socket.congestion_change() {
            self.mark(address, true);
        }
        self.announce(key);
    }

    /// Marks a port as congested or not, and tells all peers of the address.
    fn mark(&mut self, address: SocketAddrV4, is_congested: bool) {
        let map = self.maps.entry(*address.ip()).or_default();
        if map.is_congested(address.port()) == is_congested {
            return;
        }
        map.set(address.port(), is_congested);
        self.counters.congestion_updates += 1;
        for (pair, peer) in self.peers.iter_mut().filter(|(pair, _)| pair.local == *address.ip()) {
            peer.connection.congestion_changed();
            self.actions.push_back(Action::Frames(*pair));
        }
        if !is_congested {
            self.deliver_held();
        }
    }

    /// Delivers what waited for congested ports of this host.
    fn deliver_held(&mut self) {
        for (owner, to, datagram) in std::mem::take(&mut self.held) {
            let bytes = datagram.buffer_bytes();
            self.release(owner, bytes);
            self.deliver_locally(owner, to, datagram);
        }
    }
}
