//! Irregular test fabrics: leaves of unequal size, missing and parallel cables; and the results of `auto` on them.

use crate::graph::{Graph, Peer, Port, Switch};
use crate::parallel::Sequential;
use crate::routing::quality::{Checks, Quality, bisection_share, check};
use crate::routing::testing::{hang, join};
use crate::routing::{ENGINES, Previous, Request, RoutingOptions, engine};
use crate::tables::Tables;
use crate::testing::generated;
use weft_fabric::topology::generate::Shape;

/// A two-level tree: the hosts of each leaf and its cables to each spine. `opensm` is the worst all-to-all link load of
/// OpenSM's best engine without credit loops.
struct Known {
    leaves: &'static [(u32, &'static [u32])],
    opensm: u64,
}

const LEAVES_OF_UNEQUAL_SIZE: Known = Known {
    leaves: &[
        (6, &[1; 4]),
        (5, &[1; 4]),
        (8, &[1; 4]),
        (5, &[1; 4]),
        (11, &[1; 4]),
        (11, &[1; 4]),
        (11, &[1; 4]),
        (10, &[1; 4]),
    ],
    opensm: 171,
};

const MISSING_CABLES: Known = Known {
    leaves: &[
        (12, &[1; 5]),
        (12, &[0, 0, 1, 1, 1]),
        (12, &[1; 5]),
        (12, &[1; 5]),
        (12, &[1, 0, 1, 1, 1]),
        (12, &[0, 1, 1, 1, 1]),
        (12, &[1; 5]),
        (12, &[1, 1, 0, 1, 1]),
        (12, &[1; 5]),
        (12, &[1; 5]),
    ],
    opensm: 444,
};

const PARALLEL_CABLES: Known = Known {
    leaves: &[
        (11, &[1, 2, 1, 3]),
        (7, &[2, 2, 1, 1]),
        (11, &[1, 1, 2, 3]),
        (12, &[2, 1, 1, 3]),
        (14, &[3, 2, 2, 1]),
        (9, &[1, 2, 1, 1]),
        (8, &[3, 2, 2, 1]),
        (9, &[1, 2, 2, 3]),
    ],
    opensm: 157,
};

impl Known {
    /// Builds the graph. A switch's links to switches have the lowest ports, then come hosts.
    fn graph(&self) -> Graph {
        let spines = self.leaves[0].1.len();
        let mut graph = Graph::default();
        for at in 0..self.leaves.len() + spines {
            let ports = vec![Port { weight: 1, ..Port::default() }; 37];
            let (guid, name) = (0x1000 + at as u64, format!("s{at}"));
            graph.switches.push(Switch { guid, name, lid: at as u16 + 1, lmc: 0, ports });
        }
        let free = |graph: &Graph, switch: u32| {
            let ports = &graph.switches[switch as usize].ports;
            (1..).zip(&ports[1..]).find(|(_, port)| port.peer == Peer::None).map_or(0, |(number, _)| number)
        };
        for (leaf, (_, cables)) in (0u32..).zip(self.leaves) {
            for (spine, count) in (self.leaves.len() as u32..).zip(*cables) {
                for _ in 0..*count {
                    let ends = ((leaf, free(&graph, leaf)), (spine, free(&graph, spine)));
                    join(&mut graph, ends.0, ends.1);
                }
            }
        }
        for (leaf, (hosts, _)) in (0u32..).zip(self.leaves) {
            for _ in 0..*hosts {
                let port = free(&graph, leaf) as u8;
                hang(&mut graph, leaf, port);
            }
        }
        graph
    }
}

fn route(name: &str, graph: &Graph) -> Option<Tables> {
    let options = RoutingOptions { nue_max_num_vls: 0, ..RoutingOptions::default() };
    (engine(name)?.run)(&Request::new(graph, &options, &Sequential)).ok()
}

fn judge(graph: &Graph, tables: &Tables) -> Quality {
    check(graph, tables, &Checks::default(), &Sequential)
}

#[test]
fn auto_loads_no_link_of_an_irregular_tree_more_than_any_engine_does() {
    for known in [LEAVES_OF_UNEQUAL_SIZE, MISSING_CABLES, PARALLEL_CABLES] {
        let graph = known.graph();
        let auto = judge(&graph, &route("auto", &graph).expect("tables"));
        assert!(auto.is_sound() && auto.load.max <= known.opensm, "above OpenSM's {}: {auto}", known.opensm);
        for name in ENGINES.iter().map(|engine| engine.name).filter(|name| *name != "auto") {
            let Some(tables) = route(name, &graph) else { continue };
            let other = judge(&graph, &tables);
            assert!(!other.is_sound() || auto.load.max <= other.load.max, "{other} is better than {auto}");
        }
    }
}

#[test]
fn auto_gives_up_nothing_of_shifts_and_little_of_bisections_for_it() {
    for known in [LEAVES_OF_UNEQUAL_SIZE, PARALLEL_CABLES] {
        let graph = known.graph();
        let (auto, ftree) = (route("auto", &graph).expect("tables"), route("ftree", &graph).expect("tables"));
        let share = |tables: &Tables| bisection_share(&graph, tables, 64, &Sequential);
        assert!(share(&auto) >= share(&ftree) * 0.97, "{} {}", share(&auto), share(&ftree));
        let (auto, ftree) = (judge(&graph, &auto), judge(&graph, &ftree));
        assert!(auto.shift.worst_mean <= ftree.shift.worst_mean, "{auto} {ftree}");
    }
}

#[test]
fn auto_computes_the_same_tables_each_time() {
    let graph = PARALLEL_CABLES.graph();
    assert_eq!(route("auto", &graph), route("auto", &graph));
}

#[test]
fn auto_loads_no_link_of_a_mesh_more_than_dimension_order_does() {
    for hosts_per_switch in [1, 2] {
        let graph = generated(Shape::Torus { sizes: vec![6, 5], hosts_per_switch, wraps: false });
        let of = |name: &str| judge(&graph, &route(name, &graph).expect("tables"));
        let (auto, dor) = (of("auto"), of("dor"));
        assert!(auto.is_sound() && dor.is_sound() && auto.load.max <= dor.load.max, "{dor} is better than {auto}");
    }
}

#[test]
fn a_tree_that_ftree_routes_keeps_it_when_a_cable_fails() {
    let whole = generated(Shape::FatTree { radix: 8, levels: 2, hosts: None, hosts_per_leaf: None });
    let tables = route("auto", &whole).expect("tables");
    assert_eq!(tables.engine, "ftree");
    let cut = super::matrix::without_link(whole.clone(), 3);
    let options = RoutingOptions::default();
    let previous = Some(Previous { graph: &whole, tables: &tables });
    let request = Request { previous, ..Request::new(&cut, &options, &Sequential) };
    let after = (engine("auto").expect("auto").run)(&request).expect("tables");
    assert_eq!(after.engine, "ftree");
}
