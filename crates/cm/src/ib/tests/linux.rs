//! Byte-for-byte comparison with Linux 6.1 on Soft-RoCE: captures of rping, udaddy, and a request without a listener.
//! Random values, the communication and transaction ids of either side, are taken from the capture.

use super::*;
use crate::ib::limits::LISTENER_GRACE;
use weft_wire::cm::ServiceId;

const REQ: &str = "010702030000000000000002954e3d0b00100000000000000b3d4e95000000000000000001061c06505400fffe77000200000000\
    000000000000110100000001000000a0e17694a7ffff37f0ffffffff00000000000000000000ffff0a4d0002000000000000000000\
    00ffff0a4d0001522a40000040009800000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000040ada20000000000000000000000000a4d00020000000000000000000000000a4d0001";
const REP: &str = "010702030000000000000002954e3d0b0013000000000000f2d5e1d30b3d4e950000000000001100000000003433e3000101\
    78e0505400fffe770001";
const RTU: &str = "010702030000000000000002954e3d0b00140000000000000b3d4e95f2d5e1d3";
const DREQ: &str = "010702030000000000000002954e3d0b00150000000000000b3d4e95f2d5e1d3000011";
const DREP: &str = "010702030000000000000002954e3d0b0016000000000000f2d5e1d30b3d4e95";
const REJ: &str = "010702030000000000000002954e3d0b001200000000000000000000\
    0b3d4e9500000008";
const SIDR_REQ: &str = "010702030000000000000002954e3d0f00170000000000000f3d4e95ffff00000000000001111c060040814f000000000000\
    0000000000000a4d00020000000000000000000000000a4d0001";
const SIDR_REP: &str =
    "010702030000000000000002954e3d0f00180000000000000f3d4e9500000000000015000000000001111c0601234567";

/// Positions of the transaction id, the sender's id, and the receiver's.
const TID: std::ops::Range<usize> = 8..16;
const LOCAL: std::ops::Range<usize> = 24..28;
const REMOTE: std::ops::Range<usize> = 28..32;

fn mad(hex: &str) -> MadBytes {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut bytes = [0; 256];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    }
    bytes
}

/// Copies the random values of another datagram into this one.
fn with(mut bytes: MadBytes, from: &MadBytes, places: &[std::ops::Range<usize>]) -> MadBytes {
    for place in places {
        bytes[place.clone()].copy_from_slice(&from[place.clone()]);
    }
    bytes
}

fn ids(bytes: &mut MadBytes, place: std::ops::Range<usize>, id: ConnId) {
    bytes[place].copy_from_slice(&id.0.to_be_bytes());
}

fn sent(cm: &mut Cm) -> MadBytes {
    cm.poll_transmit().expect("a datagram").1
}

/// Private data of the IP CM service in the capture.
fn private_data(bytes: &MadBytes, at: usize) -> Vec<u8> {
    bytes[24 + at..][..36].to_vec()
}

fn rping() -> ReqParams {
    ReqParams {
        primary: Path { flow_label: 0x522a4, rate: 0, ..path(0) },
        initiator_depth: 1,
        rnr_retry_count: 7,
        ece: Ece::default(),
        private_data: private_data(&mad(REQ), 140),
        ..req(0)
    }
}

#[test]
fn the_active_side_sends_what_linux_sends() {
    let mut net = Net::new();
    let cm = &mut net.ends[0];
    let active = cm.send_req(net.now, &rping()).unwrap();
    let own = sent(cm);
    assert_eq!(with(own, &mad(REQ), &[TID, LOCAL]), mad(REQ));
    assert_eq!(own[LOCAL], active.0.to_be_bytes());

    let mut rep = with(mad(REP), &own, &[TID]);
    ids(&mut rep, REMOTE, active);
    cm.handle_mad(net.now, &address(0), &rep);
    let event = cm.poll_event().unwrap();
    let EventKind::RepReceived(got) = event.kind else { panic!("{event:?}") };
    assert_eq!((got.remote_qpn, got.remote_ca_guid, got.starting_psn), (0x11, GUIDS[1], 0x34_33e3));
    assert_eq!((got.target_ack_delay, got.rnr_retry_count, got.responder_resources), (15, 7, 1));
    cm.send_rtu(net.now, active, &[]).unwrap();
    assert_eq!(with(sent(cm), &mad(RTU), &[TID, LOCAL]), mad(RTU));
    cm.send_dreq(net.now, active, &[]).unwrap();
    assert_eq!(with(sent(cm), &mad(DREQ), &[TID, LOCAL]), mad(DREQ));
    let mut drep = with(mad(DREP), &own, &[TID]);
    ids(&mut drep, REMOTE, active);
    cm.handle_mad(net.now, &address(0), &drep);
    assert_eq!(cm.poll_event().map(|event| event.kind), Some(EventKind::DrepReceived));
}

#[test]
fn the_passive_side_sends_what_linux_sends() {
    let mut net = Net::new();
    let cm = &mut net.ends[1];
    cm.listen(ServiceId::of_port_space(0x0106, 7174).0, u64::MAX).unwrap();
    cm.handle_mad(net.now, &address(1), &mad(REQ));
    let event = cm.poll_event().unwrap();
    let EventKind::ReqReceived(got) = event.kind else { panic!("{event:?}") };
    assert_eq!(event.private_data[..36], private_data(&mad(REQ), 140));
    assert_eq!((got.primary.flow_label, got.primary.packet_life_time, got.primary.mtu), (0x522a4, 18, Mtu::Mtu1024));
    assert_eq!((got.remote_qpn, got.starting_psn, got.retry_count), (0x11, 0xe1_7694, 7));
    let passive = event.conn;
    let answer = RepParams {
        qpn: 0x11,
        responder_resources: 1,
        rnr_retry_count: 7,
        ece: Ece::default(),
        private_data: Vec::new(),
        ..rep(1)
    };
    cm.send_rep(net.now, passive, &answer).unwrap();
    assert_eq!(with(sent(cm), &mad(REP), &[LOCAL]), mad(REP));
    let mut rtu = mad(RTU);
    ids(&mut rtu, REMOTE, passive);
    cm.handle_mad(net.now, &address(1), &rtu);
    assert_eq!(cm.poll_event().map(|event| event.kind), Some(EventKind::RtuReceived));
    let mut dreq = mad(DREQ);
    ids(&mut dreq, REMOTE, passive);
    cm.handle_mad(net.now, &address(1), &dreq);
    assert_eq!(cm.poll_event().map(|event| event.kind), Some(EventKind::DreqReceived));
    cm.send_drep(net.now, passive, &[]).unwrap();
    assert_eq!(with(sent(cm), &mad(DREP), &[LOCAL]), mad(DREP));
}

#[test]
fn who_does_not_listen_rejects_as_linux_does() {
    let mut net = Net::new();
    let cm = &mut net.ends[1];
    cm.handle_mad(net.now, &address(1), &mad(REQ));
    cm.handle_timeout(net.now + LISTENER_GRACE);
    assert_eq!(sent(cm), mad(REJ));
    assert_eq!((cm.connections(), cm.poll_event()), (0, None));
}

#[test]
fn services_are_resolved_as_linux_does() {
    let mut net = Net::new();
    let service_id = ServiceId::of_port_space(0x0111, 7174).0;
    let (to, pkey, private_data) = (address(0), 0xffff, private_data(&mad(SIDR_REQ), 16));
    let params = SidrReqParams { to, service_id, pkey, timeout_ms: 4096, max_cm_retries: 15, private_data };
    let asker = net.ends[0].send_sidr_req(net.now, &params).unwrap();
    let own = sent(&mut net.ends[0]);
    assert_eq!(with(own, &mad(SIDR_REQ), &[TID, LOCAL]), mad(SIDR_REQ));

    let cm = &mut net.ends[1];
    cm.listen(service_id, u64::MAX).unwrap();
    cm.handle_mad(net.now, &address(1), &mad(SIDR_REQ));
    let asked = cm.poll_event().unwrap().conn;
    cm.send_sidr_rep(net.now, asked, &SidrRepParams { qpn: 0x15, qkey: 0x0123_4567, ..SidrRepParams::default() })
        .unwrap();
    assert_eq!(sent(cm), mad(SIDR_REP));

    let mut rep = with(mad(SIDR_REP), &own, &[TID]);
    ids(&mut rep, LOCAL, asker);
    net.ends[0].handle_mad(net.now, &address(0), &rep);
    let EventKind::SidrRepReceived(got) = net.ends[0].poll_event().unwrap().kind else { panic!() };
    assert_eq!((got.qpn, got.qkey, got.status), (0x15, 0x0123_4567, SidrStatus::SUCCESS));
}
