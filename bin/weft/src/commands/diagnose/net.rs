//! The fabric in the form that the route checks use: switches, links and tables by index, so that millions of steps are
//! fast. Switches are ordered by GUID, as in the routing engines' graph.

use weft_diags::ibnet::PortRef;

use super::survey::Survey;

/// A forwarding table entry that drops packets (port 255).
pub const NOWHERE: u8 = 255;

/// Index of a node that is no switch with a known table.
const NO_PLACE: u32 = u32::MAX;

/// The other end of a cable at a switch's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// No cable.
    None,
    /// A switch whose table is unknown.
    Unknown,
    /// A switch, by its index, and the port there.
    Switch(u32, u8),
    /// A port of an adapter or a router.
    End(PortRef),
}

/// The next hop of a packet for a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The packet has reached its destination.
    There,
    /// Over this link to the switch with this index, where it enters by this port.
    At(usize, u32, u8),
    /// The packet reaches the wrong port.
    Wrong(PortRef),
    /// The packet is dropped: no route, or no cable.
    Dropped,
    /// The packet reaches a switch whose table is unknown.
    Unknown,
}

/// The fabric. A link has the number `place * stride + port`, after the switch that sends into it.
#[derive(Debug)]
pub struct Net<'a> {
    /// Node numbers of the switches with known tables.
    pub switches: Vec<usize>,
    /// Number of ports of the largest switch, including port 0.
    pub stride: usize,
    /// The peer of each link.
    pub peers: Vec<Peer>,
    /// Linear forwarding tables.
    pub tables: Vec<&'a [u8]>,
    places: Vec<u32>,
}

impl<'a> Net<'a> {
    /// The fabric that was surveyed.
    pub fn new(survey: &'a Survey) -> Net<'a> {
        let fabric = &survey.fabric;
        let mut switches: Vec<usize> = survey.lfts.keys().copied().collect();
        switches.sort_by_key(|switch| fabric.node(*switch).guid);
        let mut places = vec![NO_PLACE; fabric.node_count()];
        (0u32..).zip(&switches).for_each(|(place, switch)| places[*switch] = place);
        let stride = switches.iter().map(|switch| usize::from(fabric.node(*switch).num_ports) + 1).max().unwrap_or(1);
        let mut peers = vec![Peer::None; stride * switches.len()];
        for (place, switch) in switches.iter().enumerate() {
            for port in fabric.node(*switch).external_ports() {
                let Some(remote) = port.remote else { continue };
                peers[place * stride + usize::from(port.num)] = match places[remote.node] {
                    NO_PLACE if fabric.node(remote.node).is_switch() => Peer::Unknown,
                    NO_PLACE => Peer::End(remote),
                    other => Peer::Switch(other, remote.port),
                };
            }
        }
        let tables = switches.iter().map(|switch| survey.lfts.get(switch).map_or(&[][..], Vec::as_slice)).collect();
        Net { switches, stride, peers, tables, places }
    }

    /// The index of a node, if it is a switch with a known table.
    pub fn place(&self, node: usize) -> Option<u32> {
        self.places.get(node).copied().filter(|place| *place != NO_PLACE)
    }

    /// The output port and the next hop from a switch towards a LID.
    pub fn step(&self, at: u32, lid: u16, end: PortRef) -> (u8, Step) {
        let port = self.tables[at as usize].get(usize::from(lid)).copied().unwrap_or(NOWHERE);
        if port == 0 {
            let here = PortRef { node: self.switches[at as usize], port: 0 };
            return (0, if end.node == here.node { Step::There } else { Step::Wrong(here) });
        }
        if usize::from(port) >= self.stride {
            return (port, Step::Dropped);
        }
        let link = at as usize * self.stride + usize::from(port);
        let next = match self.peers[link] {
            Peer::None => Step::Dropped,
            Peer::Unknown => Step::Unknown,
            Peer::Switch(place, into) => Step::At(link, place, into),
            Peer::End(there) if there == end => Step::There,
            Peer::End(there) => Step::Wrong(there),
        };
        (port, next)
    }

    /// The port that sends into a link.
    pub fn port(&self, link: usize) -> PortRef {
        PortRef { node: self.switches[link / self.stride], port: (link % self.stride) as u8 }
    }

    /// The links between switches.
    pub fn links(&self) -> impl Iterator<Item = usize> + '_ {
        let links = self.peers.iter().enumerate();
        links.filter(|(_, peer)| matches!(peer, Peer::Switch(..))).map(|(link, _)| link)
    }
}
