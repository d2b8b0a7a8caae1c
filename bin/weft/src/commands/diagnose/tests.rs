//! The checks on hand-made fabrics: a ring of switches with one host each.

use weft_diags::ibnet::port::{PHYS_LINK_UP, STATE_ACTIVE};
use weft_diags::ibnet::{Attribute, Kind, Node, Port, PortRef};

use super::finding::{Section, Severity};
use super::levels::{Levels, Table};
use super::net::Net;
use super::survey::{Manager, Survey};
use super::{credits, identity, links, managers, routing};

const SWITCHES: usize = 4;
/// Ports of a switch: to its host, to the next switch, to the previous one.
const HOST: u8 = 1;
const NEXT: u8 = 2;
const BACK: u8 = 3;

fn lid_of_host(i: usize) -> u16 {
    (SWITCHES + i + 1) as u16
}

pub fn node(kind: Kind, guid: u64, ports: u8, lid: u16, name: &str) -> Node {
    let mut info = Attribute::ZERO;
    (info.0[2], info.0[3]) = (kind.0, ports);
    info.set_u64(12, guid);
    let mut node = Node::new(info);
    node.description.0[..name.len()].copy_from_slice(name.as_bytes());
    node.sma_lid = if kind == Kind::SWITCH { lid } else { 0 };
    for num in u8::from(kind != Kind::SWITCH)..=ports {
        let mut port = Port::shell(num);
        (port.guid, port.lid) = (guid + 1000, lid);
        port.info.0[18..20].copy_from_slice(&lid_of_host(0).to_be_bytes());
        (port.info.0[30], port.info.0[31]) = (3, 2);
        (port.info.0[32], port.info.0[33], port.info.0[35]) = (7 << 4 | STATE_ACTIVE, PHYS_LINK_UP << 4, 4 << 4);
        *node.port_or_new(num).unwrap() = port;
    }
    node
}

/// Switches are nodes 0 to 3, their hosts 4 to 7. Every packet goes on to the next switch until it reaches its host's.
fn ring() -> Survey {
    let mut survey = Survey::default();
    for i in 0..SWITCHES {
        survey.fabric.add(node(Kind::SWITCH, i as u64 + 1, 3, i as u16 + 1, &format!("s{i}")));
    }
    for i in 0..SWITCHES {
        survey.fabric.add(node(Kind::CA, i as u64 + 100, 1, lid_of_host(i), &format!("h{i}")));
    }
    for i in 0..SWITCHES {
        let at = |node, port| PortRef { node, port };
        survey.fabric.link(at(i, HOST), at(SWITCHES + i, 1));
        survey.fabric.link(at(i, NEXT), at((i + 1) % SWITCHES, BACK));
        let mut lft = vec![255; 2 * SWITCHES + 1];
        for j in 0..SWITCHES {
            lft[j + 1] = if i == j { 0 } else { NEXT };
            lft[usize::from(lid_of_host(j))] = if i == j { HOST } else { NEXT };
        }
        survey.lfts.insert(i, lft);
        survey.pkeys.insert(at(SWITCHES + i, 1), vec![0xffff]);
    }
    survey.managers.push(Manager { at: PortRef { node: SWITCHES, port: 1 }, priority: 1, state: 3 });
    survey
}

fn reach(survey: &Survey) -> Section {
    routing::reach(survey, &Net::new(survey))
}

fn credits(survey: &Survey, levels: Option<&Levels>) -> Section {
    credits::check(survey, &Net::new(survey), levels)
}

fn worst(section: &Section) -> Option<Severity> {
    section.findings.iter().map(|f| f.severity).max()
}

fn says(section: &Section, words: &str) -> bool {
    section.findings.iter().any(|f| f.text.contains(words))
}

#[test]
fn a_good_fabric_has_no_findings() {
    let survey = ring();
    for section in [
        identity::check(&survey),
        links::rates(&survey),
        reach(&survey),
        managers::managers(&survey),
        managers::partitions(&survey),
        managers::groups(&survey),
    ] {
        assert!(worst(&section).is_none_or(|worst| worst == Severity::Note), "{section:?}");
    }
}

#[test]
fn routes_that_do_not_arrive_are_told() {
    let mut survey = ring();
    survey.lfts.get_mut(&1).unwrap()[usize::from(lid_of_host(3))] = 255;
    assert!(says(&reach(&survey), "not reached from s1: no route"));
    let mut survey = ring();
    survey.lfts.get_mut(&2).unwrap()[usize::from(lid_of_host(3))] = BACK;
    assert!(says(&reach(&survey), "packets go round"));
    let mut survey = ring();
    survey.lfts.get_mut(&1).unwrap()[usize::from(lid_of_host(3))] = HOST;
    assert!(says(&reach(&survey), "s1 sends it to h1 port 1"));
}

/// SLtoVL rows: every service level on the VL of its number, and every service level on VL 0.
const BY_NUMBER: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
const ONE_LANE: [u8; 8] = [0; 8];

fn with_lanes(row: [u8; 8]) -> Survey {
    let mut survey = ring();
    for switch in 0..SWITCHES {
        for (into, out) in [(HOST, NEXT), (BACK, NEXT)] {
            survey.lanes.insert((switch, into, out), row);
        }
    }
    survey
}

/// Levels from subnet administration: paths from each host have their own level.
fn told() -> Levels {
    let hosts = 0..SWITCHES;
    let row = |from: usize| {
        let mut row = vec![u8::MAX; usize::from(lid_of_host(0))];
        row.extend(hosts.clone().map(|_| from as u8));
        (lid_of_host(from), row)
    };
    Levels::Told(Table { levels: hosts.clone().map(row).collect(), ..Table::default() })
}

#[test]
fn links_in_a_ring_wait_for_each_other_unless_service_levels_part_them() {
    let survey = with_lanes(BY_NUMBER);
    assert!(credits::lanes_matter(&survey, &Net::new(&survey)));
    // All paths on one level, whichever, form a cycle.
    for level in [0, 1, 15] {
        assert!(says(&credits(&survey, Some(&Levels::Given(level))), "links wait for each other"), "{level}");
    }
    // No single host's paths go all around the ring.
    let section = credits(&survey, Some(&told()));
    assert!(section.findings.is_empty(), "{section:?}");
    // With the same levels, switches map them to one VL.
    let section = credits(&with_lanes(ONE_LANE), Some(&told()));
    assert!(says(&section, "4 links wait for each other: s"), "{section:?}");
    assert_eq!(worst(&section), Some(Severity::Error));
}

#[test]
fn what_is_not_known_of_levels_is_said() {
    let assumed = Levels::Assumed(0, "subnet administration does not answer".to_owned());
    let section = credits(&with_lanes(BY_NUMBER), Some(&assumed));
    assert!(says(&section, "if all paths are on SL 0") && says(&section, "does not answer"), "{section:?}");
    assert_eq!(worst(&section), Some(Severity::Warning));
    assert!(section.looked_at.contains("SL 0 assumed"), "{section:?}");
}

#[test]
fn where_no_links_wait_in_a_circle_lanes_do_not_matter() {
    // Takes the shorter direction, but never from the last switch to the first.
    let mut survey = ring();
    for i in 0..SWITCHES {
        for j in 0..SWITCHES {
            let port = if i == j {
                HOST
            } else if j > i {
                NEXT
            } else {
                BACK
            };
            survey.lfts.get_mut(&i).unwrap()[usize::from(lid_of_host(j))] = port;
        }
    }
    assert!(!credits::lanes_matter(&survey, &Net::new(&survey)));
    let section = credits(&survey, None);
    assert!(section.findings.is_empty() && section.looked_at.contains("whatever SL"), "{section:?}");
}

#[test]
fn the_way_between_two_ends_is_shown() {
    let survey = ring();
    let (from, to) = (PortRef { node: SWITCHES, port: 1 }, PortRef { node: SWITCHES + 2, port: 1 });
    let (hops, end) = routing::path(&survey, from, lid_of_host(2), to);
    assert_eq!(end, Ok(()));
    let ports: Vec<(usize, u8)> = hops.iter().map(|(out, _)| (out.node, out.port)).collect();
    assert_eq!(ports, [(SWITCHES, 1), (0, NEXT), (1, NEXT), (2, HOST)]);
}

#[test]
fn identities_and_rules_that_contradict_are_told() {
    let mut survey = ring();
    survey.fabric.port_mut(PortRef { node: 5, port: 1 }).unwrap().lid = lid_of_host(0);
    survey.fabric.node_mut(6).description.0[1] = b'0';
    let section = identity::check(&survey);
    assert!(says(&section, "LID 5 is that of") && says(&section, "2 nodes are called \"h0\""), "{section:?}");

    let mut survey = ring();
    survey.managers.push(Manager { at: PortRef { node: 5, port: 1 }, priority: 1, state: 3 });
    assert!(says(&managers::managers(&survey), "2 subnet managers are master"));

    let mut survey = ring();
    survey.pkeys.insert(PortRef { node: 5, port: 1 }, vec![0x8002]);
    assert!(says(&managers::partitions(&survey), "not in the default partition"));
}

#[test]
fn links_below_their_best_and_cables_with_errors_are_told() {
    let mut survey = ring();
    let at = PortRef { node: 0, port: NEXT };
    survey.fabric.port_mut(at).unwrap().info.0[31] = 1;
    assert!(says(&links::rates(&survey), "could be 4X"));
    survey.errors.insert(at, vec![(5, 5), (0, 2)]);
    let section = links::errors(&survey, 1.0);
    assert!(says(&section, "SymbolErrorCounter is 5") && says(&section, "LinkErrorRecoveryCounter grows, by 2"));
}

#[test]
fn groups_that_go_round_or_fall_apart_are_told() {
    let with = |tables: &[(usize, &[u8])]| {
        let mut survey = ring();
        for &(switch, ports) in tables {
            survey.groups.insert(switch, [(0xc000, ports.to_vec())].into());
        }
        managers::groups(&survey)
    };
    let all: Vec<(usize, &[u8])> = (0..SWITCHES).map(|i| (i, &[HOST, NEXT, BACK][..])).collect();
    assert!(says(&with(&all), "goes round"));
    assert!(says(&with(&[(0, &[HOST]), (2, &[HOST])]), "2 parts"));
    assert!(says(&with(&[(0, &[NEXT]), (1, &[HOST])]), "and not back"));
    assert!(with(&[(0, &[HOST, NEXT]), (1, &[HOST, BACK])]).findings.is_empty());
}

#[test]
fn a_host_is_named_with_or_without_its_adapter() {
    let mut survey = ring();
    let text = b"node1 weft0";
    survey.fabric.node_mut(SWITCHES).description.0[..text.len()].copy_from_slice(text);
    let end = |name: &str| super::end_of(&survey, name).map(|(_, at)| at.node);
    assert_eq!((end("node1"), end("node1 weft0"), end("h1")), (Ok(SWITCHES), Ok(SWITCHES), Ok(SWITCHES + 1)));
    assert!(end("node").unwrap_err().contains("\"node\"") && end("").is_err());
}
