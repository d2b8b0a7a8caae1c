//! A subnet manager just large enough to bring up a fabric: it discovers nodes by directed routes, assigns LIDs, writes
//! shortest paths, and brings links to Active. It repeats lost queries a few times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_verbs::Instant;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{
    LFT_NO_PATH, LinearForwardingTable, NodeInfo, NodeType, PhysState, PortInfo, PortState, Smp, SwitchInfo,
};
use weft_wire::mad::{AttrId, Attribute, Block, Method};

/// A directed route, and the node and port that its last hop leaves.
type Way = (Vec<u8>, Option<(u64, u8)>);

/// Tries of a query.
const TRIES: u32 = 12;

/// A node that the manager found.
struct Found {
    way: Vec<u8>,
    switch: bool,
    /// The neighbour behind each port: its node and port number.
    links: BTreeMap<u8, (u64, u8)>,
    lid: u16,
}

/// The manager at a host.
pub struct Manager {
    port: PortRef,
    tid: u64,
    /// LIDs by GUID: a port that returns gets its old LID.
    lids: BTreeMap<u64, u16>,
    /// Directed routes to the nodes of the last sweep, by GUID.
    ways: BTreeMap<u64, Vec<u8>>,
    /// Selects among equal shortest paths: another number gives other tables.
    pub turn: usize,
    /// SMPs that it sent.
    pub sent: u64,
}

impl Manager {
    /// Creates a manager that has not swept yet.
    pub fn new(port: PortRef) -> Manager {
        Manager { port, tid: 0, lids: BTreeMap::new(), ways: BTreeMap::new(), turn: 0, sent: 0 }
    }

    /// Brings up everything within reach.
    pub fn sweep(&mut self, fabric: &mut Fabric, now: Instant) {
        let mut found = self.discover(fabric, now);
        let own = fabric.port_guid(self.port).unwrap_or(0);
        for (guid, node) in &mut found {
            let next = self.lids.len() as u16 + 1;
            node.lid = *self.lids.entry(*guid).or_insert(next);
        }
        let sm_lid = found.values().find(|node| node.way.is_empty()).map_or(own as u16, |node| node.lid);
        for node in found.values() {
            self.set_port(fabric, now, node, 0, |info| (info.lid, info.master_sm_lid) = (node.lid, sm_lid));
        }
        for (guid, node) in found.iter().filter(|(_, node)| node.switch) {
            self.route(fabric, now, &found, *guid, node);
        }
        for state in [PortState::ARMED, PortState::ACTIVE] {
            for node in found.values() {
                for number in node.links.keys() {
                    self.raise(fabric, now, node, *number, state);
                }
            }
        }
        self.ways = found.into_iter().map(|(guid, node)| (guid, node.way)).collect();
    }

    /// Writes an attribute of a discovered node; returns whether the node answered.
    pub fn write<A: Attribute>(
        &mut self,
        fabric: &mut Fabric,
        now: Instant,
        guid: u64,
        (attr, modifier): (AttrId, u32),
        change: impl FnOnce(&mut A),
    ) -> bool {
        let Some(way) = self.ways.get(&guid).cloned() else { return false };
        let Some(mut attribute) = self.get::<A>(fabric, now, &way, attr, modifier) else { return false };
        change(&mut attribute);
        let mut data = [0; 64];
        attribute.write(&mut data);
        self.ask(fabric, now, &way, Method::SET, attr, modifier, &data).is_some()
    }

    fn discover(&mut self, fabric: &mut Fabric, now: Instant) -> BTreeMap<u64, Found> {
        let mut found: BTreeMap<u64, Found> = BTreeMap::new();
        let mut ways: VecDeque<Way> = VecDeque::from([(vec![], None)]);
        while let Some((way, from)) = ways.pop_front() {
            let Some(info) = self.get::<NodeInfo>(fabric, now, &way, AttrId::NODE_INFO, 0) else { continue };
            let guid = info.node_guid;
            if let Some((peer, number)) = from {
                if let Some(peer) = found.get_mut(&peer) {
                    peer.links.insert(number, (guid, info.local_port_num));
                }
                if let Some(node) = found.get_mut(&guid) {
                    node.links.insert(info.local_port_num, (peer, number));
                    continue;
                }
            }
            let switch = info.node_type == NodeType::SWITCH;
            let mut node = Found { way: way.clone(), switch, links: BTreeMap::new(), lid: 0 };
            if let Some(from) = from {
                node.links.insert(info.local_port_num, from);
            }
            let ports = if switch { 1..=info.num_ports } else { info.local_port_num..=info.local_port_num };
            // Routes continue through switches, and from the first node.
            for number in ports.filter(|number| (switch || way.is_empty()) && !node.links.contains_key(number)) {
                let port = self.get::<PortInfo>(fabric, now, &way, AttrId::PORT_INFO, number.into());
                if port.is_some_and(|port| port.port_state != PortState::DOWN) {
                    ways.push_back(([&way[..], &[number]].concat(), Some((guid, number))));
                }
            }
            found.insert(guid, node);
        }
        found
    }

    /// Writes the forwarding table of a switch: for every LID, the first port of a shortest path.
    fn route(&mut self, fabric: &mut Fabric, now: Instant, found: &BTreeMap<u64, Found>, guid: u64, switch: &Found) {
        let top = self.lids.len() as u16;
        let mut ports = vec![LFT_NO_PATH; (usize::from(top) / 64 + 1) * 64];
        ports[usize::from(switch.lid)] = 0;
        let mut seen = BTreeSet::from([guid]);
        let mut queue: VecDeque<(u64, u8)> = switch.links.iter().map(|(number, (peer, _))| (*peer, *number)).collect();
        queue.rotate_left(self.turn % queue.len().max(1));
        while let Some((place, out)) = queue.pop_front() {
            let Some(node) = found.get(&place).filter(|_| seen.insert(place)) else { continue };
            ports[usize::from(node.lid)] = out;
            if node.switch {
                queue.extend(node.links.values().map(|(peer, _)| (*peer, out)));
            }
        }
        for (block, ports) in (0..).zip(ports.as_chunks::<64>().0) {
            let table = LinearForwardingTable { ports: Block(*ports) };
            self.ask(fabric, now, &switch.way, Method::SET, AttrId::LINEAR_FORWARDING_TABLE, block, &table.encode());
        }
        if let Some(info) = self.get::<SwitchInfo>(fabric, now, &switch.way, AttrId::SWITCH_INFO, 0) {
            let info = SwitchInfo { linear_fdb_top: top, port_state_change: true, ..info };
            self.ask(fabric, now, &switch.way, Method::SET, AttrId::SWITCH_INFO, 0, &info.encode());
        }
    }

    /// Moves a port one state further if it is in the state before.
    fn raise(&mut self, fabric: &mut Fabric, now: Instant, node: &Found, number: u8, state: PortState) {
        let before = PortState(state.0 - 1);
        let info = self.get::<PortInfo>(fabric, now, &node.way, AttrId::PORT_INFO, number.into());
        if info.is_some_and(|info| info.port_state == before) {
            self.set_port(fabric, now, node, number, |info| info.port_state = state);
        }
    }

    fn set_port(
        &mut self,
        fabric: &mut Fabric,
        now: Instant,
        node: &Found,
        number: u8,
        change: impl FnOnce(&mut PortInfo),
    ) {
        let info = self.get::<PortInfo>(fabric, now, &node.way, AttrId::PORT_INFO, number.into());
        let Some(mut info) = info else { return };
        (info.port_state, info.port_physical_state) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
        change(&mut info);
        self.ask(fabric, now, &node.way, Method::SET, AttrId::PORT_INFO, number.into(), &info.encode());
    }

    fn get<A: Attribute>(
        &mut self,
        fabric: &mut Fabric,
        now: Instant,
        way: &[u8],
        attr: AttrId,
        modifier: u32,
    ) -> Option<A> {
        let smp = self.ask(fabric, now, way, Method::GET, attr, modifier, &[0; 64])?;
        smp.attribute()
    }

    #[allow(clippy::too_many_arguments, reason = "a question has so many parts")]
    fn ask(
        &mut self,
        fabric: &mut Fabric,
        now: Instant,
        way: &[u8],
        method: Method,
        attr: AttrId,
        modifier: u32,
        data: &[u8; 64],
    ) -> Option<Smp> {
        self.tid += 1;
        let mut smp = Smp::directed(method, self.tid, attr, modifier, 0, way)?;
        smp.data = *data;
        let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
        for _ in 0..TRIES {
            self.sent += 1;
            fabric.send(now, self.port, &out).ok()?;
            // Discards traps; this manager only sweeps.
            while let Some(delivery) = fabric.poll_delivery() {
                if delivery.mad.header.tid() == self.tid && delivery.mad.header.method() == Method::GET_RESP {
                    return Some(Smp::from_mad(delivery.mad));
                }
            }
        }
        None
    }
}
