//! Spreads paths over the links that an engine allows, so that links carry equal loads. Destinations are routed one
//! after another. For each one the furthest switches choose first, so that a choosing switch knows the number of
//! sources behind it. The load of a link is the number of paths that cross it, not the number of table entries that
//! name it. If the result falls short of the optimum, destinations are removed and spread again with the load of all
//! others known.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use std::sync::{Mutex, OnceLock};

use crate::graph::Graph;
use crate::tables::Tables;

use super::Request;
use super::kept::Kept;
use super::links::{Links, SCALE};
use super::order::{Group, Target};
use super::patch::Patch;
use super::ways::Ways;

/// Groups whose paths are computed in parallel while the previous batch is spread.
const BATCH: usize = 64;

/// Maximum number of passes that spread paths again.
const AGAIN_MAX: usize = 4;

/// Table entries up to which paths are spread again: more take too long.
const ENTRIES_MAX: usize = 4 << 20;

/// Computes tables in which the paths to every LID use the links that `toward` returns for its switch. With
/// `is_steady`, links that are still there are as valid as when the previous tables were made, and keep their paths.
pub fn spread(
    engine: &'static str,
    request: &Request<'_>,
    links: &Links,
    groups: &[Group],
    is_steady: bool,
    toward: &(dyn Fn(u32) -> Ways + Sync),
) -> Tables {
    let spreader = Mutex::new(Spreader::new(engine, request, links));
    if let Some(patch) = Patch::new(engine, request, groups).filter(|_| is_steady) {
        let left: Vec<Group> = patch.left.iter().map(|at| groups[*at].clone()).collect();
        lock(&spreader).tables = patch.tables;
        run(request, &left, toward, &spreader);
        return spreader.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).tables;
    }
    let targets: usize = groups.iter().map(|group| group.targets.len()).sum();
    // Entries kept from previous tables do not move in further passes.
    let is_kept = lock(&spreader).kept.is_any();
    let again = if is_kept || targets * links.switch_count() > ENTRIES_MAX { 0 } else { AGAIN_MAX };
    let mut best: Option<(u64, Vec<Vec<u8>>)> = None;
    let mut single = Vec::new();
    for pass in 0..=again {
        if pass == 1 {
            single = one_by_one(groups);
        }
        run(request, if pass == 0 { groups } else { &single }, toward, &spreader);
        let mut spreader = lock(&spreader);
        let worst = spreader.load.iter().copied().max().unwrap_or(0);
        let better = best.as_ref().is_none_or(|(least, _)| worst < *least);
        if worst <= spreader.least() || pass == again || (!better && pass > 1) {
            if let (false, Some((_, lfts))) = (better, best) {
                spreader.tables.lfts = lfts;
            }
            break;
        }
        if better {
            best = Some((worst, spreader.tables.lfts.clone()));
        }
        spreader.again = true;
    }
    spreader.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).tables
}

fn lock<'a, 'b>(spreader: &'a Mutex<Spreader<'b>>) -> std::sync::MutexGuard<'a, Spreader<'b>> {
    spreader.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether a group has only a switch's own LIDs, which do not count as load.
fn is_bare(group: &Group) -> bool {
    group.targets.iter().all(|target| target.end.is_none())
}

/// Splits groups into groups of one target each, leaving out targets that do not count as load.
fn one_by_one(groups: &[Group]) -> Vec<Group> {
    let of = |group: &Group| {
        let switch = group.switch;
        let counted = group.targets.clone().into_iter().filter(|target| target.end.is_some());
        counted.map(move |target| Group { switch, targets: vec![target] })
    };
    groups.iter().flat_map(of).collect()
}

/// Prepared input for a group.
enum Ready {
    Ways(Ways),
    /// For a group without end ports: the port of every switch, for each target.
    Columns(Vec<Vec<u8>>),
}

/// Spreads all groups once, preparing the next batch while the previous one is spread.
fn run(request: &Request<'_>, groups: &[Group], toward: &(dyn Fn(u32) -> Ways + Sync), spreader: &Mutex<Spreader<'_>>) {
    let (links, kept) = lock(spreader).means();
    let mut ready: Vec<Ready> = Vec::new();
    let (mut done, mut found) = (0, 0);
    while done < groups.len() {
        let batch = &groups[found..groups.len().min(found + BATCH)];
        let slots: Vec<OnceLock<Ready>> = batch.iter().map(|_| OnceLock::new()).collect();
        request.parallel.each(batch.len() + 1, &|at| match at.checked_sub(1) {
            Some(at) => {
                let ways = toward(batch[at].switch);
                let _ = slots[at].set(match is_bare(&batch[at]) {
                    true => Ready::Columns(columns(links, &kept, &batch[at], &ways)),
                    false => Ready::Ways(ways),
                });
            }
            None => lock(spreader).batch(&groups[done..done + ready.len()], &ready),
        });
        done += ready.len();
        found += batch.len();
        ready = slots.into_iter().filter_map(OnceLock::into_inner).collect();
    }
}

/// The ports to a switch's own LIDs.
fn columns(links: &Links, kept: &Kept<'_>, group: &Group, ways: &Ways) -> Vec<Vec<u8>> {
    let column = |target: &Target| {
        let mut column = vec![crate::tables::NO_PATH; links.switch_count()];
        column[group.switch as usize] = target.port;
        for (switch, places) in ways.each() {
            let place = kept.link(links, switch, places, target.lid);
            let place = place.or_else(|| places.get(usize::from(target.lid) % places.len().max(1)).copied());
            if let Some(place) = place {
                column[switch as usize] = links.at(place).port;
            }
        }
        column
    };
    group.targets.iter().map(column).collect()
}

struct Spreader<'a> {
    graph: &'a Graph,
    links: &'a Links,
    tables: Tables,
    kept: Kept<'a>,
    /// Load of each link.
    load: Vec<u64>,
    /// Number of end ports at each switch.
    sources: Vec<u32>,
    /// Number of paths to each target of the group through each switch.
    flow: Vec<u32>,
    /// Cost of the best path onward from each switch: the worst link's load, or a sum of cubed loads that emphasizes
    /// it.
    ahead: Vec<f64>,
    /// Loads of the candidate links.
    near: Vec<u64>,
    /// Whether everything is routed and this pass improves it.
    again: bool,
    /// Seed of the random choice among equal links; 0: no random choice.
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
            kept: Kept::new(request),
            load: vec![0; links.count()],
            sources,
            flow: Vec::new(),
            ahead: vec![0.0; graph.switch_count()],
            near: Vec::new(),
            again: false,
            lot: u64::from(request.options.scatter_ports),
            shift: request.options.port_shifting,
        }
    }

    /// Data for preparing groups.
    fn means(&self) -> (&'a Links, Kept<'a>) {
        (self.links, self.kept.clone())
    }

    /// Lower bound of the worst link load: the traffic leaving a switch, divided by its number of links.
    fn least(&self) -> u64 {
        let lids = |switch: u32| -> u64 {
            let hung = self.graph.switches[switch as usize].hung();
            hung.map(|(_, end)| 1u64 << self.graph.ends[end as usize].lmc).sum()
        };
        let all: u64 = (0..self.sources.len() as u32).map(lids).sum();
        let bound = |switch: u32| {
            let links = self.links.of(switch);
            let out = u64::from(self.sources[switch as usize]) * (all - lids(switch)) * u64::from(SCALE);
            // A worst load within one percent of the bound is good enough.
            (!links.is_empty()).then(|| out.div_ceil(links.len() as u64) * 101 / 100)
        };
        (0..self.sources.len() as u32).filter_map(bound).max().unwrap_or(0)
    }

    fn batch(&mut self, groups: &[Group], ready: &[Ready]) {
        let mut columns = Vec::new();
        for (group, ready) in groups.iter().zip(ready) {
            match ready {
                Ready::Ways(ways) => self.group(group, ways),
                Ready::Columns(ports) => columns.extend(group.targets.iter().map(|target| target.lid).zip(ports)),
            }
        }
        // Row by row, so that each row is loaded into the cache once for all columns.
        for (at, row) in self.tables.lfts.iter_mut().enumerate() {
            columns.iter().for_each(|(lid, ports)| row[usize::from(*lid)] = ports[at]);
        }
    }

    /// Routes the LIDs of a group.
    fn group(&mut self, group: &Group, ways: &Ways) {
        if self.again {
            self.take_off(&group.targets, ways);
            self.look_ahead(ways);
            return self.place(&group.targets, ways);
        }
        for target in group.targets.iter().filter(|target| !target.is_phantom()) {
            self.tables.lfts[group.switch as usize][usize::from(target.lid)] = target.port;
        }
        if ways.forks.is_empty() {
            return self.place(&group.targets, ways);
        }
        // Switches with a choice on the way down consider the loads ahead, so targets are placed one by one.
        for target in &group.targets {
            self.look_down(ways);
            self.place(std::slice::from_ref(target), ways);
        }
    }

    /// Puts the paths to targets on links.
    fn place(&mut self, targets: &[Target], ways: &Ways) {
        self.start(targets);
        let count = targets.len();
        for (number, (switch, places)) in ways.each().enumerate() {
            self.near.clear();
            self.near.extend(places.iter().map(|place| self.load[*place as usize]));
            let is_fork = ways.forks.get(number).copied().unwrap_or(false);
            for (at, target) in targets.iter().enumerate() {
                let flow = self.flow[switch as usize * count + at];
                let Some(chosen) = self.choose(switch, places, at, target, flow, is_fork) else { continue };
                let link = self.links.at(places[chosen]);
                self.near[chosen] += u64::from(flow) * u64::from(link.scale);
                self.flow[link.peer as usize * count + at] += flow;
                if !target.is_phantom() {
                    self.tables.lfts[switch as usize][usize::from(target.lid)] = link.port;
                }
            }
            places.iter().zip(&self.near).for_each(|(place, load)| self.load[*place as usize] = *load);
        }
    }

    /// Computes the least worst link load on the way down from each switch above the destination.
    fn look_down(&mut self, ways: &Ways) {
        self.ahead.fill(0.0);
        for (at, switch) in ways.order.iter().enumerate().rev().filter(|(at, _)| ways.forks[*at]) {
            let places = &ways.links[ways.start[at] as usize..ways.start[at + 1] as usize];
            let worst = |place: &u32| {
                let link = self.links.at(*place);
                self.ahead[link.peer as usize].max(self.load[*place as usize] as f64)
            };
            self.ahead[*switch as usize] = places.iter().map(worst).fold(f64::INFINITY, f64::min);
        }
    }

    /// Initializes the flows with the sources of paths to the targets of a group.
    fn start(&mut self, targets: &[Target]) {
        let count = targets.len();
        self.flow.resize(self.sources.len() * count, 0);
        for (flows, sources) in self.flow.chunks_exact_mut(count.max(1)).zip(&self.sources) {
            flows.fill(*sources);
        }
        for (at, _) in targets.iter().enumerate().filter(|(_, target)| target.is_free()) {
            self.flow.iter_mut().skip(at).step_by(count).for_each(|flow| *flow = 0);
        }
    }

    /// Removes the paths to targets from the links.
    fn take_off(&mut self, targets: &[Target], ways: &Ways) {
        self.start(targets);
        let count = targets.len();
        for (switch, places) in ways.each() {
            for (at, target) in targets.iter().enumerate().filter(|(_, target)| !target.is_phantom()) {
                let port = self.tables.lfts[switch as usize][usize::from(target.lid)];
                let place = places.iter().copied().find(|place| self.links.at(*place).port == port);
                let (Some(place), flow) = (place, self.flow[switch as usize * count + at]) else { continue };
                let link = self.links.at(place);
                self.load[place as usize] -= u64::from(flow) * u64::from(link.scale);
                self.flow[link.peer as usize * count + at] += flow;
            }
        }
    }

    /// Computes the cost of one more path from each switch onward.
    fn look_ahead(&mut self, ways: &Ways) {
        self.ahead.fill(0.0);
        for (at, switch) in ways.order.iter().enumerate().rev() {
            let places = &ways.links[ways.start[at] as usize..ways.start[at + 1] as usize];
            self.ahead[*switch as usize] = places.iter().map(|place| self.price(*place)).fold(f64::INFINITY, f64::min);
        }
    }

    /// Cost of one more path over a link and onward.
    fn price(&self, place: u32) -> f64 {
        let load = self.load[place as usize] as f64;
        load * load * load + self.ahead[self.links.at(place).peer as usize]
    }

    /// The link for a target, as an index in `places`.
    fn choose(
        &self,
        switch: u32,
        places: &[u32],
        at: usize,
        target: &Target,
        flow: u32,
        is_fork: bool,
    ) -> Option<usize> {
        if places.len() <= 1 {
            return (!places.is_empty()).then_some(0);
        }
        if let Some(place) = self.kept.link(self.links, switch, places, target.lid) {
            return places.iter().position(|other| *other == place);
        }
        if flow == 0 {
            // Only the switch itself sends along this path: spread by LID.
            return Some((at + usize::from(target.lid)) % places.len());
        }
        if target.layer > 0 {
            return self.other(switch, places, target);
        }
        if self.again {
            return self.cheapest(places, flow);
        }
        if is_fork {
            let ahead = |at: &usize| self.ahead[self.links.at(places[*at]).peer as usize];
            let pairs = (0..places.len()).map(|at| (self.near[at], ahead(&at), at));
            let least = pairs.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            return least.map(|(.., at)| at);
        }
        if self.lot != 0 {
            return self.by_lot(switch, target);
        }
        let from = if self.shift { switch as usize % places.len() } else { 0 };
        let (before, behind) = self.near.split_at(from);
        let (least, other) = (least(behind), least(before));
        match (least, other) {
            (Some((load, _)), Some((other, at))) if other < load => Some(at),
            (Some((_, at)), _) => Some(at + from),
            (None, other) => other.map(|(_, at)| at),
        }
    }

    /// The link with the least cost, including the path onward.
    fn cheapest(&self, places: &[u32], flow: u32) -> Option<usize> {
        let price = |at: usize| {
            let link = self.links.at(places[at]);
            let load = self.near[at] as f64 + f64::from(flow) * f64::from(link.scale) * 0.5;
            load * load * load + self.ahead[link.peer as usize]
        };
        let prices = (0..places.len()).map(|at| (at, price(at)));
        prices.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at)
    }

    /// The link for a further LID of an end port: if possible to a different switch than its earlier LIDs.
    fn other(&self, switch: u32, places: &[u32], target: &Target) -> Option<usize> {
        let base = target.lid - target.layer;
        let row = &self.tables.lfts[switch as usize];
        let before = &row[usize::from(base)..usize::from(target.lid)];
        let peers = self.links.of(switch).iter().filter(|link| before.contains(&link.port));
        let peers: Vec<u32> = peers.map(|link| link.peer).collect();
        (0..places.len()).min_by_key(|at| {
            let link = self.links.at(places[*at]);
            let by_switch = peers.iter().filter(|peer| **peer == link.peer).count();
            let by_port = before.iter().filter(|port| **port == link.port).count();
            (by_switch, by_port, self.near[*at])
        })
    }

    /// A random one of the least loaded links.
    fn by_lot(&self, switch: u32, target: &Target) -> Option<usize> {
        let (least, _) = least(&self.near)?;
        let equal: Vec<usize> = (0..self.near.len()).filter(|at| self.near[*at] == least).collect();
        let guid = self.graph.switches[switch as usize].guid;
        let lot = mix(self.lot ^ mix(guid ^ u64::from(target.lid) << 48));
        equal.get(lot as usize % equal.len()).copied()
    }
}

/// The minimum of some loads and its first index.
fn least(loads: &[u64]) -> Option<(u64, usize)> {
    let least = loads.iter().copied().min()?;
    loads.iter().position(|load| *load == least).map(|at| (least, at))
}

/// Mixes the bits of a number.
pub fn mix(number: u64) -> u64 {
    SplitMix64::from_seed(number.to_le_bytes()).next_u64()
}
