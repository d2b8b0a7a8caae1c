//! Datagrams by LID, directed routes with parts by LID, verdicts, and the counters of every port on the path.

use super::*;
use crate::head::{MAD_WORDS, MAD_WORDS_GRH};
use crate::{Counter, GlobalRoute, PacketInfo, SendError, Traffic, Why};
use weft_wire::mad::subn::{SlToVlTable, VlArbitrationTable, VlWeight};

fn node_info(tid: u64) -> Mad {
    Smp::lid_routed(Method::GET, tid, AttrId::NODE_INFO, 0, 0).to_mad()
}

fn vendor() -> Mad {
    Mad { header: MadHeader::new(Class(0x32), 1, Method::GET, 5, AttrId(1)), data: [3; 232] }
}

#[test]
fn smps_by_lid_cross_ports_that_are_not_active() {
    let mut lab = Lab::up();
    lab.set_port(S0, 3, |info| info.port_state = PortState::DOWN);
    lab.pass(Duration::from_millis(10));
    assert_eq!(lab.states(S0, 3).0, PortState::INIT);
    let answers = lab.lid(H0, MadAddress::smi(LIDS[H3 as usize]), node_info(1));
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].slid, answers[0].mad.header.method()), (LIDS[H3 as usize], Method::GET_RESP));
    assert!(lab.lid(H0, MadAddress::gsi(LIDS[H3 as usize], 0xffff), vendor()).is_empty(), "others do not");
    assert_eq!(lab.fabric.counter(PortRef::new(S0, 3), Counter::InactiveDiscards), 1);
}

#[test]
fn a_switch_is_reached_by_its_lid_and_answers_for_classes_that_nobody_serves() {
    let mut lab = Lab::up();
    assert_eq!(lab.lid(H0, MadAddress::smi(LIDS[S1 as usize]), node_info(1)).len(), 1);
    let answers = lab.lid(H0, MadAddress::gsi(LIDS[S1 as usize], 0xffff), vendor());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].mad.header.status(), Status::BAD_METHOD_ATTRIBUTE);
}

#[test]
fn a_host_hears_what_is_for_its_agents() {
    let mut lab = Lab::up();
    let grh = GlobalRoute { sgid: [1; 16], dgid: [2; 16], flow_label: 3, traffic_class: 4, hop_limit: 5 };
    let to = MadAddress { grh: Some(grh), sl: 3, ..MadAddress::gsi(LIDS[H3 as usize], 0xffff) };
    let heard = lab.lid(H0, to, vendor());
    let wanted = Delivery {
        port: PortRef::new(H3, 1),
        slid: LIDS[H0 as usize],
        path_bits: 0,
        sl: 3,
        src_qp: 1,
        dest_qp: 1,
        pkey_index: 0,
        pkey: 0xffff,
        grh: Some(grh),
        mad: vendor(),
    };
    assert_eq!(heard, [wanted]);
    assert_eq!(crate::unmatched(&vendor()).map(|mad| mad.header.status()), Some(Status::BAD_METHOD_ATTRIBUTE));
}

#[test]
fn every_port_on_the_way_counts() {
    let mut lab = Lab::up();
    let ports = [(H0, 1), (S0, 1), (S0, 3), (S1, 3), (S1, 2), (H3, 1)].map(|(node, port)| PortRef::new(node, port));
    let before = ports.map(|port| lab.fabric.traffic(port));
    lab.lid(H0, MadAddress::gsi(LIDS[H3 as usize], 0xffff), vendor());
    let grh = GlobalRoute { sgid: [1; 16], dgid: [2; 16], flow_label: 0, traffic_class: 0, hop_limit: 0 };
    lab.lid(H0, MadAddress { grh: Some(grh), ..MadAddress::gsi(LIDS[H3 as usize], 0xffff) }, vendor());
    for (place, (port, before)) in ports.into_iter().zip(before).enumerate() {
        let now = lab.fabric.traffic(port);
        let sent = [now.xmit_packets - before.xmit_packets, now.xmit_data - before.xmit_data];
        let received = [now.rcv_packets - before.rcv_packets, now.rcv_data - before.rcv_data];
        let (full, none) = ([2, MAD_WORDS + MAD_WORDS_GRH], [0, 0]);
        assert_eq!((sent, received), if place % 2 == 0 { (full, none) } else { (none, full) }, "{port}");
    }
}

#[test]
fn lmc_gives_a_port_several_lids() {
    let mut lab = Lab::up();
    lab.set_port(H3, 1, |info| (info.lid, info.lmc) = (8, 2));
    for switch in [S0, S1] {
        let mut table: LinearForwardingTable = lab.get(switch, AttrId::LINEAR_FORWARDING_TABLE, 0);
        table.ports[8..12].fill(if switch == S0 { 3 } else { 2 });
        lab.set(switch, AttrId::LINEAR_FORWARDING_TABLE, 0, &table);
    }
    for (lid, bits) in [(8, Some(0)), (11, Some(3)), (12, None)] {
        let heard = lab.lid(H0, MadAddress::gsi(lid, 0xffff), vendor());
        assert_eq!(heard.first().map(|delivery| delivery.path_bits), bits, "{lid}");
    }
    let heard = lab.lid(H3, MadAddress { path_bits: 2, ..MadAddress::gsi(4, 0xffff) }, vendor());
    assert_eq!(heard.first().map(|delivery| delivery.slid), Some(10));
    let heard = lab.lid(H3, MadAddress::gsi(9, 0xffff), vendor());
    assert_eq!(heard.len(), 1, "a port hears itself");
}

#[test]
fn directed_routes_have_parts_by_lid_at_both_ends() {
    let mut lab = Lab::up();
    let (own, far) = (LIDS[H0 as usize], LIDS[S1 as usize]);
    // By LID to the second switch, out of its port 2, and back.
    let mut smp = Smp::directed(Method::GET, 1, AttrId::NODE_INFO, 0, 0, &[2]).expect("one hop");
    smp.set_dr_lids(own, LID_PERMISSIVE);
    let back = lab.lid(H0, MadAddress::smi(far), smp.to_mad());
    let guid = |mad| Smp::from_mad(mad).attribute::<weft_wire::mad::subn::NodeInfo>().map(|info| info.node_guid);
    assert_eq!(back.iter().map(|delivery| guid(delivery.mad)).collect::<Vec<_>>(), [Some(0x4000)]);
    // Two hops, then by LID to the last host.
    let mut smp = Smp::directed(Method::GET, 2, AttrId::NODE_INFO, 0, 0, &[1, 3]).expect("two hops");
    smp.set_dr_lids(LID_PERMISSIVE, LIDS[H3 as usize]);
    let back = lab.lid(H0, MadAddress::smi(LID_PERMISSIVE), smp.to_mad());
    assert_eq!(back.iter().map(|delivery| guid(delivery.mad)).collect::<Vec<_>>(), [Some(0x4000)]);
    // A part by LID at both ends.
    let mut smp = Smp::directed(Method::GET, 3, AttrId::NODE_INFO, 0, 0, &[3]).expect("one hop");
    smp.set_dr_lids(own, LIDS[H2 as usize]);
    let back = lab.lid(H0, MadAddress::smi(LIDS[S0 as usize]), smp.to_mad());
    assert_eq!(back.iter().map(|delivery| guid(delivery.mad)).collect::<Vec<_>>(), [Some(0x3000)]);
}

#[test]
fn a_host_is_told_what_it_cannot_send() {
    let mut lab = Lab::up();
    let from = PortRef::new(H0, 1);
    let mut send = |port, to, mad| lab.fabric.send(Instant(0), port, &MadOut { to, mad });
    let directed = |path: &[u8]| Smp::directed(Method::GET, 1, AttrId::NODE_INFO, 0, 0, path).expect("short");
    assert_eq!(send(from, MadAddress::smi(0), directed(&[2]).to_mad()), Err(SendError::BadRoute));
    let mut smp = directed(&[1]);
    smp.set_hop_pointer(1);
    assert_eq!(send(from, MadAddress::smi(0), smp.to_mad()), Err(SendError::BadRoute));
    let mut smp = directed(&[1]);
    smp.set_hop_count(64);
    assert_eq!(send(from, MadAddress::smi(0), smp.to_mad()), Err(SendError::BadRoute));
    assert_eq!(send(from, MadAddress::gsi(1, 0xffff), directed(&[1]).to_mad()), Err(SendError::WrongQueuePair));
    assert_eq!(send(from, MadAddress::smi(1), vendor()), Err(SendError::WrongQueuePair));
    for port in [PortRef::new(S0, 1), PortRef::new(99, 1), PortRef::new(H0, 3), PortRef::new(H0, 0)] {
        assert_eq!(send(port, MadAddress::smi(1), node_info(1)), Err(SendError::NoSuchPort(port)));
    }
}

#[test]
fn verdicts_say_how_or_why_not() {
    let mut lab = Lab::up();
    let verdict = lab.verdict(H0, H3).expect("a path");
    assert_eq!((verdict.to, verdict.path.hops(), verdict.mtu), (PortRef::new(H3, 1), 3, 5));
    assert_eq!((verdict.rate.text(), verdict.latency_ns), (Some("400"), 0));
    assert_eq!(lab.verdict(H0, H0).map(|verdict| verdict.path.hops()), Ok(0));
    assert_eq!(lab.verdict(H0, S1).map(|verdict| verdict.to), Ok(PortRef::new(S1, 0)));

    let why = |lab: &Lab, query: PathQuery| {
        let refusal = lab.fabric.verdict(PortRef::new(H0, 1), &query).expect_err("no path");
        (refusal.at.node, refusal.at.port, refusal.why)
    };
    let query = PathQuery { dlid: 7, sl: 0, pkey: 0xffff, payload: 0 };
    assert_eq!(why(&lab, PathQuery { dlid: 50, ..query }), (S0, 1, Why::NoRoute));
    assert_eq!(why(&lab, PathQuery { dlid: 64, ..query }), (S0, 1, Why::NoRoute), "beyond LinearFDBTop");
    assert_eq!(why(&lab, PathQuery { dlid: 0xc000, ..query }), (H0, 1, Why::NoRoute));
    assert_eq!(why(&lab, PathQuery { pkey: 0x8001, ..query }), (H0, 1, Why::Partition));
    assert_eq!(why(&lab, PathQuery { payload: 4097, ..query }), (H0, 1, Why::TooLong));
    lab.set_port(S1, 2, |info| info.neighbor_mtu = 3);
    assert_eq!(lab.verdict(H0, H3).map(|verdict| verdict.mtu), Ok(3));
    assert_eq!(why(&lab, PathQuery { payload: 1025, ..query }), (S1, 2, Why::TooLong));
    lab.set_port(H3, 1, |info| info.lid = 9);
    assert_eq!(why(&lab, query), (H3, 1, Why::NotHere));
    lab.fabric.cut(lab.now, PortRef::new(S1, 2)).expect("a cable");
    assert_eq!(why(&lab, query), (S1, 2, Why::NoLink));

    let mut table: LinearForwardingTable = lab.get(S1, AttrId::LINEAR_FORWARDING_TABLE, 0);
    table.ports[7] = 3;
    lab.set(S1, AttrId::LINEAR_FORWARDING_TABLE, 0, &table);
    assert_eq!(why(&lab, query), (S1, 3, Why::Loop));
    table.ports[7] = 200;
    lab.set(S1, AttrId::LINEAR_FORWARDING_TABLE, 0, &table);
    assert_eq!(why(&lab, query), (S1, 3, Why::NoRoute), "a port that it has not");
}

#[test]
fn service_levels_need_lanes_that_are_served() {
    let mut lab = Lab::up();
    let query = |lab: &Lab, sl| {
        let query = PathQuery { dlid: 7, sl, pkey: 0xffff, payload: 0 };
        lab.fabric.verdict(PortRef::new(H0, 1), &query).map(|_| ()).map_err(|refusal| (refusal.at, refusal.why))
    };
    let mut table = SlToVlTable { vls: [0; 16] };
    table.vls[4] = 15;
    table.vls[5] = 2;
    lab.set(S0, AttrId::SL_TO_VL_TABLE, 0x0103, &table);
    assert_eq!(query(&lab, 4), Err((PortRef::new(S0, 1), Why::NoLane)));
    assert_eq!(query(&lab, 5), Ok(()));
    let entries = std::array::from_fn(|place| VlWeight { vl: place as u8 % 2, weight: 1 });
    lab.set(S0, AttrId::VL_ARBITRATION_TABLE, 0x1_0003, &VlArbitrationTable { entries });
    assert_eq!(query(&lab, 5), Ok(()), "the table of high priority serves it");
    lab.set(S0, AttrId::VL_ARBITRATION_TABLE, 0x3_0003, &VlArbitrationTable { entries });
    assert_eq!(query(&lab, 5), Err((PortRef::new(S0, 3), Why::NotServed(2))));
    assert_eq!(query(&lab, 0), Ok(()));
    lab.set_port(S0, 3, |info| info.operational_vls = 1);
    assert_eq!(query(&lab, 5), Err((PortRef::new(S0, 1), Why::NoLane)));
    // All pairs of ports at once.
    lab.set(S0, AttrId::SL_TO_VL_TABLE, 0x3_0000, &SlToVlTable { vls: [0; 16] });
    assert_eq!((query(&lab, 4), query(&lab, 5)), (Ok(()), Ok(())));
    let table: SlToVlTable = lab.get(S0, AttrId::SL_TO_VL_TABLE, 0x0402);
    assert_eq!(table.vls, [0; 16]);
}

#[test]
fn what_does_not_change_anything_leaves_verdicts_alone() {
    let mut lab = Lab::up();
    let generation = lab.fabric.generation();
    let table: LinearForwardingTable = lab.get(S0, AttrId::LINEAR_FORWARDING_TABLE, 0);
    lab.set(S0, AttrId::LINEAR_FORWARDING_TABLE, 0, &table);
    let info: SwitchInfo = lab.get(S0, AttrId::SWITCH_INFO, 0);
    lab.set(S0, AttrId::SWITCH_INFO, 0, &info);
    lab.set_port(H1, 1, |_| {});
    lab.set_pkeys(H1, 1, &[0xffff]);
    assert_eq!(lab.fabric.generation(), generation);
    lab.set_pkeys(H1, 1, &[0xffff, 0x8001]);
    assert!(lab.fabric.generation() > generation);
}

#[test]
fn traffic_on_a_verdict_is_counted_by_every_port() {
    let mut lab = Lab::up();
    let verdict = lab.verdict(H0, H3).expect("a path");
    let ports = [(H0, 1), (S0, 1), (S0, 3), (S1, 3), (S1, 2), (H3, 1)].map(|(node, port)| PortRef::new(node, port));
    let before = ports.map(|port| lab.fabric.traffic(port));
    lab.fabric.account(&verdict.path, 1000, 1_000_000);
    for (place, (port, before)) in ports.into_iter().zip(before).enumerate() {
        let mut wanted = before;
        if place % 2 == 0 {
            (wanted.xmit_packets, wanted.xmit_data) = (before.xmit_packets + 1000, before.xmit_data + 1_000_000);
        } else {
            (wanted.rcv_packets, wanted.rcv_data) = (before.rcv_packets + 1000, before.rcv_data + 1_000_000);
        }
        assert_eq!(lab.fabric.traffic(port), wanted, "{port}");
    }
    assert_eq!(lab.fabric.traffic(PortRef::new(H1, 2)), Traffic::default());
}

#[test]
fn packets_of_datagram_services_cross_hop_by_hop() {
    let mut lab = Lab::up();
    lab.fabric.set_latency(PortRef::new(S0, 3), 700).expect("a cable");
    let packet =
        PacketInfo { dlid: 7, path_bits: 0, sl: 0, pkey: 0xffff, src_qp: 9, dest_qp: 8, payload: 2048, words: 520 };
    let mut arrived = Vec::new();
    lab.fabric.transmit(lab.now, PortRef::new(H0, 1), &packet, |arrival| arrived.push(arrival)).expect("a path");
    assert_eq!(arrived.iter().map(|a| (a.port, a.latency_ns)).collect::<Vec<_>>(), [(PortRef::new(H3, 1), 700)]);
    let refused = lab.fabric.transmit(lab.now, PortRef::new(H0, 1), &PacketInfo { dlid: 40, ..packet }, |_| {});
    assert_eq!(refused.map_err(|refusal| refusal.why), Err(Why::NoRoute));
    assert_eq!(lab.fabric.counter(PortRef::new(S0, 1), Counter::DlidMappingErrors), 1);
}

#[test]
fn an_armed_port_becomes_active_by_data() {
    let mut lab = Lab::up();
    lab.set_port(H1, 1, |info| info.port_state = PortState::DOWN);
    lab.pass(Duration::from_millis(10));
    lab.set_port(H1, 1, |info| info.port_state = PortState::ARMED);
    lab.set_port(S0, 2, |info| info.port_state = PortState::ARMED);
    lab.set_port(S0, 2, |info| info.port_state = PortState::ACTIVE);
    assert_eq!(lab.states(H1, 1).0, PortState::ARMED);
    assert_eq!(lab.lid(H0, MadAddress::gsi(LIDS[H1 as usize], 0xffff), vendor()).len(), 1);
    assert_eq!(lab.states(H1, 1).0, PortState::ACTIVE);
}
