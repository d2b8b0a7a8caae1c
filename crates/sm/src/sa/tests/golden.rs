//! Tables of OpenSM as printed by saquery.

use weft_wire::mad::notice::InformInfo;
use weft_wire::mad::sa::{
    ComponentMask, GuidInfoRecord, LinearForwardingTableRecord, LinkRecord, MulticastForwardingTableRecord, NodeRecord,
    PKeyTableRecord, PathRecord, PortInfoRecord, ServiceRecord, SlToVlTableRecord, SmInfoRecord, SwitchInfoRecord,
    VlArbitrationTableRecord,
};
use weft_wire::mad::subn::{CapabilityMask, SmState};
use weft_wire::mad::{ClassPortInfo, Method, Rate, Status};

use super::*;

const NONE: ComponentMask = ComponentMask::NONE;

/// Values after the dots in the lines with this name.
fn column(text: &str, name: &str) -> Vec<u64> {
    let of_line = |line: &str| {
        let rest = line.trim().strip_prefix(name)?.strip_prefix("..")?.trim_start_matches('.').to_owned();
        match rest.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => rest.parse().ok(),
        }
    };
    text.lines().filter_map(of_line).collect()
}

#[test]
fn all_paths_are_those_of_opensm_in_its_order() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let paths = table(&mut sa, &fixture, NONE, &PathRecord::default());
    let text = include_str!("golden/paths.txt");
    let check = |name: &str, of: fn(&PathRecord) -> u64| {
        assert_eq!(paths.iter().map(of).collect::<Vec<_>>(), column(text, name), "{name}");
    };
    check("dlid", |path| path.dlid.into());
    check("slid", |path| path.slid.into());
    check("pkey", |path| path.pkey.into());
    check("sl", |path| path.sl.into());
    check("mtu", |path| u64::from(path.mtu_selector.0 << 6 | path.mtu));
    check("rate", |path| u64::from(path.rate_selector.0 << 6 | path.rate.0));
    check("pkt_life", |path| u64::from(path.packet_life_time_selector.0 << 6 | path.packet_life_time));
    check("num_path_revers", |path| u64::from(u8::from(path.reversible) << 7 | path.numb_path));
    check("hop_flow_raw", |path| u64::from(path.hop_limit) | u64::from(path.flow_label) << 8);
    check("preference", |path| path.preference.into());
    assert_eq!(paths.len(), 100);
}

#[test]
fn links_and_forwarding_tables_are_those_of_opensm() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let links = table(&mut sa, &fixture, NONE, &LinkRecord::default());
    let text = include_str!("golden/links.txt");
    assert_eq!(links.iter().map(|link| u64::from(link.from_lid)).collect::<Vec<_>>(), column(text, "FromLID"));
    assert_eq!(links.iter().map(|link| u64::from(link.from_port_num)).collect::<Vec<_>>(), column(text, "FromPort"));
    assert_eq!(links.iter().map(|link| u64::from(link.to_port_num)).collect::<Vec<_>>(), column(text, "ToPort"));
    assert_eq!(links.iter().map(|link| u64::from(link.to_lid)).collect::<Vec<_>>(), column(text, "ToLID"));
    for asked in &links {
        let mask = LinkRecord::TO_LID | LinkRecord::TO_PORT;
        let found = table(&mut sa, &fixture, mask, asked);
        assert_eq!(found, [*asked]);
        let to = table(&mut sa, &fixture, LinkRecord::FROM_LID | LinkRecord::TO_LID, asked);
        assert!(
            to.contains(asked) && to.iter().all(|link| (link.from_lid, link.to_lid) == (asked.from_lid, asked.to_lid))
        );
    }
    let blocks = table(&mut sa, &fixture, NONE, &LinearForwardingTableRecord::default());
    let text = include_str!("golden/lfts.txt");
    assert_eq!(blocks.iter().map(|block| u64::from(block.lid)).collect::<Vec<_>>(), column(text, "LID"));
    let asked = LinearForwardingTableRecord { lid: 2, ..Default::default() };
    let one = table(&mut sa, &fixture, LinearForwardingTableRecord::LID, &asked);
    assert_eq!((one.len(), one[0].ports[1], one[0].ports[2], one[0].ports[63]), (1, 1, 0, 255));
}

#[test]
fn nodes_are_found_by_whatever_they_are_asked_by() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let nodes = table(&mut sa, &fixture, NONE, &NodeRecord::default());
    let lids: Vec<u16> = nodes.iter().map(|node| node.lid).collect();
    assert_eq!(lids, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for node in &nodes {
        for mask in [
            NodeRecord::LID,
            NodeRecord::NODE_GUID,
            NodeRecord::PORT_GUID,
            NodeRecord::NODE_DESCRIPTION,
            NodeRecord::NODE_DESCRIPTION | NodeRecord::NODE_TYPE | NodeRecord::NUM_PORTS,
        ] {
            assert_eq!(table(&mut sa, &fixture, mask, node), [*node], "{mask:?}");
        }
    }
    let first = nodes[0];
    assert_eq!(first.node_description.text(), "h00001 HCA-1");
    assert_eq!((first.node_info.port_guid, first.node_info.local_port_num), (0x0002_c903_0a00_0001, 1));
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET, NONE, &first).expect("an answer");
    assert_eq!((said.status, said.method), (Status::SA_TOO_MANY_RECORDS, Method::GET_RESP));
    let unknown = NodeRecord { lid: 77, ..first };
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET, NodeRecord::LID, &unknown).expect("an answer");
    assert_eq!(said.status, Status::SA_NO_RECORDS);
    assert_eq!(table(&mut sa, &fixture, NodeRecord::LID, &unknown), []);
}

#[test]
fn there_are_as_many_records_as_opensm_has() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    assert_eq!(table(&mut sa, &fixture, NONE, &PortInfoRecord::default()).len(), 42);
    assert_eq!(table(&mut sa, &fixture, NONE, &GuidInfoRecord::default()).len(), 28);
    assert_eq!(table(&mut sa, &fixture, NONE, &SlToVlTableRecord::default()).len(), 330);
    assert_eq!(table(&mut sa, &fixture, NONE, &VlArbitrationTableRecord::default()).len(), 168);
    assert_eq!(table(&mut sa, &fixture, NONE, &SwitchInfoRecord::default()).len(), 4);
    assert_eq!(table(&mut sa, &fixture, NONE, &MulticastForwardingTableRecord::default()).len(), 0);
    assert_eq!(table(&mut sa, &fixture, NONE, &ServiceRecord::default()).len(), 0);
    let leaf = fixture.subnet.by_guid[&0x0002_c903_0010_0000];
    let state = fixture.subnet.nodes[leaf.0 as usize].as_mut().and_then(|node| node.switch.as_mut()).expect("a switch");
    state.mft.insert(0xc000, [0x16, 0, 0, 0]);
    let rows = table(&mut sa, &fixture, NONE, &MulticastForwardingTableRecord::default());
    assert_eq!((rows.len(), rows[0].lid, rows[0].masks[0], rows[0].masks[1]), (1, 2, 0x16, 0));
}

#[test]
fn ports_are_found_by_their_capabilities() {
    let (mut sa, mut fixture) = (Administrator::default(), golden_fabric());
    let own = fixture.subnet.own.expect("a port");
    let port = &mut fixture.subnet.nodes[own.node.0 as usize].as_mut().expect("a node").ports[usize::from(own.port)];
    port.info.capability_mask |= CapabilityMask::SM;
    let mut asked = PortInfoRecord { options: 0x80, ..Default::default() };
    asked.port_info.capability_mask = CapabilityMask::SM;
    let mask = PortInfoRecord::CAPABILITY_MASK | PortInfoRecord::OPTIONS;
    let found = table(&mut sa, &fixture, mask, &asked);
    assert_eq!(found.iter().map(|port| (port.lid, port.port_num)).collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(table(&mut sa, &fixture, PortInfoRecord::CAPABILITY_MASK, &asked), [], "exactly that and nothing else");
    let asked = PortInfoRecord { lid: 2, port_num: 4, ..Default::default() };
    let found = table(&mut sa, &fixture, PortInfoRecord::LID | PortInfoRecord::PORT_NUM, &asked);
    assert_eq!((found.len(), found[0].lid, found[0].port_num), (1, 2, 4));
}

#[test]
fn what_the_administrator_can_is_what_opensm_can() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET, NONE, &ClassPortInfo::default()).expect("an answer");
    let info: ClassPortInfo = said.one();
    assert_eq!((info.capability_mask, info.capability_mask2, info.resp_time_value), (0x2602, 0xb5e8, 0x10));
    assert_eq!((info.redirect_qp, info.redirect_qkey, info.trap_qkey), (1, 0x8001_0000, 0x8001_0000));
    let said = ask(&mut sa, &fixture, (1, 0), Method::SET, NONE, &ClassPortInfo::default()).expect("an answer");
    assert_eq!(said.status, Status::SA_REQ_INVALID);
    let managers = table(&mut sa, &fixture, NONE, &SmInfoRecord::default());
    assert_eq!((managers.len(), managers[0].lid, managers[0].sm_info.priority), (1, 1, 14));
    assert_eq!(managers[0].sm_info.state, SmState::MASTER);
}

#[test]
fn p_keys_are_for_those_who_show_the_key() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let asked = PKeyTableRecord::default();
    let mut say = |key| ask(&mut sa, &fixture, (1, key), Method::GET_TABLE, NONE, &asked);
    assert_eq!(say(0).expect("an answer").status, Status::SA_REQ_INVALID);
    assert!(say(0xdead).is_none(), "a wrong key is not answered");
    let tables: Vec<PKeyTableRecord> = say(1).expect("an answer").records();
    // Two blocks for each of six hosts; for switches, two for each cabled port and one for port 0.
    assert_eq!(tables.len(), 6 * 2 + 2 * (5 * 2 + 1) + 2 * (2 * 2 + 1));
    assert_eq!(tables[0].pkeys[..3], [0xffff, 0x8002, 0]);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (mut sa, fixture) = (Administrator::default(), golden_fabric());
    let mut say = |method| ask(&mut sa, &fixture, (1, 0), method, NONE, &NodeRecord::default());
    assert_eq!(say(Method::SET).expect("an answer").status, Status::BAD_METHOD_ATTRIBUTE);
    assert!(say(Method::GET_RESP).is_none() && say(Method::TRAP).is_none());
    let none = InformInfo::default();
    let said = ask(&mut sa, &fixture, (1, 0), Method::GET, NONE, &none).expect("an answer");
    assert_eq!(said.status, Status::BAD_METHOD_ATTRIBUTE);
    assert!(ask(&mut sa, &fixture, (99, 0), Method::GET, NONE, &none).is_none(), "nobody has that LID");
    let mut standby = golden_fabric();
    standby.generation = 2;
    let world = super::sm::sa::World { serving: false, ..standby.world() };
    let mad = SaMad::request(Method::GET_TABLE, 1, NONE, &NodeRecord::default());
    let from = Peer { lid: 1, ..Peer::default() };
    sa.handle(Instant(0), &world, &from, mad.as_bytes());
    sa.serve(Instant(0), &world, 10);
    assert!(sa.poll_gmp().is_none(), "only the master answers");
    assert_eq!(Rate::GBPS_100.tenths(), 1000);
}
