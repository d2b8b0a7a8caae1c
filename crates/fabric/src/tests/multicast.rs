//! Switches copy packets to groups along their tables, once for each port, whatever the tables contain.

use super::*;
use crate::{Counter, PacketInfo, Why};
use weft_wire::mad::subn::MulticastForwardingTable;

const GROUP: u16 = 0xc005;

fn join(lab: &mut Lab, switch: u32, mask: u16) {
    let mut table = MulticastForwardingTable::default();
    table.masks[usize::from(GROUP - 0xc000)] = mask;
    lab.set(switch, AttrId::MULTICAST_FORWARDING_TABLE, 0, &table);
}

fn send(lab: &mut Lab, from: u32) -> Result<Vec<PortRef>, Why> {
    let packet = PacketInfo {
        dlid: GROUP,
        path_bits: 0,
        sl: 0,
        pkey: 0xffff,
        src_qp: 9,
        dest_qp: 0xff_ffff,
        payload: 256,
        words: 80,
    };
    let mut arrived = Vec::new();
    let query = PathQuery { dlid: GROUP, sl: 0, pkey: 0xffff, payload: 256 };
    let foretold = lab.fabric.group_verdict(PortRef::new(from, 1), &query);
    let sent = lab.fabric.transmit(lab.now, PortRef::new(from, 1), &packet, |arrival| arrived.push(arrival.port));
    arrived.sort();
    let mut once = arrived.clone();
    once.dedup();
    assert_eq!(foretold.map(|spread| spread.to).ok(), sent.is_ok().then_some(once), "the verdict is another");
    sent.map(|()| arrived).map_err(|refusal| refusal.why)
}

#[test]
fn every_member_but_the_sender_hears() {
    let mut lab = Lab::up();
    join(&mut lab, S0, 0b1110);
    join(&mut lab, S1, 0b1110);
    let hosts = |hosts: &[u32]| Ok(hosts.iter().map(|host| PortRef::new(*host, 1)).collect());
    assert_eq!(send(&mut lab, H0), hosts(&[H1, H2, H3]));
    assert_eq!(send(&mut lab, H3), hosts(&[H0, H1, H2]));
    let trunk = lab.fabric.traffic(PortRef::new(S1, 3));
    assert_eq!((trunk.multicast_rcv_packets, trunk.multicast_xmit_packets), (1, 1));
    join(&mut lab, S1, 0b1010);
    assert_eq!(send(&mut lab, H0), hosts(&[H1, H2]));
    lab.set_pkeys(H1, 0, &[0x8005]);
    assert_eq!(send(&mut lab, H0), hosts(&[H2]));
    assert_eq!(lab.info(H1, 1).pkey_violations, 1);
}

#[test]
fn what_passed_is_counted_as_if_it_had_crossed() {
    let mut lab = Lab::up();
    join(&mut lab, S0, 0b1110);
    join(&mut lab, S1, 0b0110);
    let query = PathQuery { dlid: GROUP, sl: 0, pkey: 0xffff, payload: 256 };
    let from = PortRef::new(H0, 1);
    let spread = lab.fabric.group_verdict(from, &query).expect("it leaves");
    lab.fabric.account_group(&spread.path, 3, 240);
    let all = |lab: &Lab| {
        let of = |node, ports| (1..=ports).map(move |port| PortRef::new(node, port)).collect::<Vec<_>>();
        let ports = [of(S0, 4), of(S1, 4), of(H0, 1), of(H1, 1), of(H2, 1), of(H3, 1)].concat();
        ports.into_iter().map(|port| lab.fabric.traffic(port)).collect::<Vec<_>>()
    };
    let counted = all(&lab);
    let mut lab = Lab::up();
    join(&mut lab, S0, 0b1110);
    join(&mut lab, S1, 0b0110);
    for _ in 0..3 {
        assert_eq!(send(&mut lab, H0).map(|to| to.len()), Ok(3));
    }
    let sums = |all: &[crate::Traffic]| {
        all.iter().map(|t| (t.multicast_xmit_packets, t.multicast_rcv_packets)).collect::<Vec<_>>()
    };
    assert_eq!(sums(&all(&lab)), sums(&counted));
    let limited = PathQuery { pkey: 0x7fff, ..query };
    assert!(lab.fabric.group_verdict(from, &limited).is_err(), "a P_Key that the port does not have");
}

#[test]
fn groups_that_no_table_has_go_to_the_default_ports() {
    let mut lab = Lab::up();
    assert_eq!(send(&mut lab, H0), Ok(vec![]));
    assert_eq!(lab.fabric.counter(PortRef::new(S0, 1), Counter::DlidMappingErrors), 1);
    let info: SwitchInfo = lab.get(S0, AttrId::SWITCH_INFO, 0);
    let ports = SwitchInfo { default_multicast_primary_port: 1, default_multicast_not_primary_port: 2, ..info };
    lab.set(S0, AttrId::SWITCH_INFO, 0, &ports);
    assert_eq!(send(&mut lab, H0), Ok(vec![PortRef::new(H1, 1)]));
    assert_eq!(send(&mut lab, H1), Ok(vec![PortRef::new(H0, 1)]));
    join(&mut lab, S0, 0b0110);
    lab.set(S0, AttrId::SWITCH_INFO, 0, &SwitchInfo { multicast_fdb_top: GROUP - 1, ..ports });
    assert_eq!(send(&mut lab, H0), Ok(vec![PortRef::new(H1, 1)]), "the table ends before the group");
}

#[test]
fn tables_that_loop_do_not_last() {
    let mut lab = Lab::up();
    lab.fabric.join(lab.now, PortRef::new(S0, 4), PortRef::new(S1, 4)).expect("free ports");
    lab.pass(Duration::from_millis(10));
    for switch in [S0, S1] {
        for state in [PortState::ARMED, PortState::ACTIVE] {
            lab.set_port(switch, 4, |info| info.port_state = state);
        }
        join(&mut lab, switch, 0b11110);
    }
    let arrived = send(&mut lab, H0).expect("it was sent");
    assert!(arrived.len() > 3 && arrived.len() < 400, "{}", arrived.len());
}
