//! Routes: checks that every switch reaches every LID without a loop, and finds the path between two ports.

use weft_diags::ibnet::PortRef;
use weft_fabric::topology::counted;

use super::finding::Section;
use super::net::{NOWHERE, Net, Step};
use super::survey::Survey;

/// State of the route from a switch to the current LID.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Unknown,
    Walking,
    Good,
    Bad,
}

/// Checks that all routes reach their destinations. Each LID is reported once, with the first switch that does not
/// reach it.
pub fn reach(survey: &Survey, net: &Net<'_>) -> Section {
    let mut section = Section::new("routes");
    let lids = survey.lids();
    section.looked_at = format!("{}, {}", counted(net.switches.len(), "switch"), counted(lids.len(), "LID"));
    let mut known = vec![Way::Unknown; net.switches.len()];
    for (lid, end) in lids {
        known.fill(Way::Unknown);
        let mut first = None;
        for from in 0..net.switches.len() as u32 {
            if let Some(found) = walk(net, &mut known, from, lid, end) {
                first.get_or_insert(found);
            }
        }
        let Some((at, problem)) = first else { continue };
        let others = known.iter().filter(|way| **way == Way::Bad).count().saturating_sub(1);
        let others = match others {
            0 => String::new(),
            count => format!("; {count} more {} not reach it", if count == 1 { "switch does" } else { "switches do" }),
        };
        section.error(problem.text(survey, net, at, (lid, end)) + &others);
    }
    section
}

/// The reason why a packet does not arrive.
#[derive(Clone, Copy)]
enum Problem {
    Loop,
    Dropped(u8),
    Wrong(PortRef),
}

impl Problem {
    fn text(self, survey: &Survey, net: &Net<'_>, at: u32, (lid, end): (u16, PortRef)) -> String {
        let name = survey.fabric.node(net.switches[at as usize]).called(&survey.names);
        let label = survey.label(end);
        match self {
            Problem::Loop => format!("LID {lid} ({label}): packets go round through {name}"),
            Problem::Dropped(NOWHERE) => format!("LID {lid} ({label}) is not reached from {name}: no route"),
            Problem::Dropped(port) => format!("LID {lid} ({label}) is not reached from {name}: port {port} is dead"),
            Problem::Wrong(next) => format!("LID {lid} ({label}): {name} sends it to {}", survey.label(next)),
        }
    }
}

/// Follows the route from a switch to a LID until its end is known. Returns a newly found problem with the switch where
/// it occurs.
fn walk(net: &Net<'_>, known: &mut [Way], from: u32, lid: u16, end: PortRef) -> Option<(u32, Problem)> {
    let mut at = from;
    let found = loop {
        match known[at as usize] {
            Way::Good => break Ok(()),
            Way::Bad => break Err(None),
            Way::Walking => break Err(Some((at, Problem::Loop))),
            Way::Unknown => known[at as usize] = Way::Walking,
        }
        match net.step(at, lid, end) {
            (_, Step::At(_, next, _)) => at = next,
            (_, Step::There | Step::Unknown) => break Ok(()),
            (port, Step::Dropped) => break Err(Some((at, Problem::Dropped(port)))),
            (_, Step::Wrong(next)) => break Err(Some((at, Problem::Wrong(next)))),
        }
    };
    let mut at = from;
    while known[at as usize] == Way::Walking {
        known[at as usize] = if found.is_ok() { Way::Good } else { Way::Bad };
        let (_, Step::At(_, next, _)) = net.step(at, lid, end) else { break };
        at = next;
    }
    found.err().flatten()
}

/// The path from one port to a LID, as pairs of output and input ports; and the reason, if it does not arrive.
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
    let net = Net::new(survey);
    // No path without a loop is longer.
    for _ in 0..=survey.fabric.node_count() {
        let name = survey.fabric.node(at.node).called(&survey.names);
        let Some(place) = net.place(at.node) else { return (hops, Err(format!("no table of {name} is known"))) };
        let (port, next) = net.step(place, lid, end);
        let out = PortRef { node: at.node, port };
        match next {
            Step::There if port == 0 => return (hops, Ok(())),
            Step::There => {
                hops.push((out, end));
                return (hops, Ok(()));
            }
            Step::At(_, next, into) => {
                at = PortRef { node: net.switches[next as usize], port: into };
                hops.push((out, at));
            }
            Step::Unknown => {
                return (hops, Err(format!("no table is known of the switch behind {}", survey.label(out))));
            }
            Step::Wrong(next) => {
                return (hops, Err(format!("{} sends it to {}", survey.label(out), survey.label(next))));
            }
            Step::Dropped => return (hops, Err(format!("{name} has no route to LID {lid}"))),
        }
    }
    (hops, Err("it goes round".to_owned()))
}
