//! Credit loop check: whether packets can deadlock. Each packet holds the buffer of one channel, which is a VL of a
//! link, and waits for the next channel of its path. If the channel dependency graph has no cycle, no deadlock can
//! occur (Dally, Seitz, 1987).

use crate::parallel::Parallel;
use crate::tables::{Lanes, ServiceLevels};

use super::checks::Checks;
use super::net::{NONE, Net, Owner, Step};

/// A VL of a link between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    /// The sending switch.
    pub switch: u32,
    /// Its port.
    pub port: u8,
    /// The VL.
    pub lane: u8,
}

/// Upper bound of VLs and of service levels.
const LANES_MAX: usize = 16;

/// Dependencies of each channel: the ports and VLs of the next switch that its packets wait for.
struct Waits {
    /// Number of words for one channel, with a bit for each port and VL.
    words: usize,
    bits: Vec<u64>,
    /// Destination LID of the last path through a switch, plus one, by switch and service level.
    seen: Vec<u32>,
}

/// Returns a cycle of dependent channels, if there is one.
pub fn credit_loop(net: &Net<'_>, checks: &Checks, parallel: &dyn Parallel) -> Option<Vec<Channel>> {
    let lanes = usize::from(net.tables.lane_count()).clamp(1, LANES_MAX);
    let words = (net.stride * lanes).div_ceil(64);
    let start = || Waits {
        words,
        bits: vec![0; net.peers.len() * lanes * words],
        seen: vec![0; net.sources.len() * LANES_MAX],
    };
    let work = |waits: &mut Waits, to: &Owner| {
        if to.is_end || checks.to_switches {
            paths(net, waits, to, lanes);
        }
    };
    let join = |all: &mut Waits, one: Waits| all.bits.iter_mut().zip(one.bits).for_each(|(a, b)| *a |= b);
    let waits = net.pieces(parallel, start, work, join);
    circle(net, &waits, lanes)
}

/// Adds the dependencies of the paths from all end ports to a LID.
fn paths(net: &Net<'_>, waits: &mut Waits, to: &Owner, lanes: usize) {
    let by_ports = matches!(net.tables.lanes, Lanes::ByPorts { .. });
    let any = matches!(net.tables.service_levels, ServiceLevels::Any);
    for from in (0..net.sources.len() as u32).filter(|from| net.sources[*from as usize] > 0) {
        let level = net.tables.service_level(from, to.switch, to.lid);
        let levels = if any && by_ports { 0..LANES_MAX as u8 } else { level.unwrap_or(0)..level.unwrap_or(0) + 1 };
        for level in levels.filter(|level| usize::from(*level) < LANES_MAX) {
            if by_ports {
                let ports: Vec<u8> = net.graph.switches[from as usize].hung().map(|(port, _)| port).collect();
                ports.iter().for_each(|port| path(net, waits, from, *port, to, level, lanes));
            } else {
                path(net, waits, from, 0, to, level, lanes);
            }
        }
    }
}

/// Adds the dependencies of one path.
fn path(net: &Net<'_>, waits: &mut Waits, from: u32, port_in: u8, to: &Owner, level: u8, lanes: usize) {
    let by_ports = matches!(net.tables.lanes, Lanes::ByPorts { .. });
    let (mut at, mut port_in) = (from, port_in);
    let mut held: Option<usize> = None;
    for _ in 0..=net.sources.len() {
        let Step::Hop(link, next) = net.step(at, to) else { return };
        let port = link % net.stride;
        let ports = net.graph.switches[at as usize].ports.len();
        let lane = usize::from(net.tables.lane(at, ports, port_in, port as u8, level)).min(lanes - 1);
        if let Some(held) = held {
            let bit = port * lanes + lane;
            waits.bits[held * waits.words + bit / 64] |= 1 << (bit % 64);
        }
        let seen = &mut waits.seen[at as usize * LANES_MAX + usize::from(level)];
        let this = u32::from(to.lid) + 1;
        // From here on the path is the same as an earlier one, unless VLs depend on the ingress port.
        if std::mem::replace(seen, this) == this && !by_ports {
            return;
        }
        held = Some(link * lanes + lane);
        (at, port_in) = (next, net.backs[link]);
    }
}

/// Finds a cycle of channels. Removes channels that no other channel waits for, until none or only cycles and their
/// successors are left.
fn circle(net: &Net<'_>, waits: &Waits, lanes: usize) -> Option<Vec<Channel>> {
    let count = net.peers.len() * lanes;
    let mut waited = vec![0u32; count];
    for channel in 0..count {
        next(net, waits, lanes, channel).for_each(|next| waited[next] += 1);
    }
    let mut free: Vec<usize> = (0..count).filter(|channel| waited[*channel] == 0).collect();
    let mut left = count - free.len();
    while let Some(channel) = free.pop() {
        for next in next(net, waits, lanes, channel) {
            waited[next] -= 1;
            if waited[next] == 0 {
                left -= 1;
                free.push(next);
            }
        }
    }
    (left > 0).then(|| witness(net, waits, lanes, &waited))
}

/// Returns a cycle among the remaining channels: follows predecessors until one repeats.
fn witness(net: &Net<'_>, waits: &Waits, lanes: usize, waited: &[u32]) -> Vec<Channel> {
    let mut before = vec![usize::MAX; waited.len()];
    for channel in (0..waited.len()).filter(|channel| waited[*channel] > 0) {
        next(net, waits, lanes, channel).filter(|next| waited[*next] > 0).for_each(|next| before[next] = channel);
    }
    let mut at = waited.iter().position(|waited| *waited > 0).unwrap_or(0);
    for _ in 0..waited.len() {
        at = before.get(at).copied().unwrap_or(at);
    }
    let mut circle = vec![at];
    while let Some(previous) = before.get(circle[circle.len() - 1]).copied().filter(|previous| *previous != at) {
        if previous == usize::MAX || circle.len() > waited.len() {
            break;
        }
        circle.push(previous);
    }
    circle.reverse();
    let named = |channel: usize| {
        let link = channel / lanes;
        let (switch, port) = ((link / net.stride) as u32, (link % net.stride) as u8);
        Channel { switch, port, lane: (channel % lanes) as u8 }
    };
    circle.into_iter().map(named).collect()
}

/// The channels that packets on a channel wait for.
fn next<'a>(net: &'a Net<'_>, waits: &'a Waits, lanes: usize, channel: usize) -> impl Iterator<Item = usize> + 'a {
    let peer = net.peers[channel / lanes];
    let words = if peer == NONE { &[][..] } else { &waits.bits[channel * waits.words..(channel + 1) * waits.words] };
    let base = peer as usize;
    words.iter().enumerate().flat_map(move |(at, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            (word != 0).then(|| {
                word &= word - 1;
                base * net.stride * lanes + at * 64 + bit
            })
        })
    })
}
