//! Credit loops: links that wait for each other's buffers. A packet that holds a buffer of one link's VL waits for a VL
//! of the next link; if such waits form a cycle, full buffers may deadlock.

use weft_diags::ibnet::{Kind, PortRef};

use super::finding::Section;
use super::levels::Levels;
use super::net::{Net, Peer, Step};
use super::survey::Survey;

/// Service levels.
const LEVELS: usize = 16;

/// Whether the VLs of packets matter. If the graph has no cycle with all VLs of each link merged into one, no choice of
/// VLs makes one.
pub fn lanes_matter(survey: &Survey, net: &Net<'_>) -> bool {
    waits(survey, net, None).circle().is_some()
}

/// Checks the routes from all adapters to all adapters for credit loops, on the VLs that their service levels map to.
/// `levels` is `None` if the VLs do not matter.
pub fn check(survey: &Survey, net: &Net<'_>, levels: Option<&Levels>) -> Section {
    let mut section = Section::new("credit loops");
    let waits = waits(survey, net, levels);
    let (noun, how) = match levels {
        Some(levels) => ("lanes of links", levels.source()),
        None => ("links", "whatever SL".to_owned()),
    };
    let (channels, edges) = waits.size();
    section.looked_at = format!("{channels} {noun}, {edges} waits, {how}");
    let Some(circle) = waits.circle() else { return section };
    let lane = |channel: usize| if levels.is_some() { format!(" VL {}", channel % waits.lanes) } else { String::new() };
    let name = |channel: &usize| format!("{}{}", survey.label(net.port(channel / waits.lanes)), lane(*channel));
    let names: Vec<String> = circle.iter().map(name).collect();
    let text = format!("{} links wait for each other: {}", circle.len(), names.join(" -> "));
    match levels {
        Some(Levels::Assumed(level, why)) => section.warning(format!(
            "if all paths are on SL {level}, {text}; the SLs are unknown: {why}; name the SL to check with --sl"
        )),
        _ => section.error(text),
    }
    section
}

/// The wait-for graph. A channel is one VL of a link: `link * lanes + lane`.
struct Waits {
    lanes: usize,
    /// Words of `bits` per channel.
    words: usize,
    /// For each channel, one bit per port and VL of the next switch.
    bits: Vec<u64>,
    /// By link, the first channel of the next switch.
    next: Vec<usize>,
}

impl Waits {
    fn none(net: &Net<'_>, lanes: usize) -> Waits {
        let words = (net.stride * lanes).div_ceil(64);
        let next = net.peers.iter().map(|peer| match peer {
            Peer::Switch(place, _) => *place as usize * net.stride * lanes,
            _ => 0,
        });
        Waits { lanes, words, bits: vec![0; net.peers.len() * lanes * words], next: next.collect() }
    }

    fn add(&mut self, held: usize, wanted: usize) {
        let bit = wanted - self.next[held / self.lanes];
        self.bits[held * self.words + bit / 64] |= 1 << (bit % 64);
    }

    /// The channels that packets on this channel wait for.
    fn of(&self, channel: usize) -> Vec<usize> {
        let first = self.next[channel / self.lanes];
        let words = self.bits[channel * self.words..][..self.words].iter().enumerate();
        words
            .flat_map(|(at, word)| {
                (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| first + at * 64 + bit)
            })
            .collect()
    }

    /// Number of channels that wait, and number of waits.
    fn size(&self) -> (usize, usize) {
        let counts =
            self.bits.chunks(self.words).map(|words| words.iter().map(|word| word.count_ones() as usize).sum());
        counts.filter(|count: &usize| *count > 0).fold((0, 0), |(channels, edges), count| (channels + 1, edges + count))
    }

    fn circle(&self) -> Option<Vec<usize>> {
        circle(self.bits.len() / self.words, |channel| self.of(channel))
    }
}

/// SLtoVL maps of each switch, by in port and out port.
struct LaneMaps<'a> {
    net: &'a Net<'a>,
    maps: Vec<[u8; 8]>,
    of: Vec<u32>,
}

impl<'a> LaneMaps<'a> {
    /// Marks a missing map: every service level uses VL 0.
    const NONE: u32 = u32::MAX;

    fn new(survey: &Survey, net: &'a Net<'a>) -> LaneMaps<'a> {
        let mut of = vec![LaneMaps::NONE; net.switches.len() * net.stride * net.stride];
        let mut maps = Vec::with_capacity(survey.lanes.len());
        for (&(switch, into, out), row) in &survey.lanes {
            let Some(place) = net.place(switch) else { continue };
            if usize::from(into.max(out)) < net.stride {
                of[(place as usize * net.stride + usize::from(into)) * net.stride + usize::from(out)] =
                    maps.len() as u32;
                maps.push(*row);
            }
        }
        LaneMaps { net, maps, of }
    }

    /// Number of VLs to model: the highest VL in use plus one.
    fn count(&self) -> usize {
        let lanes = self.maps.iter().flatten().flat_map(|pair| [pair >> 4, pair & 15]);
        lanes.map(usize::from).max().unwrap_or(0) + 1
    }

    fn lane(&self, at: u32, into: u8, out: u8, level: u8) -> usize {
        let stride = self.net.stride;
        let map = self.of[(at as usize * stride + usize::from(into)) * stride + usize::from(out)];
        let row = self.maps.get(map as usize).copied().unwrap_or_default();
        usize::from(row.get(usize::from(level / 2)).map_or(0, |pair| pair >> (4 * (1 - level % 2)) & 15))
    }
}

/// The entry points of packets: each adapter's LID, its switch, and the switch port.
fn doors(survey: &Survey, net: &Net<'_>) -> Vec<(u16, u32, u8)> {
    let ends = survey.ends().into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH);
    let doors = ends.filter_map(|(lid, end)| {
        let door = survey.fabric.port(end)?.remote?;
        Some((lid, net.place(door.node)?, door.port))
    });
    doors.collect()
}

/// Builds the wait-for graph. Without service levels, all VLs of a link count as one.
fn waits(survey: &Survey, net: &Net<'_>, levels: Option<&Levels>) -> Waits {
    let mut doors = doors(survey, net);
    let lids: Vec<(u16, PortRef)> =
        survey.lids().into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH).collect();
    let Some(levels) = levels else {
        doors.sort_by_key(|(_, switch, _)| *switch);
        doors.dedup_by_key(|(_, switch, _)| *switch);
        return plain_waits(net, &doors, &lids);
    };
    let maps = LaneMaps::new(survey, net);
    let lanes = maps.count();
    let mut waits = Waits::none(net, lanes);
    // By in port, VL and service level: the destination LID of the last path that entered there. One visit per LID is
    // enough.
    let mut seen = vec![u32::MAX; net.peers.len() * lanes * LEVELS];
    for &(lid, end) in &lids {
        for &(from, door, into) in &doors {
            let Some(level) = levels.of(from, lid).filter(|level| usize::from(*level) < LEVELS) else { continue };
            let (mut at, mut into, mut held) = (door, into, None);
            while let (port, Step::At(link, next, back)) = net.step(at, lid, end) {
                let channel = link * lanes + maps.lane(at, into, port, level);
                held.inspect(|held| waits.add(*held, channel));
                let entered = at as usize * net.stride + usize::from(into);
                let held_lane = held.map_or(0, |held| held % lanes);
                let seen = &mut seen[(entered * lanes + held_lane) * LEVELS + usize::from(level)];
                if std::mem::replace(seen, lid.into()) == u32::from(lid) {
                    break;
                }
                (at, into, held) = (next, back, Some(channel));
            }
        }
    }
    waits
}

/// Builds the wait-for graph with all VLs of a link as one.
fn plain_waits(net: &Net<'_>, doors: &[(u16, u32, u8)], lids: &[(u16, PortRef)]) -> Waits {
    let mut waits = Waits::none(net, 1);
    let mut seen = vec![u32::MAX; net.switches.len()];
    for &(lid, end) in lids {
        for &(_, door, _) in doors {
            let (mut at, mut held) = (door, None);
            while let (_, Step::At(link, next, _)) = net.step(at, lid, end) {
                held.inspect(|held| waits.add(*held, link));
                if std::mem::replace(&mut seen[at as usize], lid.into()) == u32::from(lid) {
                    break;
                }
                (at, held) = (next, Some(link));
            }
        }
    }
    waits
}

/// Finds a cycle among `count` channels; `following` lists the channels that a channel waits for.
fn circle(count: usize, following: impl Fn(usize) -> Vec<usize>) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Unseen,
        OnTrail,
        Done,
    }
    let mut marks = vec![Mark::Unseen; count];
    for start in 0..count {
        if marks[start] != Mark::Unseen {
            continue;
        }
        let mut trail = vec![(start, following(start))];
        marks[start] = Mark::OnTrail;
        while let Some((channel, rest)) = trail.last_mut() {
            let Some(next) = rest.pop() else {
                marks[*channel] = Mark::Done;
                trail.pop();
                continue;
            };
            match marks[next] {
                Mark::Done => {}
                Mark::OnTrail => {
                    let from = trail.iter().position(|(channel, _)| *channel == next).unwrap_or(0);
                    return Some(trail[from..].iter().map(|(channel, _)| *channel).collect());
                }
                Mark::Unseen => {
                    marks[next] = Mark::OnTrail;
                    trail.push((next, following(next)));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_and_a_chain_is_none() {
        let chain = |channel: usize| if channel < 3 { vec![channel + 1] } else { Vec::new() };
        assert_eq!(circle(4, chain), None);
        let found = circle(4, |channel| if channel == 3 { vec![1] } else { vec![channel + 1] });
        assert_eq!(found.unwrap(), [1, 2, 3]);
    }
}
