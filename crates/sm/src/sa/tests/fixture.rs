//! A subnet built from a topology, with everything that the administrator reads.

use std::collections::{BTreeMap, VecDeque};

use super::sm::graph::{End, Graph, Peer, Port as GraphPort, Switch};
use super::sm::sa::{Settings, World};
use super::sm::subnet::{Node, NodeIx, Port, PortIx, Route, Subnet, SwitchState};
use super::sm::tables::Tables;
use weft_fabric::topology::{NodeKind, Topology};
use weft_wire::mad::Speed;
use weft_wire::mad::subn::{
    CapabilityMask, LinkSpeed, LinkWidth, NodeDescription, NodeInfo, NodeType, PhysState, PortInfo, PortState, SmInfo,
    SmState, SwitchInfo,
};

/// The owner of a [`World`] built from a topology.
pub struct Fixture {
    pub generation: u64,
    pub subnet: Subnet,
    pub graph: Graph,
    pub tables: Tables,
    pub settings: Settings,
    pub partitions: BTreeMap<u16, u8>,
    pub managers: Vec<SmInfo>,
}

impl Fixture {
    /// A subnet with all links up: LIDs by PortGUID from `lid`, tables of shortest paths.
    pub fn new(topology: &Topology, lid: impl Fn(u64) -> u16) -> Fixture {
        let mut subnet = Subnet::default();
        for (place, node) in (0u32..).zip(&topology.nodes) {
            let made = made(node, &lid);
            subnet.by_guid.insert(node.guid, NodeIx(place));
            for (number, port) in (0..=u8::MAX).zip(&made.ports) {
                let at = PortIx { node: NodeIx(place), port: number };
                if port.guid != 0 {
                    subnet.by_port_guid.insert(port.guid, at);
                    subnet.by_lid.insert(port.lid, at);
                    if node.kind == NodeKind::Ca {
                        subnet.own = subnet.own.or(Some(at));
                    }
                }
            }
            subnet.nodes.push(Some(made));
        }
        for cable in &topology.cables {
            let end = |end: weft_fabric::topology::End| PortIx { node: NodeIx(end.node), port: end.port };
            for (from, to) in [(end(cable.a), end(cable.b)), (end(cable.b), end(cable.a))] {
                let port = subnet.nodes[from.node.0 as usize].as_mut().expect("a node");
                let port = &mut port.ports[usize::from(from.port)];
                port.neighbor = Some(to);
                port.info.port_state = PortState::ACTIVE;
                port.info.port_physical_state = PhysState::LINK_UP;
            }
        }
        let own = subnet.own.and_then(|at| subnet.port(at)).map_or(0, |port| port.guid);
        let graph = graph_of(&subnet);
        let tables = shortest(&graph);
        for (place, switch) in graph.switches.iter().enumerate() {
            let node = subnet.by_guid[&switch.guid];
            let state = subnet.nodes[node.0 as usize].as_mut().and_then(|node| node.switch.as_mut()).expect("a switch");
            state.info.linear_fdb_top = graph.lid_top();
            state.lft = tables.lfts[place].clone();
        }
        let manager = SmInfo { guid: own, priority: 14, state: SmState::MASTER, ..SmInfo::default() };
        let partitions = BTreeMap::from([(0x7fff, 0)]);
        let settings = Settings::default();
        Fixture { generation: 1, subnet, graph, tables, settings, partitions, managers: vec![manager] }
    }

    /// Assigns LIDs from 1 in PortGUID order.
    pub fn numbered(topology: &Topology) -> Fixture {
        let guids = topology.nodes.iter().flat_map(|node| {
            let own = (node.kind == NodeKind::Switch).then_some(node.guid);
            let ports = node.ports.iter().filter(|_| node.kind != NodeKind::Switch).map(|port| port.guid);
            own.into_iter().chain(ports)
        });
        let mut guids: Vec<u64> = guids.collect();
        guids.sort_unstable();
        let lids: BTreeMap<u64, u16> = guids.into_iter().zip(1..).collect();
        Fixture::new(topology, |guid| lids[&guid])
    }

    /// The world that the administrator sees.
    pub fn world(&self) -> World<'_> {
        World {
            generation: self.generation,
            serving: true,
            subnet: &self.subnet,
            graph: &self.graph,
            tables: &self.tables,
            settings: &self.settings,
            partitions: &self.partitions,
            policy: None,
            lanes: None,
            managers: &self.managers,
        }
    }
}

/// A node in the state after bring-up.
fn made(node: &weft_fabric::topology::Node, lid: &impl Fn(u64) -> u16) -> Node {
    let is_switch = node.kind == NodeKind::Switch;
    let node_type = match node.kind {
        NodeKind::Switch => NodeType::SWITCH,
        NodeKind::Router => NodeType::ROUTER,
        NodeKind::Ca => NodeType::CA,
    };
    let first = if is_switch { node.guid } else { node.ports.first().map_or(0, |port| port.guid) };
    let info = NodeInfo {
        base_version: 1,
        class_version: 1,
        node_type,
        num_ports: node.port_count(),
        system_image_guid: node.system_image_guid,
        node_guid: node.guid,
        port_guid: first,
        partition_cap: if is_switch { 8 } else { 64 },
        device_id: node.device_id,
        revision: 0xa1,
        local_port_num: u8::from(!is_switch),
        vendor_id: node.vendor_id,
    };
    let mut ports = vec![own_port(if is_switch { node.guid } else { 0 }, lid)];
    for port in &node.ports {
        let guid = if is_switch { 0 } else { port.guid };
        let lid = if guid == 0 { 0 } else { lid(guid) };
        let guids = if guid == 0 { Vec::new() } else { vec![guid] };
        ports.push(Port { info: port_info(lid), guid, lid, pkeys: vec![0xffff], guids, ..Port::default() });
    }
    let switch = is_switch.then(|| SwitchState {
        info: SwitchInfo {
            linear_fdb_cap: 0x7800,
            multicast_fdb_cap: 0x400,
            life_time_value: 18,
            partition_enforcement_cap: 64,
            filter_raw_inbound_cap: true,
            filter_raw_outbound_cap: true,
            enhanced_port0: true,
            ..SwitchInfo::default()
        },
        ..SwitchState::default()
    });
    let description = NodeDescription::new(&node.description);
    Node { info, description, ports, switch, route: Route::new() }
}

/// Port 0: a switch's own port; unused in other nodes.
fn own_port(guid: u64, lid: &impl Fn(u64) -> u16) -> Port {
    if guid == 0 {
        return Port::default();
    }
    let (link_speed_active, ..) = Speed::Sdr.active_fields();
    let lid = lid(guid);
    let info = PortInfo {
        port_state: PortState::ACTIVE,
        mtu_cap: 3,
        neighbor_mtu: 3,
        guid_cap: 1,
        link_speed_active,
        link_speed_ext_active: Default::default(),
        ..port_info(lid)
    };
    Port { info, guid, lid, pkeys: vec![0xffff], guids: vec![guid], ..Port::default() }
}

fn port_info(lid: u16) -> PortInfo {
    let (link_speed_active, link_speed_ext_active, _) = Speed::Edr.active_fields();
    PortInfo {
        gid_prefix: 0xfe80_0000_0000_0000,
        lid,
        master_sm_lid: 1,
        capability_mask: CapabilityMask::EXTENDED_SPEEDS | CapabilityMask::TRAP,
        link_width_active: LinkWidth::X4,
        link_speed_active,
        link_speed_supported: LinkSpeed::all(),
        link_speed_enabled: LinkSpeed::all(),
        link_speed_ext_active,
        port_state: PortState::DOWN,
        neighbor_mtu: 4,
        mtu_cap: 4,
        guid_cap: 32,
        subnet_timeout: 18,
        ..PortInfo::default()
    }
}

/// The subnet as the routing engines see it.
pub fn graph_of(subnet: &Subnet) -> Graph {
    let mut graph = Graph::default();
    let mut places: BTreeMap<NodeIx, u32> = BTreeMap::new();
    for (guid, at) in &subnet.by_guid {
        let node = subnet.node(*at).expect("a node");
        if node.switch.is_some() {
            places.insert(*at, graph.switches.len() as u32);
            let ports = vec![GraphPort { weight: 1, vls: 8, capacity: 1000, peer: Peer::None }; node.ports.len()];
            let name = node.description.text().into_owned();
            graph.switches.push(Switch { guid: *guid, name, lid: node.ports[0].lid, lmc: node.ports[0].lmc, ports });
        }
    }
    for (at, node, port) in subnet.end_ports().filter(|(_, node, _)| node.switch.is_none()) {
        let Some(there) = port.neighbor else { continue };
        let Some(switch) = places.get(&there.node).copied() else { continue };
        let place = graph.ends.len() as u32;
        graph.switches[switch as usize].ports[usize::from(there.port)].peer = Peer::End(place);
        let _ = at;
        graph.ends.push(End {
            guid: port.guid,
            node_guid: node.info.node_guid,
            name: node.description.text().into_owned(),
            router: node.info.node_type == NodeType::ROUTER,
            lid: port.lid,
            lmc: port.lmc,
            switch,
            port: there.port,
        });
    }
    for (at, place) in &places {
        for (number, port) in subnet.node(*at).expect("a node").ports.iter().enumerate() {
            if let Some(there) = port.neighbor
                && let Some(switch) = places.get(&there.node).copied()
            {
                graph.switches[*place as usize].ports[number].peer = Peer::Switch { switch, port: there.port };
            }
        }
    }
    graph
}

/// Tables of shortest paths; each LID takes one of the links available.
pub fn shortest(graph: &Graph) -> Tables {
    let mut tables = Tables::empty("shortest", graph);
    let ends = graph.ends.iter().map(|end| (end.switch, end.port, end.lids()));
    let switches = (0u32..).zip(&graph.switches).map(|(place, switch)| (place, 0, switch.lids()));
    let mut at: Vec<Vec<(u8, std::ops::Range<u16>)>> = vec![Vec::new(); graph.switch_count()];
    ends.chain(switches).for_each(|(switch, port, lids)| at[switch as usize].push((port, lids)));
    for (root, here) in at.iter().enumerate() {
        let mut distance = vec![u32::MAX; graph.switch_count()];
        distance[root] = 0;
        let mut queue = VecDeque::from([root as u32]);
        while let Some(from) = queue.pop_front() {
            for (_, other, _) in graph.switches[from as usize].links() {
                if distance[other as usize] == u32::MAX {
                    distance[other as usize] = distance[from as usize] + 1;
                    queue.push_back(other);
                }
            }
        }
        for (place, switch) in graph.switches.iter().enumerate() {
            let near = switch.links().filter(|(_, other, _)| distance[*other as usize] < distance[place]);
            let ways: Vec<u8> = near.map(|(port, _, _)| port).collect();
            for (port, lids) in here {
                for lid in lids.clone() {
                    let way = match place == root {
                        true => *port,
                        false => ways[usize::from(lid) % ways.len()],
                    };
                    tables.lfts[place][usize::from(lid)] = way;
                }
            }
        }
    }
    tables
}
