//! Routes: whether every switch reaches every LID, whether any goes round, how many share a link; and the way between
//! two ports.

use std::collections::BTreeMap;

use super::finding::Section;
use super::survey::Survey;
use crate::ibnet::{Kind, PortRef};

/// An entry of a forwarding table that drops.
const NOWHERE: u8 = 255;
/// How many times the mean a link may carry before it is told.
const UNBALANCED: f64 = 2.0;

/// Where a packet for a LID is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At its end.
    There,
    /// At another switch, having come in by that port.
    At(PortRef),
    /// At an end that is another's.
    Wrong(PortRef),
    /// Nowhere: there is no route.
    Dropped,
}

/// The step from a switch towards a LID, and the port it leaves by.
pub fn step(survey: &Survey, switch: usize, lid: u16, end: PortRef) -> (u8, Step) {
    let port = survey.lfts.get(&switch).and_then(|lft| lft.get(usize::from(lid))).copied().unwrap_or(NOWHERE);
    if port == 0 {
        return (0, if end.node == switch { Step::There } else { Step::Wrong(PortRef { node: switch, port: 0 }) });
    }
    let next = survey.fabric.port(PortRef { node: switch, port }).and_then(|p| p.remote);
    let next = match next {
        None => Step::Dropped,
        Some(next) if next == end => Step::There,
        Some(next) if survey.fabric.node(next.node).kind == Kind::SWITCH => Step::At(next),
        Some(next) => Step::Wrong(next),
    };
    (port, next)
}

/// What is known of the way from a switch to the LID at hand.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Unknown,
    Walking,
    Good,
    Bad,
}

/// Checks that all routes lead to their ends.
pub fn reach(survey: &Survey) -> Section {
    let mut section = Section::new("routes");
    let ends = survey.ends();
    let switches: Vec<usize> = survey.lfts.keys().copied().collect();
    section.looked_at = format!("{} switches, {} LIDs", switches.len(), ends.len());
    for (lid, end) in ends {
        let mut known = vec![Way::Unknown; survey.fabric.len()];
        for &switch in &switches {
            walk(survey, &mut section, &mut known, switch, lid, end);
        }
    }
    section
}

fn walk(survey: &Survey, section: &mut Section, known: &mut [Way], from: usize, lid: u16, end: PortRef) {
    let mut trail = Vec::new();
    let mut at = from;
    let name = |node: usize| survey.fabric.node(node).called(&survey.names);
    let good = loop {
        match known[at] {
            Way::Good => break true,
            Way::Bad => break false,
            Way::Walking => {
                section.error(format!("LID {lid} ({}): packets go round through {}", survey.label(end), name(at)));
                break false;
            }
            Way::Unknown => {}
        }
        known[at] = Way::Walking;
        trail.push(at);
        match step(survey, at, lid, end) {
            (_, Step::There) => break true,
            (_, Step::At(next)) => at = next.node,
            (port, Step::Dropped) => {
                let label = survey.label(end);
                let how = if port == NOWHERE { "no route".to_owned() } else { format!("port {port} is dead") };
                section.error(format!("LID {lid} ({label}) is not reached from {}: {how}", name(at)));
                break false;
            }
            (_, Step::Wrong(next)) => {
                let (label, wrong) = (survey.label(end), survey.label(next));
                section.error(format!("LID {lid} ({label}): {} sends it to {wrong}", name(at)));
                break false;
            }
        }
    };
    for node in trail {
        known[node] = if good { Way::Good } else { Way::Bad };
    }
}

/// Checks how routes to adapters are spread over links between switches.
pub fn balance(survey: &Survey) -> Section {
    let mut section = Section::new("balance of links");
    let hosts: Vec<(u16, PortRef)> =
        survey.ends().into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH).collect();
    let mut loads: BTreeMap<PortRef, usize> = BTreeMap::new();
    for &switch in survey.lfts.keys() {
        for port in survey.fabric.node(switch).external_ports() {
            let remote = port.remote.map(|remote| survey.fabric.node(remote.node).kind);
            if remote == Some(Kind::SWITCH) {
                loads.insert(PortRef { node: switch, port: port.num }, 0);
            }
        }
        for &(lid, end) in &hosts {
            if let (port, Step::At(_)) = step(survey, switch, lid, end) {
                *loads.entry(PortRef { node: switch, port }).or_default() += 1;
            }
        }
    }
    section.looked_at = format!("{} links between switches", loads.len());
    let mut by_switch: BTreeMap<usize, Vec<(u8, usize)>> = BTreeMap::new();
    for (at, load) in loads {
        by_switch.entry(at.node).or_default().push((at.port, load));
    }
    for (switch, ports) in by_switch.into_iter().filter(|(_, ports)| ports.len() > 1) {
        let mean = ports.iter().map(|(_, load)| load).sum::<usize>() as f64 / ports.len() as f64;
        let name = survey.fabric.node(switch).called(&survey.names);
        let heaviest = ports.iter().copied().max_by_key(|(_, load)| *load).unwrap_or_default();
        if heaviest.1 as f64 > mean * UNBALANCED && heaviest.1 > 2 {
            let (port, load) = heaviest;
            section.warning(format!("{name} port {port}: {load} LIDs, where its links have {mean:.1} on average"));
        }
    }
    section
}

/// The way from one port to a LID: ports out and in by turns; and why it ends, if it does not arrive.
pub fn path(survey: &Survey, from: PortRef, lid: u16, end: PortRef) -> (Vec<(PortRef, PortRef)>, Result<(), String>) {
    let mut hops = Vec::new();
    let first = if survey.fabric.node(from.node).is_switch() {
        Some(PortRef { port: 0, ..from })
    } else {
        survey.fabric.port(from).and_then(|p| p.remote).inspect(|&next| hops.push((from, next)))
    };
    let Some(mut at) = first else { return (hops, Err("it has no cable".to_owned())) };
    if at == end || from == end {
        return (hops, Ok(()));
    }
    // No way without a circle is longer.
    for _ in 0..=survey.fabric.len() {
        let (port, next) = step(survey, at.node, lid, end);
        let out = PortRef { node: at.node, port };
        match next {
            Step::There if port == 0 => return (hops, Ok(())),
            Step::There => {
                hops.push((out, end));
                return (hops, Ok(()));
            }
            Step::At(next) => {
                hops.push((out, next));
                at = next;
            }
            Step::Wrong(next) => {
                return (hops, Err(format!("{} sends it to {}", survey.label(out), survey.label(next))));
            }
            Step::Dropped => {
                let name = survey.fabric.node(at.node).called(&survey.names);
                return (hops, Err(format!("{name} has no route to LID {lid}")));
            }
        }
    }
    (hops, Err("it goes round".to_owned()))
}
