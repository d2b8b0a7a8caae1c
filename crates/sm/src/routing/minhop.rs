//! Balanced shortest paths: OpenSM's default. Credit loops can occur if the fabric has rings.

use crate::tables::Tables;

use super::levels::tree;
use super::links::Links;
use super::order::groups;
use super::spread::spread;
use super::ways::{Ways, distances};
use super::{Engine, Request, RouteError};

/// `minhop`.
pub const ENGINE: Engine = Engine {
    name: "minhop",
    about: "the shortest ways, balanced over all links; rings of switches can block themselves",
    run,
};

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let links = Links::ordered(request);
    let groups = groups(request.graph, &links, request.options);
    let height = tree(request.graph, &links).filter(|_| !links.is_weighted());
    let toward = |to: u32| {
        let distance = distances(&links, to);
        let ways = Ways::nearer(&links, &distance, |_, _| true);
        let Some(height) = &height else { return ways };
        let below = height[to as usize];
        ways.forked(&links, |switch| height[switch as usize].checked_sub(below) == Some(distance[switch as usize]))
    };
    Ok(spread(ENGINE.name, request, &links, &groups, true, &toward))
}

#[cfg(test)]
mod tests {
    use weft_fabric::topology::generate::Shape;

    use crate::graph::Graph;
    use crate::parallel::Sequential;
    use crate::routing::{Request, RoutingOptions};
    use crate::tables::Tables;
    use crate::testing::generated;

    /// The links of the path from an end port to a LID, as (switch, port), including the last one.
    fn path(graph: &Graph, tables: &Tables, from: u32, lid: u16) -> Vec<(u32, u8)> {
        let mut path: Vec<(u32, u8)> = Vec::new();
        let mut at = graph.ends[from as usize].switch;
        while path.len() <= graph.switch_count() {
            let port = tables.port(at, lid).expect("an entry");
            path.push((at, port));
            match graph.switches[at as usize].ports[usize::from(port)].peer {
                crate::graph::Peer::Switch { switch, .. } => at = switch,
                _ => break,
            }
        }
        path
    }

    #[test]
    fn paths_arrive_and_no_link_of_a_three_level_tree_carries_more_than_it_must() {
        let graph = generated(Shape::FatTree { radix: 6, levels: 3, hosts: None, hosts_per_leaf: None });
        let options = RoutingOptions::default();
        let tables = super::run(&Request::new(&graph, &options, &Sequential)).expect("tables");
        let mut load = std::collections::BTreeMap::<(u32, u8), u32>::new();
        for from in 0..graph.ends.len() as u32 {
            for to in &graph.ends {
                let path = path(&graph, &tables, from, to.lid);
                assert_eq!(path.last(), Some(&(to.switch, to.port)));
                assert!(path.len() <= 5, "{path:?}");
                path.iter().rev().skip(1).for_each(|hop| *load.entry(*hop).or_default() += 1);
            }
        }
        let links: usize = graph.switches.iter().map(|switch| switch.links().count()).sum();
        assert_eq!(load.len(), links, "every link is used");
        // 54 hosts, 3 per leaf: a leaf's uplinks carry the paths of its 3 hosts to the 51 others, spread over 3 links.
        assert_eq!(load.values().max(), Some(&51));
    }
}
