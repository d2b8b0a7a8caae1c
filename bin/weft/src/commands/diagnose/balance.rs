//! Balance of paths over the links between switches. A link's load is compared with the load it has to carry in this
//! fabric, not with the load of its neighbours: in a mesh the middle carries more than the rim, and in a tree some
//! table entries are never used.

use weft_diags::ibnet::{Kind, PortRef};
use weft_fabric::topology::counted;
use weft_sm::graph::{End, Graph, Peer as GraphPeer, Port, Switch};
use weft_sm::routing::{self, Request, RoutingOptions};
use weft_sm_process::Threads;

use super::finding::Section;
use super::net::{Net, Peer, Step};
use super::survey::Survey;

/// Factor over the busiest link of a good routing from which a link counts as unbalanced.
const UNBALANCED: f64 = 1.5;
/// If no link carries more than this multiple of the mean load, no routing does much better.
const EVEN: f64 = 2.0;
/// Maximum number of table entries, over all switches, for which a routing is computed for comparison.
const COMPARED_MAX: usize = 1 << 25;
/// The routing engine to compare with.
const ENGINE: &str = "auto";
/// PortInfo:VLCap with the most data VLs.
const VL_CAP_MAX: u8 = 5;

/// Checks how paths between adapters are spread over links.
pub fn check(survey: &Survey, net: &Net<'_>) -> Section {
    let mut section = Section::new("balance of links");
    let count = net.links().count();
    let loads = loads(survey, net);
    let (sum, max) = (loads.iter().sum::<u64>(), loads.iter().copied().max().unwrap_or(0));
    section.looked_at = format!("{} between switches, at most {} on one", counted(count, "link"), counted(max, "path"));
    if (max as f64) <= EVEN * sum as f64 / count.max(1) as f64 {
        return section;
    }
    let Some(best) = best(survey, net).filter(|best| max as f64 > *best as f64 * UNBALANCED) else { return section };
    let mut heavy: Vec<(usize, u64)> = loads.into_iter().enumerate().collect();
    heavy.retain(|(_, load)| *load as f64 > best as f64 * UNBALANCED);
    heavy.sort_by_key(|(link, load)| (std::cmp::Reverse(*load), *link));
    for (link, load) in heavy {
        let label = survey.label(net.port(link));
        section.warning(format!("{label}: {load} paths, where no link of this fabric has to carry more than {best}"));
    }
    section
}

/// Load of the busiest link under the routing that Weft's subnet manager would choose.
fn best(survey: &Survey, net: &Net<'_>) -> Option<u64> {
    let graph = graph(survey, net);
    if graph.switch_count() * (usize::from(graph.lid_top()) + 1) > COMPARED_MAX {
        return None;
    }
    let (options, threads) = (RoutingOptions::default(), Threads::all());
    let tables = (routing::engine(ENGINE)?.run)(&Request::new(&graph, &options, &threads)).ok()?;
    let mut routed = Net::new(survey);
    routed.tables = tables.lfts.iter().map(Vec::as_slice).collect();
    loads(survey, &routed).into_iter().max()
}

/// Number of paths between adapters on each link: one path from each adapter's port to each LID of all other adapters.
fn loads(survey: &Survey, net: &Net<'_>) -> Vec<u64> {
    let mut loads = vec![0; net.peers.len()];
    let mut sources = vec![0u64; net.switches.len()];
    net.peers.iter().enumerate().filter(|(_, peer)| matches!(peer, Peer::End(_))).for_each(|(link, _)| {
        sources[link / net.stride] += 1;
    });
    let from: Vec<u32> = (0u32..).zip(&sources).filter(|(_, sources)| **sources > 0).map(|(place, _)| place).collect();
    let mut trail = Vec::new();
    for (lid, end) in survey.lids().into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH) {
        for &switch in &from {
            trail.clear();
            let mut at = switch;
            while let (_, Step::At(link, next, _)) = net.step(at, lid, end) {
                trail.push(link);
                at = next;
                if trail.len() > net.switches.len() {
                    break;
                }
            }
            // The routes check reports paths that do not arrive.
            if net.step(at, lid, end).1 == Step::There {
                trail.iter().for_each(|link| loads[*link] += sources[switch as usize]);
            }
        }
    }
    loads
}

/// The fabric as the routing engines' graph.
pub fn graph(survey: &Survey, net: &Net<'_>) -> Graph {
    let fabric = &survey.fabric;
    let mut graph = Graph::default();
    for (place, &index) in net.switches.iter().enumerate() {
        let node = fabric.node(index);
        let mut ports = vec![Port { weight: 1, ..Port::default() }; usize::from(node.num_ports) + 1];
        for (number, port) in ports.iter_mut().enumerate() {
            let Peer::Switch(switch, other) = net.peers[place * net.stride + number] else { continue };
            let (near, far) = (PortRef { node: index, port: number as u8 }, net.switches[switch as usize]);
            port.peer = GraphPeer::Switch { switch, port: other };
            port.vls = lanes(survey, near).min(lanes(survey, PortRef { node: far, port: other }));
            port.capacity = 1;
        }
        let (lid, lmc, guid) = (node.sma_lid, node.sma_lmc, node.guid);
        graph.switches.push(Switch { guid, name: node.name(), lid, lmc, ports });
    }
    let mut ends: Vec<(PortRef, usize)> = Vec::new();
    ends.extend(net.peers.iter().enumerate().filter_map(|(link, peer)| match peer {
        Peer::End(at) => Some((*at, link)),
        _ => None,
    }));
    ends.retain(|(at, _)| fabric.port(*at).is_some_and(|port| port.lid != 0));
    ends.sort_by_key(|(at, _)| fabric.port(*at).map(|port| port.guid));
    for (at, link) in ends {
        let (node, Some(port)) = (fabric.node(at.node), fabric.port(at)) else { continue };
        let (switch, number) = ((link / net.stride) as u32, (link % net.stride) as u8);
        graph.switches[switch as usize].ports[usize::from(number)].peer = GraphPeer::End(graph.ends.len() as u32);
        graph.ends.push(End {
            guid: port.guid,
            node_guid: node.guid,
            name: node.name(),
            router: node.kind == Kind::ROUTER,
            lid: port.lid,
            lmc: port.lmc,
            switch,
            port: number,
        });
    }
    graph
}

/// Number of data VLs of a port.
fn lanes(survey: &Survey, at: PortRef) -> u8 {
    match survey.fabric.port(at).map_or(0, |port| port.vl_cap()) {
        VL_CAP_MAX.. => 15,
        code => 1 << code.saturating_sub(1),
    }
}
