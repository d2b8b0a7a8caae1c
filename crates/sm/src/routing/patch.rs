//! Tables after a loss: the previous ones, changed where they led over lost links. All LIDs behind a switch may use the
//! same links, so an entry that lost its port takes a port that another of these LIDs uses. Only destinations for which
//! some switch has no such port are routed anew. Other entries are neither examined nor moved.

use crate::graph::{Graph, Peer};
use crate::routing::levels::Levels;
use crate::routing::links::Links;
use crate::routing::order::Group;
use crate::routing::{Previous, Request};
use crate::tables::{NO_PATH, Tables};

/// Tables that are valid except for some destinations.
pub struct Patch {
    /// The tables.
    pub tables: Tables,
    /// Indices of the groups to route anew.
    pub left: Vec<usize>,
}

impl Patch {
    /// Patches the previous tables of a request. Returns `None` if there are other changes than losses, or no change:
    /// then the caller wants all paths anew.
    pub fn new(engine: &'static str, request: &Request<'_>, groups: &[Group]) -> Option<Patch> {
        let Previous { graph: old, tables: before } = request.previous.filter(|old| old.tables.engine == engine)?;
        let graph = request.graph;
        let lost = Lost::between(old, graph).filter(|_| old != graph)?;
        let (now, then) = (homes(graph), homes(old));
        let mut tables = Tables::empty(engine, graph);
        for (row, was) in tables.lfts.iter_mut().zip(&lost.was) {
            let held = before.lfts.get(*was as usize)?;
            row.iter_mut()
                .zip(held)
                .zip(&now)
                .filter(|(_, home)| home.is_some())
                .for_each(|((to, from), _)| *to = *from);
        }
        let is_same = |lid: u16| now.get(usize::from(lid)) == then.get(usize::from(lid));
        let mut stale: Vec<bool> =
            groups.iter().map(|group| group.targets.iter().any(|t| !t.is_phantom() && !is_same(t.lid))).collect();
        for (switch, dead) in lost.dead.iter().enumerate().filter(|(_, dead)| dead.contains(&true)) {
            repair(&mut tables.lfts[switch], switch as u32, dead, groups, &mut stale);
        }
        let left: Vec<usize> = (0..groups.len()).filter(|group| stale[*group]).collect();
        for lid in left.iter().flat_map(|group| &groups[*group].targets).filter(|t| !t.is_phantom()).map(|t| t.lid) {
            tables.lfts.iter_mut().for_each(|row| row[usize::from(lid)] = NO_PATH);
        }
        Some(Patch { tables, left })
    }
}

/// Gives entries that used dead ports of a switch other ports, the least used first.
fn repair(row: &mut [u8], switch: u32, dead: &[bool], groups: &[Group], stale: &mut [bool]) {
    let is_dead = |port: u8| dead.get(usize::from(port)).copied().unwrap_or(true);
    let mut used = [0u32; 256];
    row.iter().for_each(|port| used[usize::from(*port)] += 1);
    for (group, stale) in groups.iter().zip(stale).filter(|(group, stale)| !**stale && group.switch != switch) {
        let lids = || group.targets.iter().filter(|target| !target.is_phantom()).map(|target| usize::from(target.lid));
        let lost = |row: &[u8], lid: usize| row[lid] != NO_PATH && is_dead(row[lid]);
        if !lids().any(|lid| lost(row, lid)) {
            continue;
        }
        let mut ports: Vec<u8> =
            lids().map(|lid| row[lid]).filter(|port| *port != NO_PATH && !is_dead(*port)).collect();
        ports.sort_unstable();
        ports.dedup();
        for lid in lids() {
            if !lost(row, lid) {
                continue;
            }
            let Some(port) = ports.iter().copied().min_by_key(|port| used[usize::from(*port)]) else {
                *stale = true;
                break;
            };
            used[usize::from(port)] += 1;
            row[lid] = port;
        }
    }
}

/// Switches and links that a fabric has lost.
struct Lost {
    /// Index that each switch had.
    was: Vec<u32>,
    /// By switch and port: whether a link to another switch was lost.
    dead: Vec<Vec<bool>>,
}

impl Lost {
    /// Returns `None` if a switch or a link between switches was added or changed.
    fn between(old: &Graph, new: &Graph) -> Option<Lost> {
        let was_at = |guid: u64| old.switches.binary_search_by_key(&guid, |switch| switch.guid).ok();
        let was: Vec<u32> =
            new.switches.iter().map(|switch| was_at(switch.guid).map(|at| at as u32)).collect::<Option<_>>()?;
        let mut dead = Vec::with_capacity(was.len());
        for (switch, place) in new.switches.iter().zip(&was) {
            let before = &old.switches[*place as usize].ports;
            let mut gone = vec![false; before.len().max(switch.ports.len())];
            for (number, gone) in gone.iter_mut().enumerate() {
                let port = |ports: &[crate::graph::Port]| ports.get(number).copied().unwrap_or_default();
                let (mut now, then) = (port(&switch.ports), port(before));
                if let Peer::Switch { switch, port } = now.peer {
                    now.peer = Peer::Switch { switch: *was.get(switch as usize)?, port };
                    if now != then {
                        return None;
                    }
                } else {
                    *gone = matches!(then.peer, Peer::Switch { .. });
                }
            }
            dead.push(gone);
        }
        Some(Lost { was, dead })
    }
}

/// Owner and location of each LID: its GUID, the switch's GUID and port.
fn homes(graph: &Graph) -> Vec<Option<(u64, u64, u8)>> {
    let mut homes = vec![None; usize::from(graph.lid_top()) + 1];
    for switch in &graph.switches {
        switch.lids().for_each(|lid| homes[usize::from(lid)] = Some((switch.guid, switch.guid, 0)));
    }
    for end in &graph.ends {
        let at = graph.switches.get(end.switch as usize).map_or(0, |switch| switch.guid);
        end.lids().for_each(|lid| homes[usize::from(lid)] = Some((end.guid, at, end.port)));
    }
    homes
}

/// Whether every remaining link has the same up/down direction as when the previous tables were made, by the levels
/// that `of` returns. Old and new paths with different directions can form cycles together.
pub fn is_steady(request: &Request<'_>, links: &Links, levels: &Levels, of: impl Fn(&Graph) -> Option<Levels>) -> bool {
    let Some(old) = request.previous else { return false };
    let Some(before) = of(old.graph) else { return false };
    let was = |switch: u32| {
        let guid = request.graph.switches[switch as usize].guid;
        old.graph.switches.binary_search_by_key(&guid, |switch| switch.guid).ok().map(|at| at as u32)
    };
    let was: Vec<Option<u32>> = (0..request.graph.switch_count() as u32).map(was).collect();
    (0..request.graph.switch_count() as u32).all(|from| {
        links.of(from).iter().all(|link| match (was[from as usize], was[link.peer as usize]) {
            (Some(a), Some(b)) => before.is_up(a, b) == levels.is_up(from, link.peer),
            _ => false,
        })
    })
}
