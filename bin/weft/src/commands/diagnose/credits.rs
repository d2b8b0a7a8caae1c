//! Credit loops: links that wait for each other's buffers. A packet that holds a lane of one link waits for a lane of
//! the next; where such waits make a circle, full buffers may stop for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Section;
use super::levels::Levels;
use super::routing::{Step, step};
use super::survey::Survey;
use crate::ibnet::{Kind, PortRef};

/// A lane of a link, named by the port that sends into it.
type Channel = (PortRef, u8);

/// Whether it matters which lanes packets take. Where no links wait for each other although all lanes of a link are taken
/// for one, no lanes do.
pub fn lanes_matter(survey: &Survey) -> bool {
    circle(&waits(survey, |_| Some(Lane::Any))).is_some()
}

/// Checks the routes from all adapters to all adapters, on the lanes that their service levels have; on whatever lanes,
/// where those do not matter.
pub fn check(survey: &Survey, levels: Option<&Levels>) -> Section {
    let mut section = Section::new("credit loops");
    let waits = match levels {
        Some(levels) => waits(survey, |(from, to)| levels.of(from, to).map(Lane::Of)),
        None => waits(survey, |_| Some(Lane::Any)),
    };
    let edges: usize = waits.values().map(BTreeSet::len).sum();
    let (noun, how) = match levels {
        Some(levels) => ("lanes of links", levels.source()),
        None => ("links", "whatever SL".to_owned()),
    };
    section.looked_at = format!("{} {noun}, {edges} waits, {how}", waits.len());
    let Some(circle) = circle(&waits) else { return section };
    let lane = |lane: &u8| if levels.is_some() { format!(" VL {lane}") } else { String::new() };
    let names: Vec<String> =
        circle.iter().map(|(at, number)| format!("{}{}", survey.label(*at), lane(number))).collect();
    let text = format!("{} links wait for each other: {}", circle.len(), names.join(" -> "));
    match levels {
        Some(Levels::Assumed(level, why)) => section.warning(format!(
            "if all paths are on SL {level}, {text}; whether they are nobody told: {why} (--sl names the level to judge)"
        )),
        _ => section.error(text),
    }
    section
}

/// Which lane of a link a packet is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// All are one.
    Any,
    /// The one that switches give this service level.
    Of(u8),
}

/// Which lanes wait for which; `lane_of` says which way packets between two LIDs choose them.
fn waits(survey: &Survey, lane_of: impl Fn((u16, u16)) -> Option<Lane>) -> BTreeMap<Channel, BTreeSet<Channel>> {
    let mut waits: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
    let ends = survey.ends();
    let hosts: Vec<(u16, PortRef)> =
        ends.into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH).collect();
    let doors: Vec<(u16, PortRef)> =
        hosts.iter().filter_map(|(lid, host)| Some((*lid, survey.fabric.port(*host)?.remote?))).collect();
    for &(lid, end) in &hosts {
        // A switch entered by a port for this LID, on this service level, needs no second look.
        let mut seen = BTreeSet::new();
        for &(from, door) in &doors {
            let Some(lane) = lane_of((from, lid)) else { continue };
            let mut at = door;
            let mut held: Option<Channel> = None;
            while let (port, Step::At(next)) = step(survey, at.node, lid, end) {
                let number = match lane {
                    Lane::Any => 0,
                    Lane::Of(level) => survey.lane((at.node, at.port, port), level),
                };
                let channel = (PortRef { node: at.node, port }, number);
                if let Some(held) = held {
                    waits.entry(held).or_default().insert(channel);
                }
                if !seen.insert((at, held, lane)) {
                    break;
                }
                held = Some(channel);
                at = next;
            }
        }
    }
    waits
}

/// A circle, if there is one.
fn circle(waits: &BTreeMap<Channel, BTreeSet<Channel>>) -> Option<Vec<Channel>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        OnTrail,
        Done,
    }
    let mut marks: BTreeMap<Channel, Mark> = BTreeMap::new();
    for &start in waits.keys() {
        if marks.contains_key(&start) {
            continue;
        }
        let following = |channel: &Channel| waits.get(channel).into_iter().flatten().copied().collect::<Vec<_>>();
        let mut trail = vec![(start, following(&start))];
        marks.insert(start, Mark::OnTrail);
        while let Some((channel, rest)) = trail.last_mut() {
            let Some(next) = rest.pop() else {
                marks.insert(*channel, Mark::Done);
                trail.pop();
                continue;
            };
            match marks.get(&next) {
                Some(Mark::Done) => {}
                Some(Mark::OnTrail) => {
                    let from = trail.iter().position(|(channel, _)| *channel == next).unwrap_or(0);
                    return Some(trail[from..].iter().map(|(channel, _)| *channel).collect());
                }
                None => {
                    marks.insert(next, Mark::OnTrail);
                    trail.push((next, following(&next)));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(n: usize) -> Channel {
        (PortRef { node: n, port: 1 }, 0)
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_none() {
        let chain: BTreeMap<_, _> = (0..3).map(|n| (channel(n), BTreeSet::from([channel(n + 1)]))).collect();
        assert_eq!(circle(&chain), None);
        let mut ring = chain;
        ring.insert(channel(3), BTreeSet::from([channel(1)]));
        let found = circle(&ring).unwrap();
        assert_eq!(found, [channel(1), channel(2), channel(3)]);
    }
}
