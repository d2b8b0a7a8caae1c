//! Answers of the subnet management agents to every attribute and method, and their refusals (IBA 13.4.7, 14.2).

use super::*;
use weft_wire::mad::subn::{LinkSpeed, LinkSpeedExt, LinkWidth, MulticastForwardingTable, NodeInfo, SmInfo};

const OK: u16 = 0;
const VERSION: u16 = 4;
const METHOD: u16 = 8;
const ABSENT: u16 = 12;
const FIELD: u16 = 28;

/// Status of a Get at a switch and at a host, and of a Set at both; the data are zeros.
#[test]
fn every_attribute_has_its_status() {
    let rows: &[(AttrId, u32, [u16; 4])] = &[
        (AttrId::NODE_DESCRIPTION, 0, [OK, OK, OK, OK]),
        (AttrId::NODE_INFO, 0, [OK, OK, ABSENT, ABSENT]),
        (AttrId::SWITCH_INFO, 0, [OK, ABSENT, OK, ABSENT]),
        (AttrId::GUID_INFO, 0, [OK, OK, OK, OK]),
        (AttrId::GUID_INFO, 1, [FIELD, FIELD, FIELD, FIELD]),
        // Zero is no valid LID; external ports of switches have none.
        (AttrId::PORT_INFO, 0, [OK, OK, FIELD, FIELD]),
        (AttrId::PORT_INFO, 1, [OK, OK, OK, FIELD]),
        (AttrId::PORT_INFO, 4, [OK, FIELD, OK, FIELD]),
        (AttrId::PORT_INFO, 5, [FIELD, FIELD, FIELD, FIELD]),
        (AttrId::PKEY_TABLE, 0, [OK, OK, OK, OK]),
        (AttrId::PKEY_TABLE, 3, [FIELD, OK, FIELD, OK]),
        (AttrId::PKEY_TABLE, 4, [FIELD, FIELD, FIELD, FIELD]),
        (AttrId::PKEY_TABLE, 4 << 16 | 3, [OK, OK, OK, OK]),
        (AttrId::PKEY_TABLE, 5 << 16, [FIELD, OK, FIELD, OK]),
        (AttrId::PKEY_TABLE, 0x0100_0000, [FIELD, OK, FIELD, OK]),
        (AttrId::SL_TO_VL_TABLE, 0, [OK, OK, OK, OK]),
        (AttrId::SL_TO_VL_TABLE, 0x0404, [OK, OK, OK, OK]),
        (AttrId::SL_TO_VL_TABLE, 0x0504, [FIELD, OK, FIELD, OK]),
        (AttrId::VL_ARBITRATION_TABLE, 0x1_0001, [OK, OK, OK, OK]),
        (AttrId::VL_ARBITRATION_TABLE, 0x2_0001, [FIELD, FIELD, FIELD, FIELD]),
        (AttrId::VL_ARBITRATION_TABLE, 0x3_0001, [OK, OK, OK, OK]),
        (AttrId::VL_ARBITRATION_TABLE, 0x3_0005, [FIELD, OK, FIELD, OK]),
        (AttrId::VL_ARBITRATION_TABLE, 0, [FIELD, FIELD, FIELD, FIELD]),
        (AttrId::LINEAR_FORWARDING_TABLE, 0, [OK, ABSENT, OK, ABSENT]),
        (AttrId::LINEAR_FORWARDING_TABLE, 767, [OK, ABSENT, OK, ABSENT]),
        (AttrId::LINEAR_FORWARDING_TABLE, 768, [FIELD, ABSENT, FIELD, ABSENT]),
        (AttrId::LINEAR_FORWARDING_TABLE, u32::MAX, [FIELD, ABSENT, FIELD, ABSENT]),
        (AttrId::RANDOM_FORWARDING_TABLE, 0, [ABSENT; 4]),
        (AttrId::MULTICAST_FORWARDING_TABLE, 0, [OK, ABSENT, OK, ABSENT]),
        (AttrId::MULTICAST_FORWARDING_TABLE, 127, [OK, ABSENT, OK, ABSENT]),
        (AttrId::MULTICAST_FORWARDING_TABLE, 128, [FIELD, ABSENT, FIELD, ABSENT]),
        (AttrId::MULTICAST_FORWARDING_TABLE, 1 << 28, [FIELD, ABSENT, FIELD, ABSENT]),
        // There is no subnet manager.
        (AttrId::SM_INFO, 0, [ABSENT; 4]),
        (AttrId::VENDOR_DIAG, 0, [OK, OK, ABSENT, ABSENT]),
        (AttrId::VENDOR_DIAG, 1, [FIELD, FIELD, ABSENT, ABSENT]),
        (AttrId::LED_INFO, 0, [OK, OK, OK, OK]),
        (AttrId::PORT_INFO_EXTENDED, 0, [OK, OK, OK, OK]),
        (AttrId::PORT_INFO_EXTENDED, 5, [FIELD, FIELD, FIELD, FIELD]),
        (AttrId::MLNX_EXT_PORT_INFO, 1, [OK, OK, ABSENT, ABSENT]),
        (AttrId::NOTICE, 0, [ABSENT; 4]),
        (AttrId(0), 0, [ABSENT; 4]),
        (AttrId(0xffff), 0, [ABSENT; 4]),
    ];
    for (attr, modifier, wanted) in rows {
        let mut lab = Lab::new();
        let mut status = |place, method| {
            let smp = lab.ask(place, method, *attr, *modifier, &[0; 64]).expect("an answer");
            assert_eq!(smp.header.method(), Method::GET_RESP);
            smp.status().0
        };
        let gets = [status(S0, Method::GET), status(H1, Method::GET)];
        let sets = [status(S0, Method::SET), status(H1, Method::SET)];
        assert_eq!([gets[0], gets[1], sets[0], sets[1]], *wanted, "{attr:?} {modifier:#x}");
    }
}

#[test]
fn each_port_of_an_adapter_is_set_through_its_own_agent_alone() {
    let mut lab = Lab::up();
    let second: PortInfo = lab.get(H1, AttrId::PORT_INFO, 2);
    let asked = PortInfo { lid: 9, master_sm_lid: 4, port_state: PortState::NO_CHANGE, ..second }.encode();
    let smp = lab.ask(H1, Method::SET, AttrId::PORT_INFO, 2, &asked).expect("an answer");
    assert_eq!(smp.status().0, FIELD);
    assert_eq!(lab.get::<PortInfo>(H1, AttrId::PORT_INFO, 2), second);
    let extended = lab.ask(H1, Method::SET, AttrId::PORT_INFO_EXTENDED, 2, &[0; 64]).expect("an answer");
    assert_eq!(extended.status().0, FIELD);
}

#[test]
fn versions_and_methods_that_are_none() {
    let mut lab = Lab::new();
    let smp = |method| Smp::directed(method, 0, AttrId::NODE_INFO, 0, 0, WAYS[S0 as usize]).expect("one hop");
    let mut base = smp(Method::GET);
    base.header = base.header.with_base_version(2);
    assert_eq!(lab.smp(S0, base).map(|smp| smp.status().0), Some(VERSION));
    for (method, wanted) in [
        (Method(0x04), Some(METHOD)),
        (Method::GET_TABLE, Some(METHOD)),
        (Method::DELETE, Some(METHOD)),
        // Methods without an answer get none.
        (Method::SEND, None),
        (Method::TRAP_REPRESS, None),
        (Method::TRAP, None),
        (Method::REPORT, None),
        (Method::GET_RESP, None),
    ] {
        assert_eq!(lab.smp(S0, smp(method)).map(|smp| smp.status().0), wanted, "{method:?}");
    }
}

/// Fields of PortInfo that a host's port, or a switch's external port, refuses or accepts.
#[test]
fn every_field_of_portinfo_has_its_bounds() {
    type Change = fn(&mut PortInfo);
    let rows: &[(&str, Change, u16, u16)] = &[
        ("nothing", |_| {}, OK, OK),
        ("LID 0", |info| info.lid = 0, FIELD, OK),
        ("LID of a group", |info| info.lid = 0xc000, FIELD, OK),
        ("the last LID", |info| info.lid = 0xbfff, OK, OK),
        ("a LID that LMC does not leave", |info| (info.lid, info.lmc) = (5, 1), FIELD, OK),
        ("LMC 2", |info| (info.lid, info.lmc) = (8, 2), OK, OK),
        ("LMC 3 where 2 is the most", |info| (info.lid, info.lmc) = (8, 3), FIELD, OK),
        ("a manager without a LID", |info| info.master_sm_lid = 0, FIELD, OK),
        ("MTU 6", |info| info.neighbor_mtu = 6, FIELD, FIELD),
        ("MTU 0", |info| info.neighbor_mtu = 0, OK, OK),
        ("more lanes than there are", |info| info.operational_vls = 5, FIELD, FIELD),
        ("a width that it has not", |info| info.link_width_enabled = LinkWidth::X12, FIELD, FIELD),
        ("all widths", |info| info.link_width_enabled = LinkWidth::ALL_SUPPORTED, OK, OK),
        ("a speed that is none", |info| info.link_speed_enabled = LinkSpeed::from_bits_retain(8), FIELD, FIELD),
        ("no speed beyond QDR", |info| info.link_speed_ext_enabled = LinkSpeedExt::DISABLED, OK, OK),
        ("a default state that is none", |info| info.link_down_default_state = PhysState::DISABLED, FIELD, FIELD),
        ("Initialize", |info| info.port_state = PortState::INIT, FIELD, FIELD),
        ("Active out of Initialize", |info| info.port_state = PortState::ACTIVE, FIELD, FIELD),
        ("Active Defer", |info| info.port_state = PortState::ACTIVE_DEFER, FIELD, FIELD),
        ("Armed", |info| info.port_state = PortState::ARMED, OK, OK),
        ("LinkUp", |info| info.port_physical_state = PhysState::LINK_UP, FIELD, FIELD),
        (
            "Armed and polling",
            |info| (info.port_state, info.port_physical_state) = (PortState::ARMED, PhysState::POLLING),
            FIELD,
            FIELD,
        ),
    ];
    for (what, change, host, switch) in rows {
        let mut lab = Lab::new();
        assert_eq!(lab.try_port(H1, 1, change).status().0, *host, "{what} at a host");
        assert_eq!(lab.try_port(S0, 2, change).status().0, *switch, "{what} at a switch");
    }
}

#[test]
fn what_is_valid_is_set_beside_what_is_not() {
    let mut lab = Lab::new();
    let smp = lab.try_port(H1, 1, |info| (info.lid, info.gid_prefix, info.neighbor_mtu) = (0xffff, 77, 3));
    let info: PortInfo = smp.attribute().expect("64 bytes");
    assert_eq!((smp.status().0, info.lid, info.gid_prefix, info.neighbor_mtu), (FIELD, 0, 77, 3));
}

#[test]
fn a_base_port_0_has_one_lid() {
    let mut lab = Lab::new();
    assert_eq!(lab.try_port(S0, 0, |info| (info.lid, info.lmc) = (8, 1)).status().0, FIELD);
    assert_eq!(lab.try_port(S0, 0, |info| (info.lid, info.lmc) = (8, 0)).status().0, OK);
}

#[test]
fn nodes_say_what_they_are() {
    let mut lab = Lab::new();
    let info: NodeInfo = lab.get(S1, AttrId::NODE_INFO, 0);
    assert_eq!((info.node_type.0, info.num_ports, info.node_guid, info.port_guid), (2, 4, 0x200, 0x200));
    assert_eq!((info.local_port_num, info.partition_cap, info.vendor_id, info.device_id), (3, 32, 0x2c9, 7));
    let info: NodeInfo = lab.get(H3, AttrId::NODE_INFO, 0);
    assert_eq!((info.node_type.0, info.num_ports, info.node_guid, info.port_guid), (1, 2, 0x4000, 0x4001));
    assert_eq!((info.local_port_num, info.partition_cap), (1, 128));
}

#[test]
fn a_multicast_table_has_no_ports_beyond_the_last() {
    let mut lab = Lab::new();
    let smp = lab.set(S0, AttrId::MULTICAST_FORWARDING_TABLE, 0, &MulticastForwardingTable { masks: [0xffff; 32] });
    assert_eq!(smp.attribute(), Some(MulticastForwardingTable { masks: [0x1f; 32] }));
}

#[test]
fn a_subnet_manager_answers_for_itself() {
    let mut lab = Lab::up();
    let to = PortRef::new(H1, 1);
    lab.fabric.set_capabilities(lab.now, to, weft_wire::mad::subn::CapabilityMask::SM, true);
    let smp = Smp::lid_routed(Method::GET, 9, AttrId::SM_INFO, 0, 0);
    let heard = lab.lid(H2, MadAddress::smi(LIDS[H1 as usize]), smp.to_mad());
    let asked = heard.iter().find(|delivery| delivery.port == to).expect("the host is asked");
    let mut answer = Smp::from_mad(asked.mad);
    answer.header.set_method(Method::GET_RESP);
    answer.set_attribute(&SmInfo { priority: 3, ..SmInfo::default() });
    let back = lab.lid(H1, MadAddress::smi(asked.slid), answer.to_mad());
    assert_eq!(back.first().map(|delivery| delivery.port), Some(PortRef::new(H2, 1)));
}

/// Managers that never set NeighborMTU find the port's maximum there; so do those that only lower it.
#[test]
fn the_mtu_of_a_link_starts_at_what_the_port_can() {
    let lab = Lab::new();
    for (place, numbers) in [(S0, 0..=4), (H0, 1..=2)] {
        for number in numbers {
            let info = lab.info(place, number);
            assert_eq!((info.neighbor_mtu, info.mtu_cap), (5, 5), "port {number} of node {place}");
        }
    }
}
