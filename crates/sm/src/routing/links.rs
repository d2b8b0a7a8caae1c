//! The links between switches as vectors, in the order in which engines try them.

use crate::graph::{Graph, Peer};

use super::{Request, RoutingOptions};

/// A link as seen from one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The switch's port.
    pub port: u8,
    /// The port at the other end.
    pub back: u8,
    /// The other switch.
    pub peer: u32,
    /// Weight of a hop, at least 1.
    pub weight: u16,
    /// Weight of a hop in the opposite direction.
    pub back_weight: u16,
    /// Load that one path adds: higher for slow links.
    pub scale: u16,
}

/// Every link of a fabric, grouped by switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    start: Vec<u32>,
    links: Vec<Link>,
    weighted: bool,
}

/// Load that one path adds to the fastest links.
pub const SCALE: u16 = 16;

impl Links {
    /// The links of a graph, in port order.
    pub fn new(graph: &Graph) -> Links {
        let fastest = graph.switches.iter().flat_map(|s| &s.ports).map(|p| p.capacity).max().unwrap_or(0);
        let mut all = Links { start: vec![0], ..Links::default() };
        for switch in &graph.switches {
            for (number, port) in (0..=u8::MAX).zip(&switch.ports) {
                let Peer::Switch { switch: peer, port: back } = port.peer else { continue };
                let Some(other) = graph.switches.get(peer as usize) else { continue };
                let back_weight = other.ports.get(usize::from(back)).map_or(1, |port| port.weight).max(1);
                let weight = port.weight.max(1);
                all.weighted |= (weight, back_weight) != (1, 1);
                let slower = if port.capacity == 0 { 1.0 } else { f64::from(fastest) / f64::from(port.capacity) };
                let scale = (f64::from(SCALE) * slower).min(4096.0) as u16;
                all.links.push(Link { port: number, back, peer, weight, back_weight, scale });
            }
            all.start.push(all.links.len() as u32);
        }
        all
    }

    /// The links in the configured order.
    pub fn ordered(request: &Request<'_>) -> Links {
        let mut links = Links::new(request.graph);
        for (place, switch) in request.graph.switches.iter().enumerate() {
            let of = links.range(place);
            links.sort(request.graph, request.options, switch.guid, of);
        }
        links
    }

    fn sort(&mut self, graph: &Graph, options: &RoutingOptions, guid: u64, of: std::ops::Range<usize>) {
        let Some(links) = self.links.get_mut(of) else { return };
        if options.remote_guid_sorting {
            links.sort_by_key(|link| (graph.switches[link.peer as usize].guid, link.back));
        }
        if let Some((_, ports)) = options.dimn_ports.iter().find(|(of, _)| *of == guid) {
            links.sort_by_key(|link| ports.iter().position(|port| *port == link.port).unwrap_or(usize::MAX));
        }
    }

    fn range(&self, switch: usize) -> std::ops::Range<usize> {
        self.start[switch] as usize..self.start[switch + 1] as usize
    }

    /// The links of a switch.
    pub fn of(&self, switch: u32) -> &[Link] {
        &self.links[self.range(switch as usize)]
    }

    /// The links of a switch, each with its index among all links.
    pub fn numbered(&self, switch: u32) -> impl Iterator<Item = (u32, &Link)> + '_ {
        let of = self.range(switch as usize);
        (of.start as u32..).zip(&self.links[of])
    }

    /// The link with this index among all links.
    pub fn at(&self, place: u32) -> &Link {
        &self.links[place as usize]
    }

    /// The number of links, each counted from both ends.
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// The number of switches.
    pub fn switch_count(&self) -> usize {
        self.start.len() - 1
    }

    /// Whether hop weights differ.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }
}
