//! Test trees that the generators cannot build: parallel cables, missing cables, random GUIDs.

use crate::graph::{End, Graph, Peer, Port, Switch};

/// A three-level tree: `pods`, each with `leaves` and `spines`; every leaf has `cables` to every spine of its pod, and
/// every spine has `up` cables to cores. A single pod without cores has two levels.
#[derive(Clone, Copy)]
pub struct Tree {
    pub pods: u32,
    pub leaves: u32,
    pub spines: u32,
    pub hosts: u32,
    pub cables: u32,
    pub up: u32,
    pub cores: u32,
    /// Whether a spine's cables go to as few cores as possible, several to each; otherwise to as many as possible.
    pub side_by_side: bool,
}

impl Tree {
    /// Number of cables from a pod to a core.
    fn rounds(&self) -> u32 {
        (self.spines * self.up).div_ceil(self.cores.max(1))
    }

    /// Builds the graph; switches precede hosts in GUIDs and LIDs.
    pub fn graph(&self) -> Graph {
        let ports = 1
            + (self.hosts + self.spines * self.cables)
                .max(self.leaves * self.cables + self.up)
                .max(self.pods * self.rounds());
        let mut graph = Graph::default();
        let count = self.pods * (self.leaves + self.spines) + self.cores;
        for at in 0..count {
            let ports = vec![Port { weight: 1, ..Port::default() }; ports as usize];
            let (guid, name) = (0x1000 + u64::from(at), format!("s{at}"));
            graph.switches.push(Switch { guid, name, lid: at as u16 + 1, lmc: 0, ports });
        }
        let leaf = |pod: u32, leaf: u32| pod * self.leaves + leaf;
        let spine = |pod: u32, spine: u32| self.pods * self.leaves + pod * self.spines + spine;
        let core = |core: u32| self.pods * (self.leaves + self.spines) + core;
        for pod in 0..self.pods {
            for (l, s) in (0..self.leaves).flat_map(|l| (0..self.spines).map(move |s| (l, s))) {
                for c in 0..self.cables {
                    let (up, down) = (self.hosts + 1 + s * self.cables + c, 1 + l * self.cables + c);
                    join(&mut graph, (leaf(pod, l), up), (spine(pod, s), down));
                }
            }
            for (s, u) in (0..self.spines).flat_map(|s| (0..self.up).map(move |u| (s, u))) {
                let (cable, rounds) = (s * self.up + u, self.rounds());
                let (to, round) = match self.side_by_side {
                    true => (cable / rounds, cable % rounds),
                    false => (cable % self.cores, cable / self.cores),
                };
                let up = self.leaves * self.cables + 1 + u;
                join(&mut graph, (spine(pod, s), up), (core(to), pod * rounds + round + 1));
            }
        }
        for (at, host) in (0..self.pods * self.leaves).flat_map(|leaf| (1..=self.hosts).map(move |host| (leaf, host))) {
            hang(&mut graph, at, host as u8);
        }
        graph
    }
}

/// Connects two ports with a cable.
pub fn join(graph: &mut Graph, a: (u32, u32), b: (u32, u32)) {
    for (from, to) in [(a, b), (b, a)] {
        let peer = Peer::Switch { switch: to.0, port: to.1 as u8 };
        graph.switches[from.0 as usize].ports[from.1 as usize] = Port { peer, vls: 8, capacity: 1000, weight: 1 };
    }
}

/// Attaches another end port to a switch port.
pub fn hang(graph: &mut Graph, switch: u32, port: u8) {
    let place = graph.ends.len() as u32;
    let lid = (graph.switch_count() + graph.ends.len()) as u16 + 1;
    let (guid, name) = (0x10_0000 + u64::from(place), format!("h{place}"));
    graph.switches[switch as usize].ports[usize::from(port)] =
        Port { peer: Peer::End(place), vls: 8, capacity: 1000, weight: 1 };
    graph.ends.push(End { guid, node_guid: guid, name, router: false, lid, lmc: 0, switch, port });
}

/// The same cabling with random GUIDs, and so other indices and LIDs; and the end ports in their original order.
pub fn shuffled(graph: &Graph, seed: u64) -> (Graph, Vec<u32>) {
    let by_lot = |count: usize, salt: u64| {
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|at| crate::routing::spread::mix(seed ^ salt ^ u64::from(*at) << 8));
        let mut place = vec![0u32; count];
        (0u32..).zip(&order).for_each(|(new, old)| place[*old as usize] = new);
        (order, place)
    };
    let (switches, switch_at) = by_lot(graph.switch_count(), 1);
    let (ends, end_at) = by_lot(graph.ends.len(), 2);
    let mut new = Graph::default();
    for (at, old) in (0u16..).zip(&switches) {
        let mut switch = graph.switches[*old as usize].clone();
        (switch.guid, switch.lid) = (0x1000 + u64::from(at), at + 1);
        for port in &mut switch.ports {
            port.peer = match port.peer {
                Peer::Switch { switch, port } => Peer::Switch { switch: switch_at[switch as usize], port },
                Peer::End(end) => Peer::End(end_at[end as usize]),
                Peer::None => Peer::None,
            };
        }
        new.switches.push(switch);
    }
    for (at, old) in (0u16..).zip(&ends) {
        let end = graph.ends[*old as usize].clone();
        let (guid, lid) = (0x10_0000 + u64::from(at), switches.len() as u16 + at + 1);
        new.ends.push(End { guid, node_guid: guid, lid, switch: switch_at[end.switch as usize], ..end });
    }
    (new, end_at)
}
