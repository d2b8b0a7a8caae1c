//! Compares partitions with OpenSM's: it wrote the tables below for the same files, on a simulated fabric of two
//! leaves, two spines and six hosts.

use proptest::prelude::*;
use weft_wire::mad::subn::{NodeDescription, NodeInfo, NodeType, PortInfo, SwitchInfo};

use super::*;
use crate::options::{Level, Options, PartEnforce};
use crate::subnet::{Node, NodeIx, Port, PortIx, Subnet, SwitchState};

/// Returns the PortGUID of a host, numbered from 1.
fn host(number: u64) -> u64 {
    0x0002_c903_0a00_0001 + (number - 1) * 0x10
}

/// Port 0 of leaf 1.
const LEAF: u64 = 0x0002_c903_0010_0000;

/// Builds two leaves with three hosts each; the manager is on host 1.
fn subnet() -> Subnet {
    let mut subnet = Subnet::default();
    for leaf in 0..2 {
        let info = NodeInfo { node_type: NodeType::SWITCH, num_ports: 8, partition_cap: 8, ..NodeInfo::default() };
        let state = SwitchInfo { partition_enforcement_cap: 64, enhanced_port0: true, ..SwitchInfo::default() };
        let switch = Some(SwitchState { info: state, ..SwitchState::default() });
        add(&mut subnet, info, LEAF + leaf, &format!("leaf{}", leaf + 1), switch, 9);
    }
    for number in 1..=6 {
        let info = NodeInfo { node_type: NodeType::CA, num_ports: 1, partition_cap: 64, ..NodeInfo::default() };
        add(&mut subnet, info, host(number), &format!("h{number}"), None, 2);
        let (leaf, port) = (NodeIx((number as u32 - 1) / 3), (number as u8 - 1) % 3 + 1);
        let (up, down) = (PortIx { node: leaf, port }, PortIx { node: NodeIx(number as u32 + 1), port: 1 });
        at(&mut subnet, up).neighbor = Some(down);
        at(&mut subnet, down).neighbor = Some(up);
    }
    subnet.own = Some(PortIx { node: NodeIx(2), port: 1 });
    subnet
}

fn at(subnet: &mut Subnet, port: PortIx) -> &mut Port {
    let node = subnet.nodes[port.node.0 as usize].as_mut().expect("a node");
    &mut node.ports[usize::from(port.port)]
}

fn add(subnet: &mut Subnet, info: NodeInfo, guid: u64, name: &str, switch: Option<SwitchState>, ports: usize) {
    let node = NodeIx(subnet.nodes.len() as u32);
    let info = NodeInfo { node_guid: guid & !0xf, port_guid: guid, ..info };
    let port = Port { pkeys: vec![0xffff], info: PortInfo { mtu_cap: 4, ..PortInfo::default() }, ..Port::default() };
    let mut ports = vec![port; ports];
    let end = if switch.is_some() { 0 } else { 1 };
    ports[end].guid = guid;
    ports[end].info.local_port_num = end as u8;
    subnet.by_guid.insert(info.node_guid, node);
    subnet.by_port_guid.insert(guid, PortIx { node, port: end as u8 });
    let description = NodeDescription::new(name);
    subnet.nodes.push(Some(Node { info, description, ports, switch, route: Default::default() }));
}

fn said(text: &str) -> Vec<String> {
    parse(text, "p").1.iter().map(ToString::to_string).collect()
}

fn plan(text: &str) -> Plan {
    plan_with(text, |_| {})
}

fn plan_with(text: &str, set: impl FnOnce(&mut Options)) -> Plan {
    let mut options = Options::default();
    set(&mut options);
    Plan::new(&parse(text, "p").0, &subnet(), &options, None)
}

const GUIDE: &str = "
Default=0x7fff, rate=3, mtu=4, scope=2, defmember=full:
        ALL, ALL_SWITCHES=full;
Default=0x7fff, ipoib, rate=3, mtu=4, scope=2:
        mgid=ff12:401b::ffff:ffff       # IPv4 Broadcast address
        mgid=ff12:401b::1               # IPv4 All Hosts group
        mgid=ff12:601b::1:3             # IPv6 Multicast Link Local Name Resolution group
        ALL=full, ALL_SWITCHES=full;
ib0_2=0x0002, rate=7, mtu=4, scope=2, defmember=full:
        ALL, ALL_SWITCHES=full;
ib0_2=0x0002, ipoib, rate=7, mtu=4, scope=2:
        mgid=ff12:401b::ffff:ffff
        ALL=full, ALL_SWITCHES=full;
part3=0x0003, defmember=limited : 0x2c9030a000001=full, 0x2c9030a000011, 0x2c9030a000021=both ;
";

#[test]
fn the_guides_file_makes_opensms_tables() {
    assert_eq!(said(GUIDE), Vec::<String>::new());
    let plan = plan(GUIDE);
    assert_eq!(plan.table(host(1)), [0xffff, 0x8002, 0x8003]);
    assert_eq!(plan.table(host(2)), [0xffff, 0x8002, 0x0003]);
    assert_eq!(plan.table(host(3)), [0xffff, 0x8002, 0x8003]);
    assert_eq!(plan.table(host(4)), [0xffff, 0x8002]);
    assert_eq!(plan.table(LEAF), [0xffff, 0x8002]);
    let enforced = &plan.enforced[&PortIx { node: NodeIx(0), port: 2 }];
    assert_eq!(
        (enforced.table.as_slice(), enforced.inbound, enforced.outbound),
        (&[0xffff, 0x8002, 3][..], true, true)
    );
    assert_eq!(plan.enforced.len(), 6);
    assert_eq!((plan.shared(host(1), host(2)), plan.shared(host(5), LEAF)), (Some(0xffff), Some(0xffff)));
    let groups: Vec<_> = plan.groups.iter().map(|group| (group.mgid[4..6].to_vec(), group.rate, group.qkey)).collect();
    let (default, second) = (vec![0xff, 0xff], vec![0x80, 2]);
    assert_eq!(
        groups,
        [(second, 7, 0xb1b), (default.clone(), 3, 0xb1b), (default.clone(), 3, 0xb1b), (default, 3, 0xb1b)]
    );
}

/// Tables that OpenSM 3.3.23 wrote for these files, on ports that all began with the default key: on hosts 1 (its own),
/// 2 and 3, on port 0 of the first leaf, on port 2 of that leaf, which faces host 2.
const WRITTEN: &[(&str, bool, [&[u16]; 5])] = &[
    (
        "Default=0x7fff : ALL=full ;\nX=0x5 : ALL=full, ALL_SW=limi ; X=5 : 0x2c9030a000011=limited, S=full;",
        false,
        [&[0xffff, 0x8005], &[0xffff, 5], &[0xffff, 0x8005], &[0xffff, 5], &[0xffff, 5]],
    ),
    (
        "Default=0x7fff:ALL=full; A : ALL=full; 2 : ALL=full; B : ALL=full;",
        false,
        [&[0xffff, 0x8001, 0x8002, 0x8003]; 5],
    ),
    ("Default=0x7fff : ALL=full ; P=0x9, indx0 : ALL=full ;", false, [&[0x8009, 0xffff]; 5]),
    (
        BOTH,
        false,
        [
            &[0xffff, 0x8300, 0x8009],
            &[0xffff, 0x300, 0x8009],
            &[0xffff, 0x8009],
            &[0xffff, 0x8009],
            &[0xffff, 0x300, 0x8009],
        ],
    ),
    (
        BOTH,
        true,
        [
            &[0xffff, 0x300, 0x8300, 9, 0x8009, 0x7fff],
            &[0xffff, 0x300, 9, 0x8009, 0x7fff],
            &[0xffff, 9, 0x8009, 0x7fff],
            &[0xffff, 9, 0x8009, 0x7fff],
            &[0xffff, 0x300, 0x8009],
        ],
    ),
    (
        "storage=0x10 : ALL_CAS=full ;",
        false,
        [&[0xffff, 0x8010], &[0x7fff, 0x8010], &[0x7fff, 0x8010], &[0x7fff], &[0x7fff, 0x8010]],
    ),
    (
        MANY,
        false,
        [
            &[0xffff, 0x8200, 0x8001, 0x0102, 0x8005, 0x8006, 0x8007, 0x8008, 0x8009],
            &[0xffff, 0x8200, 0x8001, 0xf001, 0x0102, 0x8005, 0x8006, 0x8007, 0x8008, 0x8009],
            &[0xffff, 0x8200, 0x8001, 0x0102, 0x8005, 0x8006, 0x8007, 0x8008, 0x8009],
            &[0xffff, 0x8200, 0x8001, 0x0102, 0x8005, 0x8006, 0x8007, 0x8008],
            &[0xffff, 0x8200, 0x8001, 0xf001, 0x0102, 0x8005, 0x8006, 0x8007, 0x8008, 0x8009],
        ],
    ),
    ("A=0x1 : ALL ; B : nobody ;", false, [&[0xffff]; 5]),
];
const BOTH: &str = "Default=0x7fff : ALL=both ; P=0x9 : ALL=both ; Q=0x300 : 0x2c9030a000011, SELF=both;";
const MANY: &str = "Default=0x7fff : ALL=full ;\nP1=1 : ALL=full ; P2=0x200 : ALL=full; P3=0x102: ALL; \
                    P4=0x7001: 0x2c9030a000011=full; P5=5:ALL=full;P6=6:ALL=full;P7=7:ALL=full;P8=8:ALL=full;P9=9:ALL=full;";

#[test]
fn tables_are_those_that_opensm_wrote() {
    for (text, both, written) in WRITTEN {
        let plan = plan_with(text, |options| options.partitions.allow_both_pkeys = *both);
        let leaf_port = &plan.enforced[&PortIx { node: NodeIx(0), port: 2 }].table;
        let tables = [plan.table(host(1)), plan.table(host(2)), plan.table(host(3)), plan.table(LEAF), leaf_port];
        assert_eq!(tables, *written, "{text}");
    }
}

#[test]
fn without_a_default_rule_all_but_the_manager_are_limited() {
    let text = "storage=0x10 : ALL_CAS=full ;";
    let plan = plan(text);
    assert_eq!((plan.table(host(1)), plan.table(host(2))), (&[0xffff, 0x8010][..], &[0x7fff, 0x8010][..]));
    assert_eq!(plan.table(LEAF), [0x7fff]);
    assert!(said(text).iter().any(|diagnostic| diagnostic.contains("no rule for the default partition")));
    let report = check(&Config::Absent, &parse(text, "p").0, &subnet(), &Options::default());
    assert!(report.warnings.iter().any(|warning| warning.contains("no rule for the default partition")), "{report:?}");
    let limited = "partition Default (0x7fff): 7 ports would be limited members from now on";
    assert!(report.changes.iter().any(|change| change.starts_with(limited)), "{report:?}");
}

#[test]
fn without_a_file_or_with_a_broken_one_everybody_is_full() {
    for text in ["", "# nothing\n", "A=0x1 : ALL ; B : nobody ;", "A=x : ALL;", "no colon"] {
        let (config, diagnostics) = parse(text, "p");
        assert_eq!(config, Config::Broken, "{text}");
        assert!(diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Error), "{text}");
        assert_eq!(plan(text).table(host(2)), [0xffff]);
        assert_eq!(plan(text).groups.len(), 1);
    }
    let absent = Plan::new(&Config::Absent, &subnet(), &Options::default(), None);
    assert_eq!((absent.groups[0].mgid, absent.groups[0].rate), (BROADCAST, 3));
}

#[test]
fn the_last_word_counts_and_abbreviations_do_too() {
    let plan =
        plan("Default=0x7fff : ALL=full ;\nX=0x5 : ALL=full, ALL_SW=limi ; X=5 : 0x2c9030a000011=limited, S=full;");
    assert_eq!((plan.table(host(1)), plan.table(host(2))), (&[0xffff, 0x8005][..], &[0xffff, 5][..]));
    assert_eq!((plan.table(host(3)), plan.table(LEAF)), (&[0xffff, 0x8005][..], &[0xffff, 5][..]));
}

#[test]
fn keys_are_made_up_and_kept() {
    let text = "Default=0x7fff:ALL=full; A : ALL=full; 2 : ALL=full; B : ALL=full;";
    let first = plan(text);
    assert_eq!(first.table(host(2)), [0xffff, 0x8001, 0x8002, 0x8003]);
    let names: Vec<_> = first.partitions.iter().map(|partition| (partition.key, partition.name.as_str())).collect();
    assert_eq!(names, [(1, "A"), (2, "0002"), (3, "B"), (0x7fff, "Default")]);
    let again = "Default=0x7fff:ALL=full; B : ALL=full;";
    let second = Plan::new(&parse(again, "p").0, &subnet(), &Options::default(), Some(&first));
    assert_eq!(second.table(host(2)), [0xffff, 0, 0, 0x8003]);
}

#[test]
fn both_memberships_need_the_option() {
    let text = "Default=0x7fff : ALL=both ; P=0x9 : ALL=both ;";
    assert_eq!(plan(text).table(host(2)), [0xffff, 0x8009]);
    let plan = plan_with(text, |options| options.partitions.allow_both_pkeys = true);
    let mut table = plan.table(host(2)).to_vec();
    assert_eq!(table[0], 0xffff);
    table.sort_unstable();
    assert_eq!(table, [9, 0x7fff, 0x8009, 0xffff]);
    let enforced = &plan.enforced[&PortIx { node: NodeIx(0), port: 2 }].table;
    assert!(!enforced.contains(&9) && enforced.contains(&0x8009));
}

#[test]
fn index_0_can_be_given_away() {
    let plan = plan("Default=0x7fff : ALL=full ; P=0x9, indx0 : ALL=full ;");
    assert_eq!(plan.table(host(2)), [0x8009, 0xffff]);
}

#[test]
fn a_key_keeps_its_index_and_none_takes_that_of_another() {
    let mut fabric = subnet();
    let read = |text: &str| parse(text, "p").0;
    let options = Options::default();
    let mut former: Option<Plan> = None;
    let mut step = |text: &str| {
        let plan = Plan::new(&read(text), &fabric, &options, former.as_ref());
        let node = PortIx { node: NodeIx(3), port: 1 };
        at(&mut fabric, node).pkeys = plan.table(host(2)).to_vec();
        let table = plan.table(host(2)).to_vec();
        former = Some(plan);
        table
    };
    assert_eq!(step("Default=0x7fff:ALL=full; A=1:ALL=full; B=2:ALL=full;"), [0xffff, 0x8001, 0x8002]);
    assert_eq!(step("Default=0x7fff:ALL=full; B=2:ALL=full;"), [0xffff, 0, 0x8002]);
    assert_eq!(step("Default=0x7fff:ALL=full; B=2:ALL=full; C=3:ALL=full;"), [0xffff, 0, 0x8002, 0x8003]);
    assert_eq!(step("Default=0x7fff:ALL=full; A=1:ALL=full; B=2:ALL; C=3:ALL=full;"), [0xffff, 0x8001, 2, 0x8003]);
}

#[test]
fn a_full_table_leaves_out_what_comes_last() {
    let text: String = (1..20).map(|key| format!("P{key}={key} : ALL=full ;")).collect();
    let plan = plan(&format!("Default=0x7fff : ALL=full ;{text}"));
    let leaf = &plan.ports[&LEAF];
    assert_eq!((leaf.table.len(), leaf.left_out.len()), (8, 12));
    assert_eq!(leaf.table[0], 0xffff);
}

#[test]
fn enforcement_is_what_the_option_says() {
    for (enforce, inbound, outbound) in
        [(PartEnforce::In, true, false), (PartEnforce::Out, false, true), (PartEnforce::Off, false, false)]
    {
        let plan = plan_with(GUIDE, |options| options.partitions.part_enforce = enforce);
        let port = &plan.enforced[&PortIx { node: NodeIx(0), port: 1 }];
        assert_eq!((port.inbound, port.outbound), (inbound, outbound));
    }
}

#[test]
fn mistakes_are_reported_with_line_column_and_fix() {
    let first =
        |text: &str| said(text).iter().find(|diagnostic| !diagnostic.starts_with("p: ")).cloned().unwrap_or_default();
    assert_eq!(
        first("Default=0x7fff : ALL=fulll ;"),
        "p:1:22: error: no membership is called fulll: it is taken as limited; write full, limited or both"
    );
    assert_eq!(
        first("Default=0x7fff : ALL=full, ALL SWITCHES=full ;"),
        "p:1:28: error: ALL SWITCHES=full is no port; write ALL_SWITCHES"
    );
    assert!(first("A=0x1 : ALL\nB=0x2 : ALL ;").contains("p:2:1: error: B=0x2 : ALL is no port; is a ; missing"));
    assert_eq!(
        first("A=0x1, mtu=9 : ALL ;"),
        "p:1:12: error: mtu cannot be 9; it stays what it was; write a number from 1 to 5"
    );
    assert!(first("A=0x1, ipooib : ALL ;").contains("no flag of a partition is called ipooib"));
    assert!(first("A=0x1, ipoib : mgid=fe80::1\nALL ;").contains("no multicast GID"));
    assert!(
        first("A=0x1, ipoib, rate=7 : mgid=ff12:401b::1,rate=3\nALL ;")
            .contains("its rate 3 is not that of the partition, 7")
    );
    assert!(first("A=0x1, ipoib : mgid=ff12:401b:8002::1\nALL ;").contains("its P_Key 0x8002"));
    assert!(first("A=0x18001 : ALL ;").contains("more than 16 bits"));
    assert!(first("A=0x1 : defmember=full : 0x1, 0x2 ;").contains("behind the colon"));
    assert!(first("A=0x1 : ALL").contains("the last rule has no end"));
    assert!(first("A=0x1 : ALL_VCAS ;").contains("ALL_VCAS is no port"));
}

#[test]
fn a_semicolon_by_itself_ends_no_rule() {
    for text in ["; A=0x1 : ALL ;", "A=0x1 : ALL ; ;", "A=0x1 : ALL\n;", "A=0x1 : ALL,\n SELF\n ;", "A=0x1 :\n ;"] {
        let (config, diagnostics) = parse(text, "p");
        assert_eq!(config, Config::Broken, "{text:?}");
        assert!(
            diagnostics.iter().any(|diagnostic| diagnostic.to_string().contains("a ; stands by itself")),
            "{text:?}: {diagnostics:?}"
        );
    }
    // OpenSM accepts some of these and rejects others.
    let (config, diagnostics) = parse("A=0x1 :\n ALL=full\n ;", "p");
    assert!(config != Config::Broken, "{diagnostics:?}");
    assert!(
        diagnostics.iter().any(|diagnostic| diagnostic.to_string().contains("a ; stands by itself")),
        "{diagnostics:?}"
    );
}

#[test]
fn groups_are_what_the_file_says() {
    let text = "Default=0x7fff,ipoib,scope=2,scope=5,sl=3:\n mgid=ff12:401b::0707,sl=1 # random IPv4 group\n \
                mgid=ff15::1,sl=1,Q_Key=0xDEADBEEF,rate=3,mtu=2,FlowLabel=5,TClass=7,scope=14 # random group\n ALL=full;";
    let plan = plan_with(text, |options| options.qos.qos = true);
    let spelled: Vec<_> = plan.groups.iter().map(|group| std::net::Ipv6Addr::from(group.mgid).to_string()).collect();
    assert_eq!(
        spelled,
        [
            "ff12:401b:ffff::ffff:ffff",
            "ff15:401b:ffff::ffff:ffff",
            "ff12:401b:ffff::707",
            "ff15:401b:ffff::707",
            "ff12::1",
            "ff15::1",
            "ff1e::1"
        ]
    );
    let last = plan.groups[6];
    assert_eq!((last.qkey, last.mtu, last.flow_label, last.tclass, last.sl), (0xdead_beef, 2, 5, 7, 1));
    assert_eq!((last.hop_limit, plan.groups[0].hop_limit, plan.groups[0].sl), (255, 0, 3));
    assert_eq!(plan_with(text, |_| {}).groups[0].sl, 0);
}

#[test]
fn a_report_names_who_could_not_join_and_who_is_not_there() {
    let text = "Default=0x7fff,ipoib,mtu=5 : ALL=full ; P=0x3 : 0x99, 0x0002c9030a000011 , 0x0002c9030a000021 ;";
    let (config, _) = parse(text, "p");
    let report = check(&config, &config, &subnet(), &Options::default());
    assert_eq!(report.changes, Vec::<String>::new());
    let warned = |words: &str| report.warnings.iter().any(|warning| warning.contains(words));
    assert!(warned("MTU 5 of its groups is above that of ports, which could not join: h1 port 1 (0x0002c9030a000001)"));
    assert!(warned("partition P (0x0003): not on this subnet: 0x0000000000000099"), "{report:?}");
    assert!(warned("partition P (0x0003): all members are limited"));
}

proptest! {
    #[test]
    fn no_file_panics(text in "(\\PC|\n|[;:,=#]|(Default|ALL|SELF|mgid|full|0x1|0x7fff|ipoib|ff12:401b::1|both|indx0)){0,200}") {
        let (config, _) = parse(&text, "p");
        let plan = Plan::new(&config, &subnet(), &Options::default(), None);
        for keys in plan.ports.values() {
            prop_assert!(keys.table.len() <= 64);
        }
        check(&Config::Absent, &config, &subnet(), &Options::default());
    }
}

/// Each of these took hours while the parser searched for every mistake, name and member from the start.
#[test]
fn files_of_a_hundred_thousand_words_are_read_in_one_go() {
    const COUNT: usize = 100_000;
    let members = format!("Default=0x7fff : {};", "AL,".repeat(COUNT));
    assert!(said(&members).last().is_some_and(|last| last.contains("more diagnostics are left out")));
    let rules: String = (0..COUNT).map(|n| format!("p{n}:;")).collect();
    assert_eq!(plan(&format!("Default=0x7fff : ALL=full ;\n{rules}")).partitions.len(), 1);
    let groups: String = (0..COUNT).map(|n| format!("mgid=ff12::{:x}:{:x}\n", n >> 16, n & 0xffff)).collect();
    assert_eq!(plan(&format!("Default=0x7fff :\n{groups}ALL=full;")).groups.len(), COUNT);
}
