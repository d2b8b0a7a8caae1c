//! Routing graphs of generated topologies, for tests.

use std::collections::BTreeMap;

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::topology::{NodeKind, Topology};

use crate::graph::{End, Graph, Peer, Port, Switch};

/// Returns the graph of a generated topology.
pub fn generated(shape: Shape) -> Graph {
    graph(&Plan::new(shape).generate().expect("a topology"))
}

/// Returns the graph of a topology: LIDs from 1, switches first, in order of GUID; eight VLs on every link.
pub fn graph(topology: &Topology) -> Graph {
    let mut switches: Vec<u32> = places(topology, true);
    let mut others: Vec<u32> = places(topology, false);
    let guid = |place: &u32| topology.nodes[*place as usize].guid;
    switches.sort_by_key(guid);
    others.sort_by_key(guid);
    let at: BTreeMap<u32, u32> = switches.iter().zip(0u32..).map(|(place, at)| (*place, at)).collect();
    let mut graph = Graph::default();
    let mut lid = 1..;
    for place in &switches {
        let node = &topology.nodes[*place as usize];
        let ports = vec![Port { weight: 1, ..Port::default() }; node.ports.len() + 1];
        let lid = lid.next().expect("a LID");
        graph.switches.push(Switch { guid: node.guid, name: node.name.clone(), lid, lmc: 0, ports });
    }
    let mut cables: BTreeMap<(u32, u8), (u32, u8)> = BTreeMap::new();
    for cable in &topology.cables {
        let (a, b) = ((cable.a.node, cable.a.port), (cable.b.node, cable.b.port));
        cables.extend([(a, b), (b, a)]);
    }
    for (from, to) in &cables {
        if let (Some(switch), Some(other)) = (at.get(&from.0), at.get(&to.0)) {
            let peer = Peer::Switch { switch: *other, port: to.1 };
            graph.switches[*switch as usize].ports[usize::from(from.1)] =
                Port { peer, vls: 8, capacity: 1000, weight: 1 };
        }
    }
    for place in &others {
        let node = &topology.nodes[*place as usize];
        for (number, port) in (1u8..).zip(&node.ports) {
            let Some((switch, switch_port)) = cables.get(&(*place, number)) else { continue };
            let Some(switch) = at.get(switch) else { continue };
            let end = graph.ends.len() as u32;
            graph.switches[*switch as usize].ports[usize::from(*switch_port)] =
                Port { peer: Peer::End(end), vls: 8, capacity: 1000, weight: 1 };
            graph.ends.push(End {
                guid: port.guid,
                node_guid: node.guid,
                name: node.description.clone(),
                router: node.kind == NodeKind::Router,
                lid: lid.next().expect("a LID"),
                lmc: 0,
                switch: *switch,
                port: *switch_port,
            });
        }
    }
    graph
}

fn places(topology: &Topology, switches: bool) -> Vec<u32> {
    let nodes = (0u32..).zip(&topology.nodes);
    nodes.filter(|(_, node)| (node.kind == NodeKind::Switch) == switches).map(|(place, _)| place).collect()
}

#[test]
fn a_generated_fat_tree_is_a_graph() {
    let graph = generated(Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None });
    assert_eq!((graph.switch_count(), graph.ends.len()), (6, 8));
    assert_eq!(graph.lid_top(), 14);
    for (place, end) in (0u32..).zip(&graph.ends) {
        assert_eq!(graph.switches[end.switch as usize].ports[usize::from(end.port)].peer, Peer::End(place));
    }
    for (place, switch) in (0u32..).zip(&graph.switches) {
        for (port, other, other_port) in switch.links() {
            let back = graph.switches[other as usize].ports[usize::from(other_port)].peer;
            assert_eq!(back, Peer::Switch { switch: place, port });
        }
    }
}

#[test]
fn ports_have_numbers_up_to_the_last() {
    let ports = vec![Port { peer: Peer::End(7), ..Port::default() }; 255];
    let switch = Switch { ports, ..Switch::default() };
    let mut hung = switch.hung();
    let last = std::iter::from_fn(|| hung.next()).last();
    assert_eq!(last, Some((254, 7)));
}
