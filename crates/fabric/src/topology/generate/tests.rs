//! Every generator delivers what its parameters promise, and refuses impossible ones.

use proptest::prelude::*;

use super::parse::Extra;
use super::*;
use crate::topology::NodeKind;

fn shape(kind: &str, parameters: &str, hosts: Option<u32>, per_switch: Option<u8>) -> Result<Topology> {
    Plan::new(Shape::parse(kind, parameters, Extra { hosts, hosts_per_switch: per_switch })?).generate()
}

/// Hosts, switches, cables.
fn numbers(topology: &Topology) -> (usize, usize, usize) {
    (topology.count(NodeKind::Ca), topology.count(NodeKind::Switch), topology.cables.len())
}

fn is_connected(topology: &Topology) -> bool {
    let mut neighbours = vec![Vec::new(); topology.nodes.len()];
    for cable in &topology.cables {
        neighbours[cable.a.node as usize].push(cable.b.node as usize);
        neighbours[cable.b.node as usize].push(cable.a.node as usize);
    }
    let (mut seen, mut open) = (vec![false; neighbours.len()], vec![0]);
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&neighbours[at]);
        }
    }
    seen.iter().all(|seen| *seen)
}

/// The adapters of a host by name, each with the switch or host that it is cabled to.
fn rails_of<'a>(topology: &'a Topology, host: &str) -> Vec<(&'a str, &'a str)> {
    let far = |place: usize| {
        let cable = topology.cables.iter().find(|cable| [cable.a.node, cable.b.node].contains(&(place as u32)))?;
        let far = if cable.a.node == place as u32 { cable.b } else { cable.a };
        topology.node(far).map(|node| node.name.as_str())
    };
    let of_host = topology.nodes.iter().enumerate().filter(|(_, node)| node.host == host);
    of_host.map(|(place, node)| (node.adapter.as_str(), far(place).unwrap_or("nothing"))).collect()
}

#[test]
fn rails_lead_to_neighbouring_switches() {
    let plan = |kind, parameters, hosts, rails| {
        let shape = Shape::parse(kind, parameters, Extra { hosts, ..Extra::default() }).expect(kind);
        Plan { rails, adapter: "mlx5".to_owned(), ..Plan::new(shape) }
    };
    let tree = plan("fat-tree", "8,2", None, 2).generate().expect("a tree");
    assert_eq!(numbers(&tree), (32, 12, 64));
    assert_eq!(rails_of(&tree, "node1"), [("mlx5_0", "leaf1"), ("mlx5_1", "leaf2")]);
    assert_eq!(rails_of(&tree, "node16"), [("mlx5_0", "leaf7"), ("mlx5_1", "leaf8")]);
    assert!(rails_of(&tree, "node17").is_empty());
    let some = plan("fat-tree", "8,2", Some(5), 2).generate().expect("a tree");
    assert_eq!((numbers(&some).0, rails_of(&some, "node5").len()), (10, 2));
    // One switch has them all; two hosts back to back have two cables.
    let star = plan("star", "3", None, 4).generate().expect("a star");
    assert_eq!((numbers(&star), rails_of(&star, "node3").len()), ((12, 1, 12), 4));
    let pair = plan("pair", "", None, 2).generate().expect("a pair");
    assert_eq!(rails_of(&pair, "node1"), [("mlx5_0", "node2/mlx5_0"), ("mlx5_1", "node2/mlx5_1")]);
    assert_eq!(pair.nodes[0].description, "node1 mlx5_0");
    for (kind, parameters, rails) in [("pair", "", 0), ("pair", "", 17), ("torus", "1", 2)] {
        assert!(plan(kind, parameters, None, rails).generate().is_err(), "{kind} {rails}");
    }
}

#[test]
fn a_port_of_a_generated_host_has_the_guid_of_its_node() {
    let pair = shape("pair", "", None, None).expect("a pair");
    assert!(pair.nodes.iter().all(|node| node.ports[0].guid == node.guid));
}

#[test]
fn each_has_the_numbers_of_its_kind() {
    type Case = (&'static str, &'static str, Option<u32>, Option<u8>, (usize, usize, usize));
    let cases: &[Case] = &[
        ("pair", "", None, None, (2, 0, 1)),
        ("star", "8", None, None, (8, 1, 8)),
        ("fat-tree", "36,1", None, None, (36, 1, 36)),
        ("fat-tree", "8,2", None, None, (32, 12, 64)),
        ("fat-tree", "36,2", None, None, (648, 54, 1296)),
        ("fat-tree", "36,2", Some(100), None, (100, 24, 208)),
        ("fat-tree", "4,3", None, None, (16, 20, 48)),
        ("fat-tree", "4,4", None, None, (32, 56, 128)),
        ("fat-tree", "36,3", None, None, (11_664, 1620, 34_992)),
        ("fat-tree", "54,3", None, Some(36), (52_488, 2916, 104_976)),
        ("torus", "4x4x4", None, None, (64, 64, 256)),
        ("torus", "4x4", None, Some(3), (48, 16, 80)),
        ("torus", "2x3", None, None, (6, 6, 15)),
        ("torus", "5", None, Some(0), (0, 5, 5)),
        ("mesh", "3x3", None, None, (9, 9, 21)),
        ("dragonfly", "8,4,4", None, None, (1056, 264, 1056 + 33 * 28 + 33 * 32 / 2)),
        ("dragonfly", "4,2,2,5", None, None, (40, 20, 40 + 5 * 6 + 2 * 10)),
        ("dragonfly", "1,1,0", None, None, (1, 1, 1)),
        ("random", "64,5", None, Some(2), (128, 64, 288)),
        ("random", "2,1", None, None, (2, 2, 3)),
    ];
    for (kind, parameters, hosts, per_switch, expected) in cases {
        let topology = shape(kind, parameters, *hosts, *per_switch).expect(kind);
        assert_eq!(numbers(&topology), *expected, "{kind} {parameters}");
        assert!(is_connected(&topology), "{kind} {parameters}");
        topology.check().expect(kind);
    }
}

/// The number of hops between any two leaves of a fat tree follows from its levels.
#[test]
fn a_fat_tree_has_all_its_paths() {
    let topology = shape("fat-tree", "6,3", None, None).expect("a tree");
    // Each leaf reaches radix/2 spines, each of them radix/2 cores; every core reaches every pod.
    let cores: Vec<u32> = (0..topology.nodes.len() as u32)
        .filter(|place| topology.nodes[*place as usize].name.starts_with("core"))
        .collect();
    assert_eq!(cores.len(), 9);
    for core in cores {
        let pods: std::collections::BTreeSet<usize> = topology
            .cables
            .iter()
            .filter(|cable| cable.b.node == core)
            .map(|cable| {
                let spine = &topology.nodes[cable.a.node as usize].name;
                (spine.trim_start_matches("spine").parse::<usize>().expect("a number") - 1) / 3
            })
            .collect();
        assert_eq!(pods.len(), 6);
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_mend() {
    type Case = (&'static str, &'static str, Option<u32>, Option<u8>, &'static str);
    let cases: &[Case] = &[
        ("fat-three", "36,2", None, None, "there is no generator"),
        ("fat-tree", "36", None, None, "does not take"),
        ("fat-tree", "36,2,1", None, None, "does not take"),
        ("fat-tree", "x,2", None, None, "does not take"),
        ("fat-tree", "300,2", None, None, "does not take"),
        ("fat-tree", "35,2", None, None, "odd radix"),
        ("fat-tree", "0,2", None, None, "radix 0"),
        ("fat-tree", "36,0", None, None, "0 levels"),
        ("fat-tree", "36,4", None, None, "nodes"),
        ("fat-tree", "254,8", None, None, "nodes"),
        ("fat-tree", "36,2", Some(649), None, "649 hosts"),
        ("fat-tree", "36,2", Some(0), None, "0 hosts"),
        ("fat-tree", "36,2", None, Some(36), "36 hosts at a leaf"),
        ("torus", "4x4", Some(3), None, "number of hosts"),
        ("torus", "", None, None, "does not take"),
        ("torus", "0x4", None, None, "a grid of 0x4"),
        ("torus", "4000000000x4000000000", None, None, "a grid"),
        ("torus", "4x4", None, Some(255), "ports"),
        ("star", "0", None, None, "without hosts"),
        ("star", "255", None, None, "255 ports"),
        ("star", "4", None, Some(4), "hosts a switch"),
        ("dragonfly", "4,2", None, None, "does not take"),
        ("dragonfly", "4,2,2,10", None, None, "10 groups"),
        ("dragonfly", "4294967295,2,4294967295", None, None, "a dragonfly"),
        ("random", "5,5", None, None, "5 switches"),
        ("random", "5,3", None, None, "5 switches"),
        ("random", "70000,4", None, Some(9), "nodes"),
    ];
    for (kind, parameters, hosts, per_switch, words) in cases {
        let error = shape(kind, parameters, *hosts, *per_switch).expect_err(&format!("{kind} {parameters}"));
        assert!(error.to_string().contains(words), "{kind} {parameters}: {error}");
        assert!(!error.mend.is_empty());
    }
}

#[test]
fn lots_are_the_same_for_the_same_seed() {
    let draw = |seed: &str| shape("random", &format!("20,4,{seed}"), None, None).expect("a network");
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7").cables, draw("8").cables);
}

proptest! {
    #[test]
    fn any_parameters_are_survived(kind in 0usize..7, text in "[0-9]{1,3}[x,][0-9]{1,2}([x,][0-9]{1,2})?",
                                   hosts: Option<u16>, per_switch: Option<u8>) {
        let name = parse::KINDS[kind].0;
        if let Ok(topology) = shape(name, &text, hosts.map(u32::from), per_switch) {
            prop_assert!(topology.check().is_ok());
        }
    }
}

#[test]
fn a_shape_names_its_hosts() {
    for (hosts_per_switch, words) in [(None, "torus 4x4, 1 host a switch"), (Some(2), "torus 4x4, 2 hosts a switch")] {
        let shape = Shape::parse("torus", "4x4", Extra { hosts: None, hosts_per_switch }).expect("a shape");
        assert_eq!(shape.to_string(), words);
    }
}
