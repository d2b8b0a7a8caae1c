//! Runs the checks on generated fabrics with the tables of the manager's own routing engines: a healthy fabric has no
//! findings, and each injected fault is reported.

use weft_diags::ibnet::{Kind, PortRef};
use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::topology::{NodeKind, Topology};
use weft_sm::Sequential;
use weft_sm::graph::Graph;
use weft_sm::routing::{self, Request, RoutingOptions};
use weft_sm::tables::{Lanes, Tables};

use super::finding::Section;
use super::levels::{self, Levels};
use super::net::Net;
use super::survey::{Manager, Survey};
use super::tests::node;
use super::{balance, credits, identity, links, managers, routing as routes};

/// A fabric: the generator, its parameters, the number of hosts or of hosts per switch if not the default, and the LMC.
type Case = (&'static str, &'static str, Option<u32>, Option<u8>, u8);

const CASES: &[Case] = &[
    ("pair", "", None, None, 0),
    ("star", "1", None, None, 0),
    ("star", "20", None, None, 2),
    ("fat-tree", "4,2", None, None, 0),
    ("fat-tree", "8,2", None, None, 1),
    ("fat-tree", "8,3", None, None, 0),
    ("fat-tree", "8,3", Some(50), None, 0),
    ("fat-tree", "4,4", None, None, 0),
    ("fat-tree", "12,2", Some(30), Some(5), 0),
    ("torus", "5", None, None, 0),
    ("torus", "4x4", None, None, 0),
    ("torus", "6x6", None, None, 0),
    ("torus", "4x4x4", None, None, 0),
    ("torus", "3x3x3", None, Some(2), 1),
    ("mesh", "7", None, None, 0),
    ("mesh", "6x5", None, None, 0),
    ("mesh", "2x2x2x2", None, Some(2), 0),
    ("dragonfly", "2,2,1", None, None, 0),
    ("dragonfly", "4,2,2", None, None, 0),
    ("random", "10,4,1", None, None, 0),
    ("random", "20,3,5", None, Some(3), 0),
    ("random", "30,2,9", None, None, 0),
];

/// More and larger fabrics, which take a minute without optimisation; run with `WEFT_ALL`.
const LARGE: &[Case] = &[
    ("fat-tree", "12,3", None, None, 0),
    ("fat-tree", "36,2", Some(324), None, 0),
    ("torus", "8x8", None, None, 0),
    ("torus", "3x3x3x3", None, None, 0),
    ("mesh", "4x4x4", None, None, 2),
    ("dragonfly", "6,3,3", None, None, 0),
    ("random", "40,6,2", None, Some(4), 0),
    ("random", "64,8,3", None, Some(8), 0),
];

fn topology((kind, parameters, hosts, hosts_per_switch, _): Case) -> Topology {
    let extra = Extra { hosts, hosts_per_switch };
    Plan::new(Shape::parse(kind, parameters, extra).expect(kind)).generate().expect(kind)
}

/// The complete survey of a fabric, with the tables of the engine that the manager chooses.
fn survey(case: Case) -> (Survey, Tables) {
    let (topology, lmc) = (topology(case), case.4);
    let mut survey = Survey::default();
    let mut lid = 1;
    for at in &topology.nodes {
        let kind = Kind(at.kind.node_type());
        let lmc = if at.kind == NodeKind::Switch { 0 } else { lmc };
        lid = (lid + (1 << lmc) - 1) >> lmc << lmc;
        let index = survey.fabric.add(node(kind, at.guid, at.port_count(), lid, &at.name));
        survey.fabric.node_mut(index).ports_mut().for_each(|port| {
            port.lmc = lmc;
            port.info.0[37] = 4 << 4;
        });
        lid += 1 << lmc;
        if at.kind == NodeKind::Switch {
            survey.lfts.insert(index, Vec::new());
        } else {
            survey.pkeys.insert(PortRef { node: index, port: 1 }, vec![0xffff]);
        }
    }
    for cable in &topology.cables {
        let [a, b] = [cable.a, cable.b].map(|end| PortRef { node: end.node as usize, port: end.port });
        survey.fabric.link(a, b);
    }
    // Ports without a cable are down and polling.
    let free = survey.fabric.nodes_mut().flat_map(|node| node.ports_mut());
    free.filter(|port| port.num != 0 && port.remote.is_none()).for_each(|port| {
        (port.info.0[32], port.info.0[33]) = (port.info.0[32] & 0xf0 | 1, 2 << 4);
    });
    let master = survey.fabric.nodes_of(Kind::CA).map(|(index, _)| index).min().expect("a host");
    let at = PortRef { node: master, port: 1 };
    let sm_lid = survey.fabric.port(at).expect("a port").lid;
    survey.fabric.nodes_mut().flat_map(|node| node.ports_mut()).for_each(|port| {
        port.info.0[18..20].copy_from_slice(&sm_lid.to_be_bytes());
    });
    survey.managers.push(Manager { at, priority: 0, state: 3 });
    let tables = route(&survey);
    let switches = Net::new(&survey).switches;
    switches.into_iter().zip(&tables.lfts).for_each(|(switch, table)| drop(survey.lfts.insert(switch, table.clone())));
    (survey, tables)
}

fn route(survey: &Survey) -> Tables {
    let graph = balance::graph(survey, &Net::new(survey));
    if graph.switches.is_empty() {
        return Tables::default();
    }
    let options = RoutingOptions::default();
    let engine = routing::engine("auto").expect("auto");
    (engine.run)(&Request::new(&graph, &options, &Sequential)).expect("tables")
}

/// The service levels of the tables, with the SLtoVL maps filled in.
fn with_levels(survey: &mut Survey, tables: &Tables) -> Levels {
    let graph = balance::graph(survey, &Net::new(survey));
    let row = |from: &weft_sm::graph::End| {
        let mut row = vec![u8::MAX; usize::from(graph.lid_top()) + 1];
        for to in &graph.ends {
            let level = |lid| tables.service_level(from.switch, to.switch, lid).unwrap_or(0);
            to.lids().for_each(|lid| row[usize::from(lid)] = level(lid));
        }
        (from.lid, row)
    };
    let levels = graph.ends.iter().map(row).collect();
    let switches = Net::new(survey).switches;
    for (place, switch) in graph.switches.iter().enumerate() {
        for (into, out) in pairs(&graph, place) {
            let lane = |level| match &tables.lanes {
                Lanes::Any => 0,
                _ => tables.lane(place as u32, switch.ports.len(), into, out, level),
            };
            let row = std::array::from_fn(|pair| lane(2 * pair as u8) << 4 | lane(2 * pair as u8 + 1));
            survey.lanes.insert((switches[place], into, out), row);
        }
    }
    Levels::Told(levels::Table { levels, ..levels::Table::default() })
}

fn pairs(graph: &Graph, place: usize) -> Vec<(u8, u8)> {
    let ports = 1..graph.switches[place].ports.len() as u8;
    ports.clone().flat_map(|into| ports.clone().map(move |out| (into, out))).filter(|(into, out)| into != out).collect()
}

/// The findings of all checks, as text.
fn findings(survey: &mut Survey, tables: &Tables) -> Vec<String> {
    let levels = credits::lanes_matter(survey, &Net::new(survey)).then(|| with_levels(survey, tables));
    let net = Net::new(survey);
    let sections: [Section; 8] = [
        identity::check(survey),
        links::rates(survey),
        managers::managers(survey),
        managers::partitions(survey),
        routes::reach(survey, &net),
        balance::check(survey, &net),
        credits::check(survey, &net, levels.as_ref()),
        managers::groups(survey),
    ];
    let worse = |finding: &&super::finding::Finding| finding.severity > super::Severity::Note;
    let told = sections.iter().flat_map(|section| &section.findings).filter(worse);
    told.map(|finding| finding.text.clone()).collect()
}

fn cases() -> impl Iterator<Item = Case> {
    let large = if std::env::var_os("WEFT_ALL").is_some() { LARGE } else { &[] };
    CASES.iter().chain(large).copied()
}

#[test]
fn nothing_is_found_on_a_healthy_fabric() {
    for case in cases() {
        let (mut survey, tables) = survey(case);
        let found = findings(&mut survey, &tables);
        assert!(found.is_empty(), "{case:?}: {found:#?}");
    }
}

/// A switch with other switches behind it, a host at another switch, and the port towards that host.
fn far_host(survey: &Survey) -> Option<(usize, u16, u8)> {
    let ends = survey.ends();
    survey.lfts.iter().find_map(|(switch, table)| {
        let (lid, port) = ends.iter().find_map(|(lid, end)| {
            let port = *table.get(usize::from(*lid))?;
            let next = survey.fabric.port(PortRef { node: *switch, port })?.remote?;
            let is_far = survey.fabric.node(next.node).is_switch() && !survey.fabric.node(end.node).is_switch();
            is_far.then_some((*lid, port))
        })?;
        Some((*switch, lid, port))
    })
}

#[test]
fn a_wrong_entry_of_a_table_is_named() {
    for case in cases() {
        let (mut survey, tables) = survey(case);
        let Some((switch, lid, port)) = far_host(&survey) else { continue };
        let name = survey.fabric.node(switch).name();
        survey.lfts.get_mut(&switch).expect("a table")[usize::from(lid)] = super::net::NOWHERE;
        let found = findings(&mut survey, &tables);
        let said = format!("is not reached from {name}: no route");
        assert!(
            found.iter().any(|text| text.starts_with(&format!("LID {lid} ")) && text.contains(&said)),
            "{case:?}: {found:#?}"
        );
        // Routes packets back to the switch that they came from.
        let next = survey.fabric.port(PortRef { node: switch, port }).and_then(|p| p.remote).expect("a switch");
        survey.lfts.get_mut(&switch).expect("a table")[usize::from(lid)] = port;
        let Some(table) = survey.lfts.get_mut(&next.node) else { continue };
        table[usize::from(lid)] = next.port;
        let found = findings(&mut survey, &tables);
        let said = |text: &String| text.starts_with(&format!("LID {lid} ")) && text.contains("packets go round");
        assert!(found.iter().any(said), "{case:?}: {found:#?}");
    }
}

#[test]
fn routes_that_share_one_link_are_named() {
    let (mut survey, tables) = survey(("fat-tree", "8,2", None, None, 0));
    let (switch, _, port) = far_host(&survey).expect("a leaf");
    let ends = survey.ends();
    let fabric = &survey.fabric;
    let is_up = |port| {
        fabric
            .port(PortRef { node: switch, port })
            .and_then(|p| p.remote)
            .is_some_and(|far| fabric.node(far.node).is_switch())
    };
    let table = survey.lfts.get_mut(&switch).expect("a table");
    for (lid, end) in ends {
        let entry = &mut table[usize::from(lid)];
        if !fabric.node(end.node).is_switch() && is_up(*entry) {
            *entry = port;
        }
    }
    let name = survey.label(PortRef { node: switch, port });
    let found = findings(&mut survey, &tables);
    assert!(
        matches!(&found[..], [one] if one.starts_with(&format!("{name}: 112 paths")) && one.ends_with("more than 28")),
        "{found:#?}"
    );
}

#[test]
fn lanes_that_are_all_one_let_a_ring_wait_for_itself() {
    for case in [("torus", "5", None, None, 0), ("torus", "6x6", None, None, 0), ("dragonfly", "4,2,2", None, None, 0)]
    {
        let (mut survey, tables) = survey(case);
        let levels = with_levels(&mut survey, &tables);
        survey.lanes.values_mut().for_each(|row| *row = [0; 8]);
        let section = credits::check(&survey, &Net::new(&survey), Some(&levels));
        let said = section.findings.iter().any(|finding| finding.text.contains("links wait for each other"));
        assert!(said, "{case:?}: {section:?}");
    }
}
