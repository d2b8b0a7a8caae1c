//! Credit loops: links that wait for each other's buffers. A packet that holds a lane of one link waits for a lane of
//! the next; where such waits make a circle, full buffers may stop for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Section;
use super::routing::{Step, step};
use super::survey::Survey;
use crate::ibnet::{Kind, PortRef};

/// A lane of a link, named by the port that sends into it.
type Channel = (PortRef, u8);

/// Checks the routes from all adapters to all adapters, on the lanes that service level `sl` has.
pub fn check(survey: &Survey, sl: u8) -> Section {
    let mut section = Section::new("credit loops");
    let waits = waits(survey);
    let edges: usize = waits.values().map(BTreeSet::len).sum();
    section.looked_at = format!("{} lanes of links, {edges} waits, SL {sl}", waits.len());
    if let Some(circle) = circle(&waits) {
        let names: Vec<String> = circle.iter().map(|(at, lane)| format!("{} VL {lane}", survey.label(*at))).collect();
        section.error(format!("{} links wait for each other: {}", circle.len(), names.join(" -> ")));
    }
    section
}

/// Which lanes wait for which.
fn waits(survey: &Survey) -> BTreeMap<Channel, BTreeSet<Channel>> {
    let mut waits: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
    let ends = survey.ends();
    let hosts: Vec<(u16, PortRef)> =
        ends.into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH).collect();
    let doors: BTreeSet<PortRef> = hosts.iter().filter_map(|(_, host)| survey.fabric.port(*host)?.remote).collect();
    for &(lid, end) in &hosts {
        // A switch entered by a port for this LID needs no second look.
        let mut seen = BTreeSet::new();
        for &door in &doors {
            let mut at = door;
            let mut held: Option<Channel> = None;
            while let (port, Step::At(next)) = step(survey, at.node, lid, end) {
                let lane = survey.lanes.get(&(at.node, at.port, port)).copied().unwrap_or(0);
                let channel = (PortRef { node: at.node, port }, lane);
                if let Some(held) = held {
                    waits.entry(held).or_default().insert(channel);
                }
                if !seen.insert((at, held)) {
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
