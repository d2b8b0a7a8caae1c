//! Performance management agent: registers, selections, all ports at once, unsupported attributes.

use super::*;
use crate::{Counter, Counters};
use weft_wire::mad::ClassPortInfo;
use weft_wire::mad::perf::{
    CounterSelect, PortCounters, PortCountersExtended, PortRcvDataSl, PortRcvErrorDetails, PortSamplesControl,
    PortSamplesResult, PortVlOpData, PortVlXmitWaitCounters, PortXmitDataSl, SampleStatus, SwPortVlCongestion,
};

fn read<A: Attribute>(mad: &Mad) -> A {
    A::read(&mad.data[40..]).expect("long enough")
}

fn counters(lab: &mut Lab, lid: u16, port: u8) -> PortCounters {
    let asked = PortCounters { port_select: port, ..PortCounters::default() };
    read(&lab.perf(H0, lid, Method::GET, AttrId::PORT_COUNTERS, &asked).expect("an answer"))
}

fn of(lab: &mut Lab, node: u32, port: u8) -> &mut Counters {
    let place = lab.fabric.place(PortRef::new(node, port)).expect("a port");
    &mut lab.fabric.ports[place as usize].counters
}

#[test]
fn registers_stop_at_their_top() {
    let mut lab = Lab::up();
    for counter in [Counter::SymbolErrors, Counter::LinkDowned, Counter::LocalLinkIntegrityErrors, Counter::XmitWait] {
        of(&mut lab, S1, 2).add(counter, 1 << 40);
    }
    of(&mut lab, S1, 2).sent(1 << 33, 1 << 40, 0, false);
    let got = counters(&mut lab, LIDS[S1 as usize], 2);
    assert_eq!(
        (got.symbol_error_counter, got.link_downed_counter, got.local_link_integrity_errors),
        (0xffff, 0xff, 15)
    );
    assert_eq!((got.port_xmit_data, got.port_xmit_pkts, got.port_xmit_wait), (u32::MAX, u32::MAX, u32::MAX));
    let asked = PortCountersExtended { port_select: 2, ..PortCountersExtended::default() };
    let mad = lab.perf(H0, LIDS[S1 as usize], Method::GET, AttrId::PORT_COUNTERS_EXTENDED, &asked).expect("an answer");
    let got: PortCountersExtended = read(&mad);
    assert!(got.port_xmit_data >= 1 << 40 && got.symbol_error_counter == 1 << 40);
    assert_eq!(got.port_unicast_xmit_pkts, got.port_xmit_pkts);
}

#[test]
fn what_is_selected_is_cleared_and_nothing_else() {
    let mut lab = Lab::up();
    of(&mut lab, H3, 1).add(Counter::SymbolErrors, 5);
    of(&mut lab, H3, 1).add(Counter::RcvErrors, 6);
    of(&mut lab, H3, 1).add(Counter::XmitWait, 7);
    let lid = LIDS[H3 as usize];
    let asked = PortCounters { port_select: 1, counter_select: CounterSelect::SYMBOL_ERROR, ..PortCounters::default() };
    let mad = lab.perf(H0, lid, Method::SET, AttrId::PORT_COUNTERS, &asked).expect("an answer");
    let got: PortCounters = read(&mad);
    assert_eq!((mad.header.method(), mad.header.status()), (Method::GET_RESP, Status::SUCCESS));
    assert_eq!((got.symbol_error_counter, got.port_rcv_errors, got.port_xmit_wait), (0, 6, 7));
    let asked = PortCounters { port_select: 1, counter_select2: 1, ..PortCounters::default() };
    let got: PortCounters = read(&lab.perf(H0, lid, Method::SET, AttrId::PORT_COUNTERS, &asked).expect("an answer"));
    assert_eq!((got.port_rcv_errors, got.port_xmit_wait), (6, 0));
    let asked = PortCountersExtended { port_select: 1, ..PortCountersExtended::default() };
    let mad = lab.perf(H0, lid, Method::GET, AttrId::PORT_COUNTERS_EXTENDED, &asked).expect("an answer");
    assert_eq!(read::<PortCountersExtended>(&mad).symbol_error_counter, 5, "64 bits are cleared apart");
    let asked = PortCountersExtended { counter_select: 0xff, counter_select2: 1, ..asked };
    let mad = lab.perf(H0, lid, Method::SET, AttrId::PORT_COUNTERS_EXTENDED, &asked).expect("an answer");
    let got: PortCountersExtended = read(&mad);
    assert_eq!((got.symbol_error_counter, got.port_rcv_errors), (0, 6));
    assert_eq!((got.port_rcv_pkts, got.port_xmit_data), (0, 0));
}

#[test]
fn port_255_stands_for_all_of_a_node() {
    let mut lab = Lab::up();
    of(&mut lab, S1, 1).add(Counter::RcvErrors, 2);
    of(&mut lab, S1, 4).add(Counter::RcvErrors, 3);
    let lid = LIDS[S1 as usize];
    assert_eq!(counters(&mut lab, lid, 255).port_rcv_errors, 5);
    let asked = PortCounters { port_select: 255, counter_select: CounterSelect::all(), ..PortCounters::default() };
    lab.perf(H0, lid, Method::SET, AttrId::PORT_COUNTERS, &asked).expect("an answer");
    assert_eq!((counters(&mut lab, lid, 1).port_rcv_errors, counters(&mut lab, lid, 4).port_rcv_errors), (0, 0));
}

#[test]
fn details_say_why() {
    let mut lab = Lab::up();
    let to = MadAddress::gsi(40, 0xffff);
    let mad = Mad { header: MadHeader::new(Class(0x32), 1, Method::GET, 5, AttrId(1)), data: [0; 232] };
    lab.lid(H1, to, mad);
    let asked = PortRcvErrorDetails { port_select: 2, ..PortRcvErrorDetails::default() };
    let lid = LIDS[S0 as usize];
    let got: PortRcvErrorDetails =
        read(&lab.perf(H0, lid, Method::GET, AttrId::PORT_RCV_ERROR_DETAILS, &asked).expect("an answer"));
    assert_eq!((got.port_dlid_mapping_errors, got.port_looping_errors), (1, 0));
    assert_eq!(counters(&mut lab, lid, 2).port_rcv_switch_relay_errors, 1);
    let asked = PortRcvErrorDetails { counter_select: 1 << 3, ..asked };
    let got: PortRcvErrorDetails =
        read(&lab.perf(H0, lid, Method::SET, AttrId::PORT_RCV_ERROR_DETAILS, &asked).expect("an answer"));
    assert_eq!(got.port_dlid_mapping_errors, 0);
}

#[test]
fn what_it_has_not_is_unsupported() {
    let mut lab = Lab::up();
    let lid = LIDS[H3 as usize];
    let status = |mad: Option<Mad>| mad.map(|mad| mad.header.status());
    let asked = PortVlOpData::default();
    for attr in [AttrId::PORT_VL_OP_DATA, AttrId::PORT_OP_RCV_COUNTERS, AttrId(0x7777)] {
        assert_eq!(status(lab.perf(H0, lid, Method::GET, attr, &asked)), Some(Status::BAD_METHOD_ATTRIBUTE));
    }
    let asked = PortCounters { port_select: 3, ..PortCounters::default() };
    let got = lab.perf(H0, lid, Method::GET, AttrId::PORT_COUNTERS, &asked);
    assert_eq!(status(got), Some(Status::INVALID_FIELD), "a port that it has not");
    assert_eq!(status(lab.perf(H0, lid, Method::GET_TABLE, AttrId::PORT_COUNTERS, &asked)), Some(Status::BAD_METHOD));
    assert_eq!(status(lab.perf(H0, lid, Method::SEND, AttrId::PORT_COUNTERS, &asked)), None);
    let info = ClassPortInfo::default();
    let mad = lab.perf(H0, lid, Method::GET, AttrId::CLASS_PORT_INFO, &info).expect("an answer");
    let info: ClassPortInfo = read(&mad);
    assert_eq!((info.base_version, info.capability_mask & 0x300), (1, 0x300), "all ports, extended width");
}

#[test]
fn a_host_asks_its_own_agent() {
    let mut lab = Lab::up();
    let lid = LIDS[H0 as usize];
    assert_eq!(counters(&mut lab, lid, 1).port_select, 1);
}

#[test]
fn data_are_told_by_service_level() {
    let mut lab = Lab::up();
    let lid = LIDS[H3 as usize];
    of(&mut lab, H3, 1).sent(2, 500, 5, false);
    let asked = PortXmitDataSl { port_select: 1, ..PortXmitDataSl::default() };
    let got: PortXmitDataSl =
        read(&lab.perf(H0, lid, Method::GET, AttrId::PORT_XMIT_DATA_SL, &asked).expect("an answer"));
    assert!(got.xmit_data_sl[0] > 0 && got.xmit_data_sl[5] == 500 && got.xmit_data_sl[1] == 0);
    let asked = PortXmitDataSl { counter_select: 1 << 5, ..asked };
    let got: PortXmitDataSl =
        read(&lab.perf(H0, lid, Method::SET, AttrId::PORT_XMIT_DATA_SL, &asked).expect("an answer"));
    assert!(got.xmit_data_sl[0] > 0 && got.xmit_data_sl[5] == 0);
    let asked = PortRcvDataSl { port_select: 1, ..PortRcvDataSl::default() };
    let got: PortRcvDataSl =
        read(&lab.perf(H0, lid, Method::GET, AttrId::PORT_RCV_DATA_SL, &asked).expect("an answer"));
    assert!(got.rcv_data_sl[0] > 0 && got.rcv_data_sl[1..].iter().all(|words| *words == 0));
}

#[test]
fn waiting_and_congestion_are_told_by_lane() {
    let mut lab = Lab::up();
    let lid = LIDS[S1 as usize];
    of(&mut lab, S1, 2).waited(3, Instant(0), Instant(100 << 20));
    of(&mut lab, S1, 4).waited(0, Instant(0), Instant(9000));
    of(&mut lab, S1, 4).congested(14);
    let waits = |lab: &mut Lab, method, asked: &PortVlXmitWaitCounters| -> [u16; 16] {
        let mad = lab.perf(H0, lid, method, AttrId::PORT_VL_XMIT_WAIT_COUNTERS, asked).expect("an answer");
        read::<PortVlXmitWaitCounters>(&mad).port_vl_xmit_wait
    };
    let asked = PortVlXmitWaitCounters { port_select: 2, ..PortVlXmitWaitCounters::default() };
    let got = waits(&mut lab, Method::GET, &asked);
    assert_eq!((got[0], got[3], got[4]), (0, u16::MAX, 0), "its top");
    let all = PortVlXmitWaitCounters { port_select: 255, counter_select: 1 << 3, ..asked };
    assert_eq!(waits(&mut lab, Method::GET, &all)[0], 9);
    let got = waits(&mut lab, Method::SET, &PortVlXmitWaitCounters { port_vl_xmit_wait: [7; 16], ..all });
    assert_eq!((got[0], got[3]), (9, 28), "what is selected, at each of the ports");
    let asked = SwPortVlCongestion { port_select: 4, ..SwPortVlCongestion::default() };
    let got: SwPortVlCongestion =
        read(&lab.perf(H0, lid, Method::GET, AttrId::SW_PORT_VL_CONGESTION, &asked).expect("an answer"));
    assert_eq!((got.sw_port_vl_congestion[14], got.sw_port_vl_congestion[0]), (1, 0));
    let asked = SwPortVlCongestion { port_select: 1, ..asked };
    let mad = lab.perf(H0, LIDS[H3 as usize], Method::GET, AttrId::SW_PORT_VL_CONGESTION, &asked).expect("an answer");
    assert_eq!(mad.header.status(), Status::BAD_METHOD_ATTRIBUTE, "an adapter has no such thing");
}

#[test]
fn a_sampling_counts_from_its_start_to_its_end_and_takes_no_other_order_meanwhile() {
    let mut lab = Lab::up();
    let lid = LIDS[S1 as usize];
    let control = |lab: &mut Lab, method, asked: &PortSamplesControl| -> PortSamplesControl {
        read(&lab.perf(H0, lid, method, AttrId::PORT_SAMPLES_CONTROL, asked).expect("an answer"))
    };
    let result = |lab: &mut Lab| -> PortSamplesResult {
        let asked = PortSamplesResult::default();
        read(&lab.perf(H0, lid, Method::GET, AttrId::PORT_SAMPLES_RESULT, &asked).expect("an answer"))
    };
    let asked = PortSamplesControl { port_select: 4, ..PortSamplesControl::default() };
    let got = control(&mut lab, Method::GET, &asked);
    assert_eq!((got.port_select, got.sample_status, got.counter_width, got.tag), (4, SampleStatus::DONE, 4, 0));
    let mut order = PortSamplesControl { sample_start: 1000, sample_interval: 5000, tag: 77, ..asked };
    order.counter_select[..3].copy_from_slice(&[1, 3, 0x4000]);
    let got = control(&mut lab, Method::SET, &order);
    assert_eq!((got.sample_status, got.tag, got.counter_select[2]), (SampleStatus::STARTED, 77, 0));
    let refused = PortSamplesControl { tag: 78, ..order };
    assert_eq!(control(&mut lab, Method::SET, &refused).tag, 77);
    of(&mut lab, S1, 4).sent(9, 900, 0, false);
    lab.pass(Duration::from_millis(2));
    let got = result(&mut lab);
    assert_eq!((got.sample_status, got.tag, got.counters[0]), (SampleStatus::RUNNING, 77, 0), "what was before");
    of(&mut lab, S1, 4).sent(2, 144, 0, false);
    assert_eq!(result(&mut lab).counters[..2], [144, 2]);
    lab.pass(Duration::from_millis(5));
    of(&mut lab, S1, 4).sent(1, 72, 0, false);
    let got = result(&mut lab);
    assert_eq!((got.sample_status, got.counters[0], got.counters[1]), (SampleStatus::DONE, 144, 2));
    assert_eq!(control(&mut lab, Method::SET, &refused).tag, 78);
    let asked = PortSamplesControl { port_select: 200, ..order };
    let mad = lab.perf(H0, lid, Method::SET, AttrId::PORT_SAMPLES_CONTROL, &asked).expect("an answer");
    assert_eq!(mad.header.status(), Status::INVALID_FIELD);
}
