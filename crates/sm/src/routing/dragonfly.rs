//! Dragonflies (Kim, Dally, Scott, Abts: "Technology-Driven, Highly-Scalable Dragonfly Topology"): groups of fully
//! connected switches, with cables from every group to every other. There is often a single cable between two groups,
//! and a shift permutation sends the traffic of a whole group over it. So paths through a third group that are no
//! longer than the direct ones share the load, on VLs selected by service level. With too few VLs for that, a path
//! takes at most one hop within the first group, one to the other group, and one within that. Packets from a cable
//! between groups get a VL of their own. The VL then depends on ports alone, every service level stays free for other
//! uses, and no credit loop is possible.

use std::collections::BTreeSet;

use crate::graph::Graph;
use crate::tables::{Lanes, Tables};

use super::lanes::assign;
use super::net::{FAR, Net};
use super::shifts::share;
use super::trees::{by_target, by_target_and};
use super::work::map;
use super::{Engine, Request, RouteError};

/// `dragonfly`.
pub const ENGINE: Engine = Engine {
    name: "dragonfly",
    about: "groups cabled all to all: shifts are shared among all shortest ways, or two lanes carry the direct ones",
    run,
};

/// VLs: before and after the cable between groups.
const LANES: u8 = 2;

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let refuse = |why: &str| RouteError { engine: ENGINE.name, why: why.to_owned() };
    let net = Net::new(request.graph);
    let groups = Groups::find(&net).ok_or_else(|| {
        refuse("the switches do not fall into groups cabled all to all, within and among themselves; use dfsssp or nue")
    })?;
    if net.lanes_max(request) < LANES {
        return Err(refuse("two lanes are needed (max_op_vls 2 or more on every link); use nue with one"));
    }
    Ok(shared(request, &net, &groups).unwrap_or_else(|| direct(request, &net, &groups)))
}

/// The shortest paths, including those through third groups, balanced for shifts; `None` if they need more VLs.
fn shared(request: &Request<'_>, net: &Net, groups: &Groups) -> Option<Tables> {
    let far = net.distances(request.parallel);
    let order = groups.order(request.graph);
    let trees = by_target_and(net, &far, &|_, _| true, |trees| share(net, request.graph, &far, trees, &order));
    let assigned = assign(net, &far, &trees, net.lanes_max(request)).ok()?;
    let mut tables = net.tables(ENGINE.name, request.graph, trees.iter());
    (tables.service_levels, tables.lanes) = assigned.levels(net, request.graph);
    Some(tables)
}

/// Direct paths over the cable between two groups, on two VLs that depend on ports alone.
fn direct(request: &Request<'_>, net: &Net, groups: &Groups) -> Tables {
    let far = map(request.parallel, net.switch_count(), |to| groups.distances_to(net, to));
    let trees = by_target(net, &far, &|way, to| groups.leads(way.from, way.to, to));
    let mut tables = net.tables(ENGINE.name, request.graph, trees.iter());
    tables.lanes = Lanes::ByPorts { count: LANES, maps: maps(request.graph, groups) };
    tables
}

/// Groups of switches.
struct Groups {
    of: Vec<u32>,
    /// Groups that each switch's cables lead to.
    gates: Vec<BTreeSet<u32>>,
}

impl Groups {
    /// The groups of a dragonfly; `None` if the fabric is none. Switches of a group have the group's other switches as
    /// common neighbors, so the links between switches with many common neighbors are those within groups.
    fn find(net: &Net) -> Option<Groups> {
        let beside: Vec<BTreeSet<u32>> = (0..net.switch_count())
            .map(|switch| net.channels[net.of(switch)].iter().map(|channel| channel.to).collect())
            .collect();
        let common: Vec<usize> = net
            .channels
            .iter()
            .map(|way| beside[way.from as usize].intersection(&beside[way.to as usize]).count())
            .collect();
        let levels: BTreeSet<usize> = common.iter().copied().filter(|common| *common > 0).collect();
        levels.into_iter().rev().find_map(|least| {
            let of = joined(net, |channel| common[channel] >= least);
            Groups::proven(net, &beside, of)
        })
    }

    /// The groups, if each is fully connected and every pair of groups is.
    fn proven(net: &Net, beside: &[BTreeSet<u32>], of: Vec<u32>) -> Option<Groups> {
        let count = of.iter().max()? + 1;
        let mut sizes = vec![0usize; count as usize];
        of.iter().for_each(|group| sizes[*group as usize] += 1);
        let mut gates = vec![BTreeSet::new(); of.len()];
        let mut cabled = vec![BTreeSet::new(); count as usize];
        for way in &net.channels {
            let (from, to) = (of[way.from as usize], of[way.to as usize]);
            if from != to {
                gates[way.from as usize].insert(to);
                cabled[from as usize].insert(to);
            }
        }
        let whole = |switch: usize| {
            let own = |other: &&u32| of[**other as usize] == of[switch];
            beside[switch].iter().filter(own).count() + 1 == sizes[of[switch] as usize]
        };
        let all = (0..of.len()).all(whole) && cabled.iter().all(|others| others.len() + 1 == count as usize);
        (all && count > 1 && (count as usize) < of.len()).then_some(Groups { of, gates })
    }

    /// End ports sorted by group, by switch within it, and by index; groups and switches by their first end port.
    fn order(&self, graph: &Graph) -> Vec<u32> {
        let mut first = vec![u32::MAX; graph.switch_count()];
        let mut first_of_group = vec![u32::MAX; graph.switch_count()];
        for (place, end) in (0u32..).zip(&graph.ends) {
            let (switch, group) = (end.switch as usize, self.of[end.switch as usize] as usize);
            first[switch] = first[switch].min(place);
            first_of_group[group] = first_of_group[group].min(place);
        }
        let mut order: Vec<u32> = (0..graph.ends.len() as u32).collect();
        order.sort_by_key(|place| {
            let switch = graph.ends[*place as usize].switch as usize;
            (first_of_group[self.of[switch] as usize], first[switch], *place)
        });
        order
    }

    /// Whether a path to a switch may take a hop.
    fn leads(&self, from: u32, to: u32, target: u32) -> bool {
        let [from_group, to_group, target_group] = [from, to, target].map(|switch| self.of[switch as usize]);
        if from_group == target_group || to_group == target_group {
            return to_group == target_group;
        }
        from_group == to_group && self.gates[to as usize].contains(&target_group)
    }

    /// Distance of every switch to one switch over permitted hops. A switch in another group uses its own cable to the
    /// target's group, or goes to a switch that has one.
    fn distances_to(&self, net: &Net, target: usize) -> Vec<u16> {
        let mut far = vec![FAR; net.switch_count()];
        far[target] = 0;
        // At most three hops: within a group, over its cable to the other group, within that.
        for _ in 0..3 {
            let before = far.clone();
            for way in &net.channels {
                let there = before[way.to as usize].saturating_add(way.weight);
                if there < far[way.from as usize] && self.leads(way.from, way.to, target as u32) {
                    far[way.from as usize] = there;
                }
            }
        }
        far
    }
}

/// Numbers the switches by connected component, from 0, over some channels.
fn joined(net: &Net, by: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut of = vec![u32::MAX; net.switch_count()];
    let mut count = 0;
    for first in 0..net.switch_count() {
        if of[first] != u32::MAX {
            continue;
        }
        let mut next = vec![first];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut of[at], count) != count {
                let ways = net.of(at).filter(|channel| by(*channel)).map(|channel| net.channels[channel].to as usize);
                next.extend(ways.filter(|to| of[*to] == u32::MAX));
            }
        }
        count += 1;
    }
    of
}

/// Packets that arrive over a cable from another group use the second VL.
fn maps(graph: &Graph, groups: &Groups) -> Vec<Vec<[u8; 16]>> {
    let of_switch = |(at, switch): (usize, &crate::graph::Switch)| {
        let ports = switch.ports.len();
        let mut map = vec![[0; 16]; ports * ports];
        for (port, _, _) in switch.links().filter(|(_, to, _)| groups.of[*to as usize] != groups.of[at]) {
            map[usize::from(port) * ports..(usize::from(port) + 1) * ports].fill([1; 16]);
        }
        map
    };
    graph.switches.iter().enumerate().map(of_switch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::RoutingOptions;
    use crate::routing::figures::{random, topology, torus};
    use crate::routing::matrix::{judge, route, without_link};

    #[test]
    fn groups_are_found() {
        for (name, groups) in [("df264", 9), ("df1056", 33)] {
            let found = Groups::find(&Net::new(&topology(name))).expect("a dragonfly");
            assert_eq!(found.of.iter().max(), Some(&(groups - 1)));
        }
    }

    #[test]
    fn two_lanes_carry_the_direct_ways_and_more_lanes_those_that_shifts_share() {
        let graph = topology("df264");
        let quality = judge("dragonfly", &graph, &RoutingOptions { lanes_max: 2, ..RoutingOptions::default() });
        assert!(quality.is_sound(), "{quality}");
        assert_eq!((quality.load.max, quality.lanes), (68, 2), "{quality}");
        let shared = judge("dragonfly", &graph, &RoutingOptions::default());
        assert!(shared.is_sound() && shared.lanes > 2, "{shared}");
        assert!(shared.shift.worst_mean < quality.shift.worst_mean - 0.5, "{shared}, {quality}");
    }

    #[test]
    fn other_topologies_and_broken_groups_are_refused() {
        for graph in [torus(&[4, 4], 1), random(24, 4, 1), topology("ft324"), without_link(topology("df264"), 0)] {
            assert!(route("dragonfly", &graph, &RoutingOptions::default()).is_err());
        }
        let options = RoutingOptions { lanes_max: 1, ..RoutingOptions::default() };
        assert!(route("dragonfly", &topology("df264"), &options).is_err());
    }
}
