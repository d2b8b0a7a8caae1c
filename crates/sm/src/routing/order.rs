//! Order in which destinations are routed. Neighbors in the fabric follow each other by cabled port, not by GUID, so
//! that the loads of a regular fabric come out regular, however its GUIDs are assigned.

use std::collections::VecDeque;

use crate::graph::{Graph, Switch};

use super::RoutingOptions;
use super::links::Links;
use super::ways::FAR;

/// LIDs behind the same switch, routed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The switch.
    pub switch: u32,
    /// The LIDs.
    pub targets: Vec<Target>,
}

/// A LID to route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The LID.
    pub lid: u16,
    /// The port of its last switch; 0 for the switch itself.
    pub port: u8,
    /// Index of the LID's end port in the graph; `None` for a switch's LID.
    pub end: Option<u32>,
    /// Index of the LID among its owner's LIDs.
    pub layer: u16,
}

/// Port of a phantom target.
const PHANTOM: u8 = 0xff;

impl Target {
    /// Creates a placeholder for an end port that is missing where other switches have one. Its load counts, so that
    /// the other destinations are spread as if it were there.
    pub fn phantom() -> Target {
        Target { lid: 0, port: PHANTOM, end: None, layer: 0 }
    }

    /// Whether the target is a placeholder.
    pub fn is_phantom(&self) -> bool {
        self.port == PHANTOM
    }

    /// Whether its paths do not count as load: true for a switch's own LIDs.
    pub fn is_free(&self) -> bool {
        self.end.is_none() && !self.is_phantom()
    }
}

/// Every LID of a graph: first the ports in the configured order, then all other end ports, then switches.
pub fn groups(graph: &Graph, links: &Links, options: &RoutingOptions) -> Vec<Group> {
    let mut done = vec![false; graph.ends.len()];
    let mut groups: Vec<Group> = Vec::new();
    for guid in &options.guid_routing_order {
        let Some(place) = graph.ends.iter().position(|end| end.guid == *guid) else { continue };
        if !std::mem::replace(&mut done[place], true) {
            let switch = graph.ends[place].switch;
            if groups.last().is_none_or(|group| group.switch != switch) {
                groups.push(Group { switch, targets: Vec::new() });
            }
            groups.last_mut().into_iter().for_each(|group| group.targets.extend(layers(graph, place as u32)));
        }
    }
    let (mut hung, mut bare) = (Vec::new(), Vec::new());
    for switch in walk(graph, links) {
        let node = &graph.switches[switch as usize];
        let mut targets: Vec<Target> =
            node.hung().filter(|(_, end)| !done[*end as usize]).flat_map(|(_, end)| layers(graph, end)).collect();
        targets.sort_by_key(|target| target.layer);
        let is_hung = !targets.is_empty();
        targets.extend(own(node));
        if is_hung { hung.push(Group { switch, targets }) } else { bare.push(Group { switch, targets }) }
    }
    groups.extend(hung);
    groups.extend(bare);
    groups
}

/// The LIDs of an end port.
fn layers(graph: &Graph, place: u32) -> impl Iterator<Item = Target> + '_ {
    let end = &graph.ends[place as usize];
    (0u16..).zip(end.lids()).map(move |(layer, lid)| Target { lid, port: end.port, end: Some(place), layer })
}

/// The LIDs of a switch.
fn own(switch: &Switch) -> impl Iterator<Item = Target> + '_ {
    let lids = (0u16..).zip(switch.lids()).filter(|(_, lid)| *lid != 0);
    lids.map(|(layer, lid)| Target { lid, port: 0, end: None, layer })
}

/// All switches, breadth first in port order, starting from one at the greatest distance from end ports: the top of a
/// tree.
pub fn walk(graph: &Graph, links: &Links) -> Vec<u32> {
    let height = heights(graph, links);
    let mut tops: Vec<u32> = (0..graph.switch_count() as u32).collect();
    tops.sort_by_key(|switch| (std::cmp::Reverse(height[*switch as usize]), *switch));
    let mut seen = vec![false; graph.switch_count()];
    let mut order = Vec::with_capacity(seen.len());
    for top in tops {
        if std::mem::replace(&mut seen[top as usize], true) {
            continue;
        }
        let mut queue = VecDeque::from([top]);
        while let Some(switch) = queue.pop_front() {
            order.push(switch);
            let mut next: Vec<_> = links.of(switch).iter().map(|link| (link.port, link.peer)).collect();
            next.sort_unstable();
            for (_, peer) in next {
                if !std::mem::replace(&mut seen[peer as usize], true) {
                    queue.push_back(peer);
                }
            }
        }
    }
    order
}

/// Distance of each switch from the nearest one with end ports; 0 if there is none in reach.
pub fn heights(graph: &Graph, links: &Links) -> Vec<u32> {
    let mut height = vec![FAR; graph.switch_count()];
    let mut queue = VecDeque::new();
    for end in &graph.ends {
        if std::mem::replace(&mut height[end.switch as usize], 0) == FAR {
            queue.push_back(end.switch);
        }
    }
    while let Some(switch) = queue.pop_front() {
        for link in links.of(switch) {
            if height[link.peer as usize] == FAR {
                height[link.peer as usize] = height[switch as usize] + 1;
                queue.push_back(link.peer);
            }
        }
    }
    height.iter_mut().filter(|h| **h == FAR).for_each(|h| *h = 0);
    height
}
