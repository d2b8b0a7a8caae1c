use weft_fabric::topology::generate::Shape;

use super::grid::Grid;
use crate::graph::Graph;
use crate::routing::figures::{random, topology, torus};
use crate::routing::matrix::{judge, route, without_link, without_switch};
use crate::routing::net::Net;
use crate::routing::{RouteError, RoutingOptions};
use crate::tables::Tables;
use crate::testing::generated;

fn mesh(sizes: &[u32]) -> Graph {
    generated(Shape::Torus { sizes: sizes.to_vec(), hosts_per_switch: 1, wraps: false })
}

fn grid(graph: &Graph) -> Result<Grid, String> {
    let guids: Vec<u64> = graph.switches.iter().map(|switch| switch.guid).collect();
    Grid::new(&Net::new(graph), None, &guids)
}

fn told(graph: &Graph, torus_config: String) -> Result<Tables, RouteError> {
    route("torus-2QoS", graph, &RoutingOptions { torus_config, ..RoutingOptions::default() })
}

#[test]
fn tori_and_meshes_are_recognised() {
    for sizes in
        [vec![8, 8, 8], vec![4, 4, 4], vec![16, 16], vec![3, 3, 3], vec![4, 4], vec![5, 4, 3], vec![7], vec![4, 6]]
    {
        let found = grid(&torus(&sizes, 1)).expect("a torus");
        let whole: u32 = sizes.iter().product();
        assert_eq!(found.sizes.iter().product::<u32>(), whole);
        assert!(
            found.sizes.iter().zip(found.wraps).all(|(size, wraps)| wraps == (*size > 1)),
            "{sizes:?}: {:?}",
            found.sizes
        );
        assert!(found.is_whole());
    }
    for sizes in [vec![4, 5], vec![3, 3, 3], vec![2, 3, 4], vec![6]] {
        let found = grid(&mesh(&sizes)).expect("a mesh");
        assert_eq!(found.wraps, [false; 3], "{sizes:?}");
    }
}

#[test]
fn what_is_no_torus_is_refused() {
    for graph in [random(24, 4, 1), topology("df264"), topology("ft324")] {
        assert!(grid(&graph).is_err());
    }
}

/// OpenSM's worst loads are 48, 576 and 640; Weft's use both directions between switches half a ring apart.
#[test]
fn whole_tori_are_routed_soundly_and_evenly() {
    for (sizes, max) in
        [(vec![4, 4, 4], 32), (vec![16, 16], 512), (vec![8, 8, 8], 512), (vec![5, 3], 0), (vec![6, 5, 3], 0)]
    {
        let quality = judge("torus-2QoS", &torus(&sizes, 1), &RoutingOptions::default());
        assert!(quality.is_sound(), "{sizes:?}: {quality}");
        assert!(max == 0 || quality.load.max == max, "{sizes:?}: {quality}");
        let two = RoutingOptions { lanes_max: 2, ..RoutingOptions::default() };
        assert!(judge("torus-2QoS", &torus(&sizes, 1), &two).is_sound());
    }
}

#[test]
fn a_mesh_needs_one_lane_and_a_torus_two() {
    let one = RoutingOptions { lanes_max: 1, ..RoutingOptions::default() };
    assert!(judge("torus-2QoS", &mesh(&[4, 5]), &one).is_sound());
    assert!(route("torus-2QoS", &torus(&[5, 5], 1), &one).is_err());
}

#[test]
fn every_missing_link_is_gone_round() {
    for sizes in [vec![5, 4], vec![4, 4, 3]] {
        let graph = torus(&sizes, 1);
        for number in (0..graph.switches.iter().map(|switch| switch.links().count()).sum()).step_by(3) {
            let broken = without_link(graph.clone(), number);
            let quality = judge("torus-2QoS", &broken, &RoutingOptions::default());
            assert!(quality.is_sound(), "{sizes:?} without {number}: {quality}");
        }
    }
}

#[test]
fn every_missing_switch_is_gone_round() {
    for sizes in [vec![5, 5], vec![4, 4, 4], vec![5, 3, 4]] {
        let graph = torus(&sizes, 1);
        for gone in (0..graph.switch_count() as u32).step_by(7) {
            let quality = judge("torus-2QoS", &without_switch(&graph, gone), &RoutingOptions::default());
            assert!(quality.is_sound(), "{sizes:?} without {gone}: {quality}");
        }
    }
}

#[test]
fn a_row_in_pieces_is_refused_with_its_reason() {
    // A row of five without two of its links.
    let graph = torus(&[5, 3, 3], 1);
    let mut broken = graph.clone();
    let ring: Vec<u32> = ring_of(&graph, 0);
    assert_eq!(ring.len(), 5);
    for at in [1, 3] {
        let (port, ..) =
            broken.switches[ring[at] as usize].links().find(|(_, to, _)| *to == ring[at + 1]).expect("a link");
        crate::routing::matrix::cut(&mut broken, ring[at], port);
    }
    let error = route("torus-2QoS", &broken, &RoutingOptions::default()).expect_err("in pieces");
    assert!(error.to_string().contains("several pieces"), "{error}");
}

/// The row of a switch in the first dimension, upward from that switch.
fn ring_of(graph: &Graph, first: u32) -> Vec<u32> {
    let grid = grid(graph).expect("a torus");
    let mut ring = vec![first];
    while let Some(next) =
        grid.beside(grid.places[*ring.last().expect("one") as usize], 0, true).and_then(|at| grid.switch(at))
    {
        if next == first {
            break;
        }
        ring.push(next);
    }
    ring
}

#[test]
fn the_configuration_is_honoured() {
    let graph = torus(&[5, 4, 3], 1);
    let guid = |switch: u32| graph.switches[switch as usize].guid;
    let seed = grid(&graph).expect("a torus");
    let beside =
        |dimension| guid(seed.switch(seed.beside(seed.places[0], dimension, true).expect("one")).expect("one"));
    let at = |size: u32| (0..3).find(|at| seed.sizes[*at] == size).expect("that size");
    let origin = guid(0);
    let config = format!(
        "# three dimensions, in another order\ntorus 3 5t 4T\nxp_link {origin:#x} {:#x}\nyp_link {origin:#x} {:#x}\n\
         zp_link {origin:#x} {:#x}\ny_dateline -1\nnext_seed\nxp_link 0x1 0x2\nportgroup_max_ports 12\nport_order 3 4\n",
        beside(at(3)),
        beside(at(5)),
        beside(at(4)),
    );
    let tables = told(&graph, config.clone()).expect("tables");
    let quality = crate::routing::quality::check(&graph, &tables, &Default::default(), &crate::parallel::Sequential);
    assert!(quality.is_sound(), "{quality}");
    let plain = told(&graph, String::new()).expect("tables");
    assert_ne!(plain.lfts, tables.lfts, "another order of dimensions");
    let error = told(&graph, config.replace("torus 3 5t 4T", "torus 3 5 5")).expect_err("another size");
    assert!(error.to_string().contains("3 x 5 x 5"), "{error}");
    let error = told(&graph, config.replace("torus 3 5t 4T", "torus 3 5m 4")).expect_err("a ring, not a mesh");
    assert!(error.to_string().contains("ring"), "{error}");
}

#[test]
fn a_seed_whose_switch_is_gone_gives_way_to_the_next() {
    let graph = torus(&[5, 3], 1);
    let (a, b) =
        (graph.switches[3].guid, graph.switches[3].links().next().map(|(_, to, _)| graph.switches[to as usize].guid));
    let size = |dimension: usize| grid(&graph).expect("a torus").sizes[dimension];
    let config =
        format!("torus {} {}\nxp_link 0x1 0x2\nnext_seed\nxp_link {a:#x} {:#x}\n", size(0), size(1), b.expect("one"));
    assert!(told(&graph, config.clone()).is_ok());
    let error = told(&graph, config.replace("next_seed\n", "")).err().map(|error| error.to_string());
    assert_eq!(error, None, "later links of a seed replace earlier ones");
    let error = told(&graph, format!("torus {} {}\nxp_link 0x1 0x2\n", size(0), size(1))).expect_err("no seed");
    assert!(error.to_string().contains("0x0000000000000001"), "{error}");
}

#[test]
fn mistakes_are_told_by_their_line() {
    let graph = torus(&[5, 5], 1);
    for (text, says) in [
        ("torus 5 5\nxq_link 1 2", "line 2"),
        ("torus 5 five", "five is no size"),
        ("xp_link 0x1 0x2", "no line"),
        ("torus 5 5\nw_dateline 1", "unknown"),
        ("torus 5 5\nxp_link 0x1 zz", "no GUID"),
    ] {
        let error = told(&graph, text.to_owned()).expect_err(text).to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_second_quality_of_service_has_lanes_of_its_own() {
    let graph = torus(&[5, 5], 1);
    let tables = route("torus-2QoS", &graph, &RoutingOptions::default()).expect("tables");
    assert_eq!(tables.lane_count(), 8);
    let ports = graph.switches[0].ports.len();
    for (port_in, port_out) in (0..ports as u8).flat_map(|a| (0..ports as u8).map(move |b| (a, b))) {
        for level in 0..8 {
            assert!(tables.lane(0, ports, port_in, port_out, level) < 4);
            assert!(tables.lane(0, ports, port_in, port_out, level + 8) >= 4);
        }
    }
}
