//! Spreads paths over the ways that an engine allows, so that every link carries as much as its fellows. Destinations come
//! one after another; for each the furthest switches choose first, so that whoever chooses knows how many sources stand
//! behind it, and the load of a link is the number of paths that really cross it, not the number of entries that name it.

use std::sync::{Mutex, OnceLock};

use crate::graph::Graph;
use crate::tables::{NO_PATH, Tables};

use super::Request;
use super::links::Links;
use super::order::{Group, Target};
use super::ways::Ways;

/// Destinations whose ways are found while those before are spread.
const BATCH: usize = 64;

/// Tables in which every LID's paths take the ways that `toward` finds to its switch.
pub fn spread(
    engine: &'static str,
    request: &Request<'_>,
    links: &Links,
    groups: &[Group],
    toward: &(dyn Fn(u32) -> Ways + Sync),
) -> Tables {
    let spreader = Mutex::new(Spreader::new(engine, request, links));
    let mut ready: Vec<Ways> = Vec::new();
    let mut done = 0;
    let mut found = 0;
    while done < groups.len() {
        let batch = &groups[found..groups.len().min(found + BATCH)];
        let slots: Vec<OnceLock<Ways>> = batch.iter().map(|_| OnceLock::new()).collect();
        request.parallel.each(batch.len() + 1, &|at| match at.checked_sub(1) {
            Some(at) => drop(slots[at].set(toward(batch[at].switch))),
            None => {
                let mut spreader = spreader.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                groups[done..].iter().zip(&ready).for_each(|(group, ways)| spreader.group(group, ways));
            }
        });
        done += ready.len();
        found += batch.len();
        ready = slots.into_iter().filter_map(OnceLock::into_inner).collect();
    }
    spreader.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).tables
}

struct Spreader<'a> {
    graph: &'a Graph,
    links: &'a Links,
    tables: Tables,
    /// What every link carries.
    load: Vec<u64>,
    /// Sources at each switch.
    sources: Vec<u32>,
    /// Paths to each target of the group that pass each switch.
    flow: Vec<u32>,
    /// Seed of the lot among equals, if lots are drawn.
    lot: u64,
    shift: bool,
}

impl<'a> Spreader<'a> {
    fn new(engine: &'static str, request: &Request<'a>, links: &'a Links) -> Spreader<'a> {
        let graph = request.graph;
        let mut sources = vec![0; graph.switch_count()];
        graph.ends.iter().for_each(|end| sources[end.switch as usize] += 1);
        Spreader {
            graph,
            links,
            tables: Tables::empty(engine, graph),
            load: vec![0; links.count()],
            sources,
            flow: Vec::new(),
            lot: u64::from(request.options.scatter_ports),
            shift: request.options.port_shifting,
        }
    }

    /// Routes the LIDs of a group.
    fn group(&mut self, group: &Group, ways: &Ways) {
        let count = group.targets.len();
        self.flow.clear();
        self.flow.extend(self.sources.iter().flat_map(|sources| std::iter::repeat_n(*sources, count)));
        for target in &group.targets {
            self.tables.lfts[group.switch as usize][usize::from(target.lid)] = target.port;
        }
        for (switch, links) in ways.each() {
            for (at, target) in group.targets.iter().enumerate() {
                let flow = match target.end {
                    Some(_) => self.flow[switch as usize * count + at],
                    None => 0,
                };
                let Some(place) = self.choose(switch, links, at, target, flow) else { continue };
                let link = self.links.at(place);
                self.load[place as usize] += u64::from(flow) * u64::from(link.scale);
                self.flow[link.peer as usize * count + at] += flow;
                self.tables.lfts[switch as usize][usize::from(target.lid)] = link.port;
            }
        }
    }

    /// The link for a target.
    fn choose(&self, switch: u32, links: &[u32], at: usize, target: &Target, flow: u32) -> Option<u32> {
        if links.len() <= 1 {
            return links.first().copied();
        }
        if flow == 0 {
            // Nobody's path but the switch's own: spread by number.
            return links.get(at % links.len()).copied();
        }
        if target.layer > 0 {
            return self.other(switch, links, target);
        }
        if self.lot != 0 {
            return self.by_lot(switch, links, target);
        }
        let from = if self.shift { switch as usize % links.len() } else { 0 };
        let (before, behind) = links.split_at(from);
        let least = |links: &[u32]| links.iter().copied().min_by_key(|link| self.load[*link as usize]);
        match (least(behind), least(before)) {
            (Some(a), Some(b)) if self.load[b as usize] < self.load[a as usize] => Some(b),
            (a, b) => a.or(b),
        }
    }

    /// The link for one more LID of an end: another switch than for its LIDs before, if there is one.
    fn other(&self, switch: u32, links: &[u32], target: &Target) -> Option<u32> {
        let base = target.lid - target.layer;
        let row = &self.tables.lfts[switch as usize];
        let before: Vec<u8> = row[usize::from(base)..usize::from(target.lid)].to_vec();
        let peers = self.links.of(switch).iter().filter(|link| before.contains(&link.port));
        let peers: Vec<u32> = peers.map(|link| link.peer).collect();
        links.iter().copied().min_by_key(|place| {
            let link = self.links.at(*place);
            let by_switch = peers.iter().filter(|peer| **peer == link.peer).count();
            let by_port = before.iter().filter(|port| **port == link.port).count();
            (by_switch, by_port, self.load[*place as usize])
        })
    }

    /// One of the least loaded links, by lot.
    fn by_lot(&self, switch: u32, links: &[u32], target: &Target) -> Option<u32> {
        let load = |link: &u32| self.load[*link as usize];
        let least = links.iter().map(load).min()?;
        let equal: Vec<u32> = links.iter().copied().filter(|link| load(link) == least).collect();
        let guid = self.graph.switches[switch as usize].guid;
        let lot = mix(self.lot ^ mix(guid ^ u64::from(target.lid) << 48));
        equal.get(lot as usize % equal.len()).copied()
    }
}

/// Scatters the bits of a number (the finaliser of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Whether tables have an entry at every switch for every LID.
pub fn is_whole(graph: &Graph, tables: &Tables) -> bool {
    let lids: Vec<u16> = graph
        .switches
        .iter()
        .filter(|s| s.lid != 0)
        .flat_map(|s| s.lids())
        .chain(graph.ends.iter().flat_map(|end| end.lids()))
        .collect();
    tables.lfts.iter().all(|row| lids.iter().all(|lid| row.get(usize::from(*lid)).is_some_and(|port| *port != NO_PATH)))
}
