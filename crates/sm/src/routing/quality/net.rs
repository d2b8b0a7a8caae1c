//! A fabric and its tables, in the form that the checks use.

use crate::graph::{Graph, Peer};
use crate::parallel::Parallel;
use crate::tables::{NO_PATH, Tables};

/// Index for "no switch".
pub const NONE: u32 = u32::MAX;

/// A fabric and its tables. The index of a link is `switch * stride + port`.
pub struct Net<'a> {
    pub graph: &'a Graph,
    pub tables: &'a Tables,
    /// Number of ports of the largest switch.
    pub stride: usize,
    /// The switch at the end of each link, or [`NONE`].
    pub peers: Vec<u32>,
    /// The port at the end of each link.
    pub backs: Vec<u8>,
    /// Number of end ports at each switch.
    pub sources: Vec<u32>,
    /// Every assigned LID.
    pub owners: Vec<Owner>,
}

/// A LID and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub lid: u16,
    /// The last switch and its port.
    pub switch: u32,
    pub port: u8,
    /// Whether the LID belongs to an end port and not to a switch.
    pub is_end: bool,
}

/// Next step on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Arrived at the destination.
    Arrived,
    /// Over this link to this switch.
    Hop(usize, u32),
    /// The table has no entry.
    Unset,
    /// Leaves the fabric at the wrong place.
    Astray,
}

impl<'a> Net<'a> {
    pub fn new(graph: &'a Graph, tables: &'a Tables) -> Net<'a> {
        let stride = graph.switches.iter().map(|switch| switch.ports.len()).max().unwrap_or(0);
        let mut peers = vec![NONE; stride * graph.switch_count()];
        let mut backs = vec![0; peers.len()];
        let mut sources = vec![0; graph.switch_count()];
        for (place, switch) in graph.switches.iter().enumerate() {
            for (number, port) in switch.ports.iter().enumerate() {
                match port.peer {
                    Peer::Switch { switch, port } => {
                        (peers[place * stride + number], backs[place * stride + number]) = (switch, port);
                    }
                    Peer::End(_) => sources[place] += 1,
                    Peer::None => {}
                }
            }
        }
        Net { graph, tables, stride, peers, backs, sources, owners: owners(graph) }
    }

    /// The next step of a packet to a LID at a switch.
    pub fn step(&self, at: u32, to: &Owner) -> Step {
        let row = self.tables.lfts.get(at as usize);
        let port = row.and_then(|row| row.get(usize::from(to.lid))).copied().unwrap_or(NO_PATH);
        if at == to.switch && port == to.port {
            return Step::Arrived;
        }
        if port == NO_PATH {
            return Step::Unset;
        }
        let link = at as usize * self.stride + usize::from(port);
        match self.peers.get(link) {
            Some(peer) if *peer != NONE && usize::from(port) < self.stride => Step::Hop(link, *peer),
            _ => Step::Astray,
        }
    }

    /// Processes LIDs in parallel pieces: `start` creates the state of a piece, and `join` merges the states.
    pub fn pieces<T: Send>(
        &self,
        parallel: &dyn Parallel,
        start: impl Fn() -> T + Sync,
        work: impl Fn(&mut T, &Owner) + Sync,
        join: impl Fn(&mut T, T) + Sync,
    ) -> T {
        let pieces = (parallel.width() * 2).max(1);
        let size = self.owners.len().div_ceil(pieces).max(1);
        let all = std::sync::Mutex::new(start());
        parallel.each(pieces, &|piece| {
            let mut mine = start();
            self.owners.iter().skip(piece * size).take(size).for_each(|owner| work(&mut mine, owner));
            join(&mut all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), mine);
        });
        all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn owners(graph: &Graph) -> Vec<Owner> {
    let mut owners = Vec::new();
    for (place, switch) in (0u32..).zip(&graph.switches) {
        let lids = switch.lids().filter(|lid| *lid != 0);
        owners.extend(lids.map(|lid| Owner { lid, switch: place, port: 0, is_end: false }));
    }
    for end in &graph.ends {
        owners.extend(end.lids().map(|lid| Owner { lid, switch: end.switch, port: end.port, is_end: true }));
    }
    owners.sort_by_key(|owner| owner.lid);
    owners
}
