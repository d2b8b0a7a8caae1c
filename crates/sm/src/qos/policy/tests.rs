//! Tests of policies from the manual, of queries, and of mistakes.

use proptest::prelude::*;
use weft_wire::mad::subn::{NodeDescription, NodeInfo, NodeType, PortInfo};

use super::*;
use crate::options::Options;
use crate::partition::{self, Plan};
use crate::subnet::{Node, NodeIx, Port, PortIx, Subnet};

/// Builds adapters with PortGUIDs 0x11, 0x21, 0x31 ...
fn subnet(hosts: u64) -> Subnet {
    let mut subnet = Subnet::default();
    for host in 1..=hosts {
        let info = NodeInfo { node_type: NodeType::CA, num_ports: 1, partition_cap: 32, ..NodeInfo::default() };
        let guid = host * 0x10 + 1;
        let port = Port { guid, info: PortInfo { local_port_num: 1, ..PortInfo::default() }, ..Port::default() };
        let at = PortIx { node: NodeIx(subnet.nodes.len() as u32), port: 1 };
        subnet.by_port_guid.insert(guid, at);
        let description = NodeDescription::new(&format!("vs{host} HCA-1"));
        let ports = vec![Port::default(), port];
        subnet.nodes.push(Some(Node { info, description, ports, switch: None, route: Default::default() }));
    }
    subnet.own = Some(PortIx { node: NodeIx(0), port: 1 });
    subnet
}

fn bound(text: &str) -> Bound {
    let (policy, diagnostics) = parse(text, "p");
    let policy = policy.unwrap_or_else(|| panic!("{diagnostics:?}"));
    let subnet = subnet(100);
    let (config, _) = partition::parse("Default=0x7fff : ALL=full ; Part1=0x1234 : 0x31, 0x41 ;", "f");
    policy.bind(&subnet, &Plan::new(&config, &subnet, &Options::default(), None))
}

fn said(text: &str) -> Vec<String> {
    parse(text, "p").1.iter().map(ToString::to_string).collect()
}

const FULL: &str = "
port-groups
    port-group # using port GUIDs
        name: Storage
        use: SRP Targets
        port-guid: 0x11, 0x51-0x61
        port-guid: 0x71
    end-port-group
    port-group
        name: Virtual Servers
        port-name: vs1 HCA-1/P1, vs2 HCA-1/P1
    end-port-group
    port-group
        name: Partitions
        partition: Part1
        pkey: 0x9234
    end-port-group
    port-group
        name: SM
        node-type: SELF, Router
    end-port-group
end-port-groups

qos-setup
    vlarb-tables
        vlarb-scope
            group: Storage
            vlarb-high: 0:255,1:127
        end-vlarb-scope
    end-vlarb-tables
end-qos-setup

qos-levels
    qos-level
        name: DEFAULT
        use: default QoS Level
        sl: 0
    end-qos-level
    qos-level
        name: WholeSet
        sl: 1
        mtu-limit: 4
        rate-limit: 5
        pkey: 0x1234
        packet-life: 8
    end-qos-level
    qos-level
        name: Three
        sl: 3
    end-qos-level
end-qos-levels

qos-match-rules
    qos-match-rule
        use: by QoS class
        qos-class: 7-9,11
        qos-level-name: wholeset
    end-qos-match-rule
    qos-match-rule
        use: Storage targets
        destination: Storage
        service-id: 0x10000000000001, 0x10000000000008-0x10000000000FFF
        qos-level-name: WholeSet
    end-qos-match-rule
    qos-match-rule
        source: Partitions
        destination: Virtual Servers
        qos-level-name: Three
    end-qos-match-rule
    qos-match-rule
        pkey: 0x0F00-0x0FFF
        qos-level-name: Three
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    sdp, port-num 10000-20000 : 5
    any, source-target-port-guid 0x81 : 6
    ipoib : 4
end-qos-ulps
";

#[test]
fn the_manuals_policy_is_read_and_matches() {
    assert_eq!(said(FULL).len(), 1, "{:?}", said(FULL));
    let bound = bound(FULL);
    let sl = |question: Question| bound.level_for(&question).and_then(|level| level.sl);
    let between = |source, destination| Question { source, destination, ..Question::default() };
    assert_eq!(sl(Question { qos_class: Some(8), ..between(0x91, 0xa1) }), Some(1));
    assert_eq!(sl(Question { qos_class: Some(10), ..between(0x91, 0xa1) }), Some(0));
    assert_eq!(sl(Question { service_id: Some(0x10_0000_0000_0009), ..between(0x91, 0x61) }), Some(1));
    assert_eq!(sl(Question { service_id: Some(0x10_0000_0000_0009), ..between(0x61, 0x91) }), Some(0));
    assert_eq!(
        (sl(between(0x41, 0x21)), sl(between(0x41, 0x31)), sl(between(0x21, 0x41))),
        (Some(3), Some(0), Some(0))
    );
    assert_eq!(sl(Question { pkey: Some(0x8f01), ..between(0x91, 0xa1) }), Some(3));
    assert_eq!(sl(Question { pkey: Some(0xffff), ..between(0x91, 0xa1) }), Some(4));
    assert_eq!(sl(Question { service_id: Some(0x1_0000 + 10_001), ..between(0x91, 0xa1) }), Some(5));
    assert_eq!(
        (sl(between(0x81, 0xa1)), sl(between(0xa1, 0x81)), sl(between(0xa1, 0x91))),
        (Some(6), Some(6), Some(0))
    );
    let whole = bound.policy().levels[1].clone();
    assert_eq!((whole.mtu_limit, whole.rate_limit, whole.packet_life), (Some(4), Some(5), Some(8)));
    assert_eq!(whole.pkeys, [(0x1234, 0x1234)]);
}

#[test]
fn short_rules_alone_are_a_policy() {
    let bound = bound(
        "qos-ulps\n default : 0 #default SL\n sdp : 1\n rds : 2\n iser, port-num 900 : 3\n iSER : 4\n \
         any, service-id 0x6234 : 6\n any, pkey 0x0ABC : 7\n srp, target-port-guid 0x11-0x21 : 5\n \
         any, source-port-guid 0x31 : 8\nend-qos-ulps\n",
    );
    let sl = |question: Question| bound.level_for(&question).and_then(|level| level.sl);
    let service = |id| Question { service_id: Some(id), ..Question::default() };
    assert_eq!([sl(service(0x1_0007)), sl(service(0x106_48ca)), sl(service(0x106_0384))], [Some(1), Some(2), Some(3)]);
    assert_eq!([sl(service(0x106_0cbc)), sl(service(0x6234)), sl(service(1))], [Some(4), Some(6), Some(0)]);
    assert_eq!(sl(Question { pkey: Some(0x8abc), ..Question::default() }), Some(7));
    assert_eq!(sl(Question { destination: 0x21, ..Question::default() }), Some(5));
    assert_eq!(sl(Question { source: 0x31, ..Question::default() }), Some(8));
}

#[test]
fn mistakes_are_all_said_and_leave_no_policy() {
    let text = "qos-levels\n qos-level\n name: A\n sl: 16\n mtu: 3\n end-qos-level\nend-qos-levels\n\
                qos-match-rules\n qos-match-rule\n source: Nobody\n qos-level-name: B\n end-qos-match-rule\nend-qos-match-rules\n\
                qos-ulp\nqos-ulps\n default : x\n smtp : 3\n";
    assert_eq!(parse(text, "p").0, None);
    let said = said(text);
    for (line, words) in [
        ("p:4:1: error", "16 is above 15"),
        ("p:5:1: error", "a qos-level has no mtu"),
        ("p:6:1: error", "the level has no sl"),
        ("p:9: error", "no port-group is called Nobody"),
        ("p:9: error", "no qos-level is called B"),
        ("p:14:1: error", "qos-ulp opens no section"),
        ("p:16:1: error", "x is not a number"),
        ("p:17:1: error", "smtp is no rule"),
        ("p:17: error", "qos-ulps has no end"),
        ("p: error", "there is no default level"),
    ] {
        assert!(
            said.iter().any(|diagnostic| diagnostic.starts_with(line) && diagnostic.contains(words)),
            "{line} {words}: {said:#?}"
        );
    }
}

#[test]
fn a_policy_is_held_against_the_partitions() {
    let (policy, _) = parse("qos-ulps\ndefault:0\nany, pkey 0x77 : 1\nipoib : 2\nend-qos-ulps", "p");
    let plan = Plan::new(&partition::Config::Absent, &subnet(2), &Options::default(), None);
    let warnings = policy.expect("a policy").warnings(&plan);
    assert_eq!(
        warnings,
        [
            "line 3: no partition has a P_Key of this rule",
            "line 4: service level 2 is not that of partition Default, 0"
        ]
    );
}

proptest! {
    #[test]
    fn no_file_panics(text in "(\\PC|\n|port-groups\n|port-group\n|end-port-group\n|qos-ulps\n|qos-levels\n|qos-level\n|end-qos-level\n|name: \\PC{0,5}\n|sl: 1\n|default:0\n|any, pkey 1-2:3\n|end-qos-ulps\n){0,60}") {
        let (policy, _) = parse(&text, "p");
        if let Some(policy) = policy {
            let subnet = subnet(3);
            let plan = Plan::new(&partition::Config::Absent, &subnet, &Options::default(), None);
            policy.bind(&subnet, &plan).level_for(&Question { source: 0x11, ..Question::default() });
        }
    }
}
