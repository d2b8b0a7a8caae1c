//! The fabric as channels, for engines that weigh and order links. A channel is one direction of a link between
//! switches. The channels of a switch are contiguous, in port order.

use crate::graph::{Graph, Peer};
use crate::parallel::Parallel;
use crate::routing::Request;
use crate::routing::work::map;

/// Distance of an unreachable switch.
pub(super) const FAR: u16 = u16::MAX;
/// Channel index for "no channel".
pub(super) const NOWHERE: u8 = u8::MAX;

/// One direction of a link between switches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Source switch.
    pub from: u32,
    /// Destination switch.
    pub to: u32,
    /// Port of `from`.
    pub port: u8,
    /// Port of `to`.
    pub port_in: u8,
    /// The channel in the opposite direction.
    pub back: u32,
    /// Weight of a hop.
    pub weight: u16,
    /// Relative cost of a path on this channel: 256 for the fastest link.
    pub scale: u32,
}

/// A LID and its location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The switch that the LID's port is attached to, or that has the LID.
    pub switch: u32,
    /// The LID.
    pub lid: u16,
    /// The switch's port.
    pub port: u8,
    /// Index of the LID among the port's LIDs.
    pub rank: u8,
    /// Whether the LID belongs to an end port and not to a switch.
    pub end: bool,
}

/// A fabric's channels and LIDs.
#[derive(Clone, Debug)]
pub(super) struct Net {
    /// First channel of each switch; one more entry at the end.
    pub first: Vec<u32>,
    /// All channels.
    pub channels: Vec<Channel>,
    /// Number of adapter ports at each switch.
    pub hung: Vec<u32>,
    /// Every LID: first the first LIDs of adapter ports, round robin over the switches; then their further LIDs;
    /// switches last.
    pub targets: Vec<Target>,
    /// Maximum number of channels of a switch.
    pub degree: usize,
}

impl Net {
    /// The channels of a graph. Skips links that only one end reports.
    pub fn new(graph: &Graph) -> Net {
        let mut first = vec![0];
        let mut channels = Vec::new();
        let fastest =
            graph.switches.iter().flat_map(|switch| &switch.ports).map(|port| port.capacity).max().unwrap_or(1);
        for (from, switch) in (0u32..).zip(&graph.switches) {
            for (port, to, port_in) in switch.links() {
                if !answered(graph, from, port, to, port_in) {
                    continue;
                }
                let at = switch.ports[usize::from(port)];
                let scale = (u64::from(fastest) * 256 / u64::from(at.capacity.max(1))).clamp(1, 1 << 16) as u32;
                channels.push(Channel { from, to, port, port_in, back: 0, weight: at.weight.clamp(1, 255), scale });
            }
            first.push(channels.len() as u32);
        }
        let mut net = Net { first, channels, hung: hung(graph), targets: targets(graph), degree: 0 };
        net.degree = (0..net.switch_count()).map(|switch| net.of(switch).len()).max().unwrap_or(0);
        for at in 0..net.channels.len() {
            let Channel { to, port_in, .. } = net.channels[at];
            let back = net.of(to as usize).find(|back| net.channels[*back].port == port_in);
            net.channels[at].back = back.unwrap_or(at) as u32;
        }
        net
    }

    /// The number of switches.
    pub fn switch_count(&self) -> usize {
        self.first.len() - 1
    }

    /// The channels that start at a switch.
    pub fn of(&self, switch: usize) -> std::ops::Range<usize> {
        self.first[switch] as usize..self.first[switch + 1] as usize
    }

    /// The channel with this index among the switch's channels; `None` for [`NOWHERE`].
    pub fn channel(&self, switch: usize, place: u8) -> Option<usize> {
        (place != NOWHERE).then(|| self.first[switch] as usize + usize::from(place))
    }

    /// Number of usable VLs: limited by the configuration and by every link between switches.
    pub fn lanes_max(&self, request: &Request<'_>) -> u8 {
        let has =
            |channel: &Channel| request.graph.switches[channel.from as usize].ports[usize::from(channel.port)].vls;
        let least = self.channels.iter().map(has).min().unwrap_or(1);
        request.options.lanes_max.min(least).max(1)
    }

    /// Distances of all switches to every switch, by destination.
    pub fn distances(&self, parallel: &dyn Parallel) -> Vec<Vec<u16>> {
        map(parallel, self.switch_count(), |target| self.distances_to(target))
    }

    /// Distances of all switches to one switch; [`FAR`] if there is no path.
    pub fn distances_to(&self, target: usize) -> Vec<u16> {
        let mut far = vec![FAR; self.switch_count()];
        let mut rings: Vec<Vec<u32>> = vec![vec![target as u32]];
        far[target] = 0;
        let mut ring = 0;
        while ring < rings.len() {
            for at in std::mem::take(&mut rings[ring]) {
                if usize::from(far[at as usize]) != ring {
                    continue;
                }
                for channel in self.of(at as usize) {
                    let back = self.channels[self.channels[channel].back as usize];
                    let there = ring + usize::from(back.weight);
                    if there < usize::from(far[back.from as usize]).min(usize::from(FAR)) {
                        far[back.from as usize] = there as u16;
                        rings.resize_with(rings.len().max(there + 1), Vec::new);
                        rings[there].push(back.from);
                    }
                }
            }
            ring += 1;
        }
        far
    }
}

/// Switches sorted by distance, nearest first, without unreachable ones.
pub(super) fn by_distance(far: &[u16], order: &mut Vec<u32>) {
    let top = far.iter().filter(|far| **far != FAR).max().copied().unwrap_or(0);
    let mut starts = vec![0usize; usize::from(top) + 2];
    for far in far.iter().filter(|far| **far != FAR) {
        starts[usize::from(*far) + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    order.clear();
    order.resize(starts[starts.len() - 1], 0);
    for (switch, far) in (0u32..).zip(far).filter(|(_, far)| **far != FAR) {
        let start = &mut starts[usize::from(*far)];
        order[*start] = switch;
        *start += 1;
    }
}

/// Whether the port at the other end reports the same link.
fn answered(graph: &Graph, from: u32, port: u8, to: u32, port_in: u8) -> bool {
    let other = graph.switches.get(to as usize).and_then(|switch| switch.ports.get(usize::from(port_in)));
    to != from && other.is_some_and(|other| other.peer == Peer::Switch { switch: from, port })
}

fn hung(graph: &Graph) -> Vec<u32> {
    let mut hung = vec![0; graph.switch_count()];
    for end in &graph.ends {
        if let Some(count) = hung.get_mut(end.switch as usize) {
            *count += 1;
        }
    }
    hung
}

fn targets(graph: &Graph) -> Vec<Target> {
    let mut seen = vec![0u32; graph.switch_count()];
    let mut ends: Vec<(u8, u32, Target)> = Vec::new();
    for end in graph.ends.iter().filter(|end| (end.switch as usize) < graph.switch_count() && end.lid != 0) {
        let turn = &mut seen[end.switch as usize];
        for (rank, lid) in (0..=u8::MAX).zip(end.lids()) {
            ends.push((rank, *turn, Target { switch: end.switch, lid, port: end.port, rank, end: true }));
        }
        *turn += 1;
    }
    ends.sort_by_key(|(rank, turn, target)| (*rank, *turn, target.switch, target.lid));
    let mut targets: Vec<Target> = ends.into_iter().map(|(_, _, target)| target).collect();
    for (at, switch) in (0u32..).zip(&graph.switches).filter(|(_, switch)| switch.lid != 0) {
        let lids = (0..=u8::MAX).zip(switch.lids());
        targets.extend(lids.map(|(rank, lid)| Target { switch: at, lid, port: 0, rank, end: false }));
    }
    targets
}
