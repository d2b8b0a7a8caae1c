//! The IPoIB interfaces of virtual hosts ([`weft_ipoib`]): what the kernel of one host sends crosses the fabric, if the
//! fabric lets it, and reaches the kernel of another. No I/O: the server reads and writes the kernel's interfaces.

mod connected;
#[cfg(test)]
mod connected_tests;
mod connections;
mod crossing;
mod id;
mod packets;
mod queries;
mod route;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use weft_fabric::{Delivery, Fabric, PKEY_FULL, PortRef, Transit};
use weft_ipoib::{Destination, Frame, Interface, NeighbourState, Output, Port, Route as IpRoute};
use weft_verbs::Instant;
use weft_wire::Psn;
use weft_wire::ipoib::{LinkAddress, destination};
use weft_wire::mad::Class;
use weft_wire::mad::subn::PortState;

use connections::Connections;
pub use id::InterfaceId;
use queries::{Answer, Queries};
use route::Route;

/// Queue pair of a port's first interface; others have the next free ones. No program's queue pair has such a number,
/// since it is in the daemon's slot.
const QPN: u32 = 0x48;

/// Datagrams that one packet may lead to, against endless talk.
const STEPS_MAX: u32 = 4096;

/// An action for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Hand the kernel of this interface's host the packet of a frame.
    Deliver(InterfaceId, Frame),
    /// The interface has a link with this MTU, or none.
    Link(InterfaceId, Option<u32>),
}

#[derive(Debug)]
struct Bound {
    interface: Interface,
    queries: Queries,
    connections: Connections,
    /// P_Key of its link, with the full-member bit.
    link_pkey: u16,
    /// P_Key of its datagrams, while its port is a member.
    pkey: Option<u16>,
    qpn: u32,
    psn: Psn,
}

/// All interfaces.
#[derive(Debug, Default)]
pub struct Interfaces {
    of: BTreeMap<InterfaceId, Bound>,
    /// Verdicts of this generation of the fabric, by sender, LID and service level.
    routes: BTreeMap<(InterfaceId, u16, u8), Option<Route>>,
    generation: u64,
    /// Outputs to process.
    out: Vec<Output>,
    /// Datagrams on their way: sender, destination, content.
    sent: VecDeque<(InterfaceId, Destination, Frame)>,
    /// Messages on their way: sender, connection, content.
    messages: VecDeque<(InterfaceId, u32, Frame)>,
    /// Messages on cables with latency, each with its sender's P_Key and its receiver's queue pair.
    flying: Transit,
    effects: VecDeque<Effect>,
    /// Every packet travels hop by hop: it leaves by [`Interfaces::poll_packet`].
    hop_by_hop: bool,
    packets: VecDeque<(PortRef, Vec<u8>)>,
    /// Packets on cables with latency.
    transit: Transit,
    /// Chooses the datagrams that cables damage.
    damage: Option<SplitMix64>,
}

impl Interfaces {
    /// Adds an interface, without addresses yet. `seed` must not be predictable.
    pub fn add(&mut self, now: Instant, fabric: &mut Fabric, id: impl Into<InterfaceId>, seed: u64) {
        let id = id.into();
        let Some(gid) = fabric.gid(id.port, 0) else { return };
        // The full-member bit, so that full and limited members ask for the same broadcast group.
        let Some(pkey) = id.child.or(id.pkey(fabric)).map(|pkey| pkey | PKEY_FULL) else { return };
        let taken = |qpn: &u32| self.of.range(InterfaceId::range(id.port)).any(|(_, bound)| bound.qpn == *qpn);
        let Some(qpn) = (QPN..).find(|qpn| !taken(qpn)) else { return };
        let (interface, queries) = (Interface::new(pkey), Queries::new(id.port, gid, pkey, seed));
        let psn = Psn::new(seed as u32);
        let guid = fabric.node_guid(id.port.node).unwrap_or_default();
        let connections = Connections::new(id.port, guid, qpn, seed);
        self.of.insert(id, Bound { interface, queries, connections, link_pkey: pkey, pkey: None, qpn, psn });
        self.damage.get_or_insert_with(|| SplitMix64::seed_from_u64(seed));
        self.follow(now, fabric, id);
    }

    /// Removes an interface: it leaves its groups.
    pub fn remove(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId) {
        self.act(now, fabric, id, |interface, out| interface.leave(out));
        self.of.remove(&id);
        self.routes.retain(|(from, ..), _| *from != id);
    }

    /// Returns whether there is such an interface. A port's own interface stands for the child with its P_Key, too.
    pub fn contains(&self, fabric: &Fabric, id: InterfaceId) -> bool {
        let own = InterfaceId::from(id.port).pkey(fabric).map(|pkey| pkey | PKEY_FULL);
        self.of.contains_key(&id) || id.child.is_some() && id.child == own
    }

    /// Returns the P_Key of an interface's link, with the full-member bit.
    pub fn link_pkey(&self, id: InterfaceId) -> Option<u16> {
        self.of.get(&id).map(|bound| bound.link_pkey)
    }

    /// Returns an interface's link-layer address, also while its port is down.
    pub fn link_address(&self, fabric: &Fabric, id: InterfaceId) -> Option<LinkAddress> {
        let bound = self.of.get(&id)?;
        let without_port = || {
            Some(LinkAddress { flags: bound.interface.mode().flags(), qpn: bound.qpn, gid: fabric.gid(id.port, 0)? })
        };
        bound.interface.link_address().or_else(without_port)
    }

    /// Returns an interface's neighbours with their addresses and states, in the order of IP addresses.
    pub fn neighbours(
        &self,
        now: Instant,
        id: InterfaceId,
    ) -> impl Iterator<Item = (IpAddr, Option<LinkAddress>, NeighbourState)> {
        self.of.get(&id).into_iter().flat_map(move |bound| bound.interface.neighbour_states(now))
    }

    /// Sets whether every packet travels hop by hop.
    pub fn set_hop_by_hop(&mut self, hop_by_hop: bool) {
        self.hop_by_hop = hop_by_hop;
    }

    /// Removes all interfaces, with their fabric.
    pub fn clear(&mut self) {
        *self = Interfaces::default();
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Sets the kernel's addresses and multicast groups of an interface.
    pub fn set_addresses(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        id: impl Into<InterfaceId>,
        addresses: &[IpAddr],
        groups: &[IpAddr],
    ) {
        self.act(now, fabric, id.into(), |interface, out| {
            interface.set_addresses(addresses.iter().copied(), groups.iter().copied(), out);
        });
    }

    /// Sets the kernel's routes over an interface.
    pub fn set_routes(&mut self, id: InterfaceId, routes: Vec<IpRoute>) {
        if let Some(bound) = self.of.get_mut(&id) {
            bound.interface.set_routes(routes);
        }
    }

    /// Gives the interfaces of a port its present state.
    pub fn follow_port(&mut self, now: Instant, fabric: &mut Fabric, port: PortRef) {
        let all: Vec<InterfaceId> = self.of.range(InterfaceId::range(port)).map(|(id, _)| *id).collect();
        all.into_iter().for_each(|id| self.follow(now, fabric, id));
    }

    /// Registers the interfaces of a port again: the subnet administration has forgotten the memberships.
    pub fn reregister(&mut self, now: Instant, fabric: &mut Fabric, port: PortRef) {
        let all: Vec<InterfaceId> = self.of.range(InterfaceId::range(port)).map(|(id, _)| *id).collect();
        for id in all {
            self.act(now, fabric, id, |interface, out| interface.handle_reregister(now, out));
        }
    }

    /// Gives an interface the state of its port: it has none without the P_Key in the port's table.
    fn follow(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId) {
        let Some(bound) = self.of.get_mut(&id) else { return };
        let (pkey, qpn) = (id.pkey(fabric), bound.qpn);
        if std::mem::replace(&mut bound.pkey, pkey) != pkey {
            self.routes.retain(|(from, ..), _| *from != id);
        }
        let info = fabric.port_info(id.port).filter(|info| info.port_state == PortState::ACTIVE && info.lid != 0);
        let info = info.filter(|_| pkey.is_some());
        let port = info.and_then(|info| Some(Port { gid: fabric.gid(id.port, 0)?, lid: info.lid, qpn }));
        self.act(now, fabric, id, |interface, out| interface.handle_port(port, out));
    }

    /// Handles a packet that the kernel of an interface's host sends.
    pub fn handle_packet(&mut self, now: Instant, fabric: &mut Fabric, id: impl Into<InterfaceId>, frame: Frame) {
        let id = id.into();
        let (Some(destination), Some(bound)) = (destination(frame.packet()), self.of.get(&id)) else { return };
        let next_hop = bound.interface.next_hop(destination);
        self.act(now, fabric, id, |interface, out| interface.handle_packet(now, next_hop, frame, out));
    }

    /// Handles a management datagram; returns whether it answered a query of an interface, or concerns one of its
    /// connections.
    pub fn handle_delivery(&mut self, now: Instant, fabric: &mut Fabric, delivery: &Delivery) -> bool {
        if delivery.mad.header.class() == Class::CM {
            return self.handle_cm(now, fabric, delivery);
        }
        let mut all = self.of.range_mut(InterfaceId::range(delivery.port));
        let answered = all.find_map(|(id, bound)| Some((*id, bound.queries.handle_mad(now, &delivery.mad)?)));
        let Some((id, answer)) = answered else { return false };
        self.handle_answer(now, fabric, id, answer);
        true
    }

    fn handle_answer(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId, answer: Answer) {
        self.act(now, fabric, id, |interface, out| match &answer {
            Answer::Joined(record) => interface.handle_joined(record, out),
            Answer::NotJoined(mgid) => interface.handle_join_refused(now, mgid),
            Answer::Path(record) => interface.handle_path(record, out),
            Answer::NoPath(dgid) => interface.handle_no_path(now, dgid),
        });
    }

    /// Returns when [`Interfaces::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of = |bound: &Bound| {
            let Bound { interface, queries, connections, .. } = bound;
            let timeouts = [interface.poll_timeout(), queries.poll_timeout(), connections.poll_timeout()];
            timeouts.into_iter().flatten().min()
        };
        self.of.values().filter_map(of).chain(self.transit.poll_timeout()).chain(self.flying.poll_timeout()).min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant, fabric: &mut Fabric) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.land_messages(now, fabric);
        self.land(now, fabric);
        let all: Vec<InterfaceId> = self.of.keys().copied().collect();
        for id in all {
            while let Some(bound) = self.of.get_mut(&id).filter(|bound| is_due(bound.queries.poll_timeout()))
                && let Some(answer) = bound.queries.poll_due(now, fabric)
            {
                self.handle_answer(now, fabric, id, answer);
            }
            if self.of.get(&id).is_some_and(|bound| is_due(bound.interface.poll_timeout())) {
                self.act(now, fabric, id, |interface, out| interface.handle_timeout(now, out));
            }
            if self.of.get(&id).is_some_and(|bound| is_due(bound.connections.poll_timeout())) {
                self.handle_connections_timeout(now, fabric, id);
            }
        }
    }

    /// Takes the next action.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Lets an interface act, and carries the datagrams that follow from it.
    fn act(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        id: InterfaceId,
        act: impl FnOnce(&mut Interface, &mut Vec<Output>),
    ) {
        let Some(bound) = self.of.get_mut(&id) else { return };
        act(&mut bound.interface, &mut self.out);
        self.perform(now, fabric, id);
        for _ in 0..STEPS_MAX {
            if let Some((from, to, frame)) = self.sent.pop_front() {
                self.carry(now, fabric, from, &to, frame);
            } else if let Some((from, connection, frame)) = self.messages.pop_front() {
                self.carry_message(now, fabric, from, connection, frame);
            } else {
                return;
            }
        }
        self.sent.clear();
        self.messages.clear();
    }

    fn perform(&mut self, now: Instant, fabric: &mut Fabric, id: InterfaceId) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain(..) {
            let Some(bound) = self.of.get_mut(&id) else { break };
            match output {
                Output::Join { mgid, full } => {
                    let like = bound.interface.broadcast().copied();
                    bound.queries.join(now, fabric, mgid, full, like.as_ref());
                }
                Output::Leave { mgid } => bound.queries.leave(now, fabric, mgid),
                Output::ResolvePath { dgid } => bound.queries.path(now, fabric, dgid),
                Output::Connect { connection, to, path, data } => {
                    bound.connections.connect(now, fabric, connection, &to, &path, data);
                }
                Output::SendMessage { connection, frame } => self.messages.push_back((id, connection, frame)),
                Output::Disconnect(connection) => bound.connections.disconnect(now, fabric, connection),
                Output::Send { to, frame } => self.sent.push_back((id, to, frame)),
                Output::Deliver(packet) => self.effects.push_back(Effect::Deliver(id, packet)),
                Output::Up { mtu } => self.effects.push_back(Effect::Link(id, Some(mtu))),
                Output::Down => self.effects.push_back(Effect::Link(id, None)),
            }
        }
        self.out = out;
    }
}
