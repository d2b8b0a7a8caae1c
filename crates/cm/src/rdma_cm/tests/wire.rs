//! Bit-for-bit comparison with Linux: the same calls give the datagrams of a capture, random numbers aside.

use super::lab::{Lab, at, param};
use crate::ib::limits::LISTENER_GRACE;
use crate::rdma_cm::*;

/// From captures of rping and udaddy between two kernels 6.1 with Soft-RoCE; trailing zeros are left out.
const REQ_V4: &str = "010702030000000000000002954e3d0b00100000000000000b3d4e95000000000000000001061c06505400fffe77\
    000200000000000000000000110100000001000000a0e17694a7ffff37f0ffffffff00000000000000000000ffff0a4d0002000000000000\
    00000000ffff0a4d0001522a4000004000980000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000040ada20000000000000000000000000a4d00020000000000000000000000000a4d0001";
const REQ_V6: &str = "010702030000000000000002954e3d0a00100000000000000a3d4e95000000000000000001061c06505400fffe77\
    000200000000000000000000120100000001000000a0ce59e5a7ffff37f0fffffffffd770000000000000000000000000002fd7700000000\
    0000000000000000000124663000004000980000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000609603fd770000000000000000000000000002fd770000000000000000000000000001";
const REP: &str = "010702030000000000000002954e3d0b0013000000000000f2d5e1d30b3d4e950000000000001100000000003433e300\
    010178e0505400fffe770001";
const RTU: &str = "010702030000000000000002954e3d0b00140000000000000b3d4e95f2d5e1d3";
const DREQ: &str = "010702030000000000000002954e3d0b00150000000000000b3d4e95f2d5e1d300001100";
const DREP: &str = "010702030000000000000002954e3d0b0016000000000000f2d5e1d30b3d4e95";
const SIDR_REQ: &str = "010702030000000000000002954e3d0f00170000000000000f3d4e95ffff00000000000001111c060040814f00\
    00000000000000000000000a4d00020000000000000000000000000a4d0001";
const SIDR_REP: &str = "010702030000000000000002954e3d0f00180000000000000f3d4e9500000000000015000000000001111c0601\
    234567";
const REJ: &str = "010702030000000000000002954e3d02001200000000000000000000023d4e9500000008";

/// Returns the bytes of a datagram with its random fields cleared: transaction id, communication ids, and first PSN.
fn plain(mut mad: MadBytes) -> MadBytes {
    const TID: std::ops::Range<usize> = 8..16;
    const COMM_ID: std::ops::Range<usize> = 24..28;
    const REMOTE_COMM_ID: std::ops::Range<usize> = 28..32;
    mad[TID].fill(0);
    mad[COMM_ID].fill(0);
    match mad[17] {
        0x10 => mad[24 + 44..24 + 47].fill(0),
        0x13 => mad[24 + 20..24 + 23].fill(0),
        _ => {}
    }
    if matches!(mad[17], 0x12..=0x16) {
        mad[REMOTE_COMM_ID].fill(0);
    }
    mad
}

fn captured(hex: &str) -> MadBytes {
    let mut mad = [0; 256];
    let digits: Vec<u8> = hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    for (byte, pair) in mad.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    mad
}

fn lab() -> Lab {
    Lab::between(&["10.77.0.1", "fd77::1"], &["10.77.0.2", "fd77::2"])
}

/// Returns rping's parameters.
fn rping(qp_num: u32) -> ConnParam {
    ConnParam { responder_resources: 1, initiator_depth: 1, ..param(qp_num, &[]) }
}

fn check(lab: &mut Lab, expected: &[&str]) {
    lab.settle();
    let sent: Vec<MadBytes> = std::mem::take(&mut lab.sent).into_iter().map(plain).collect();
    assert_eq!(sent.len(), expected.len());
    for (sent, expected) in sent.iter().zip(expected) {
        let expected = plain(captured(expected));
        let differing: Vec<usize> = (0..256).filter(|at| sent[*at] != expected[*at]).collect();
        assert!(differing.is_empty(), "bytes {differing:?}: {sent:02x?} instead of {expected:02x?}");
    }
}

fn asking(lab: &mut Lab, port_space: PortSpace, src: SockAddr, dst: SockAddr, qp_num: u32) -> IdNumber {
    let client = lab.hosts[1].service.open_channel(ClientId(1)).unwrap();
    let client = super::lab::Program { host: 1, client: ClientId(1), channel: client };
    let id = lab.id_of(client, port_space, 2);
    lab.order(client, Command::Bind { id, addr: src });
    lab.route(client, id, dst);
    lab.order(client, Command::Connect { id, param: rping(qp_num), ece: Ece::default() });
    id
}

#[test]
fn a_connection_s_messages() {
    let mut lab = lab();
    let (server, client) = (lab.program(0), lab.program(1));
    lab.listener(server, at("0.0.0.0", 7174), 1);
    let id = asking(&mut lab, PortSpace::Tcp, at("10.77.0.2", 0xada2), at("10.77.0.1", 7174), 0x11);
    check(&mut lab, &[REQ_V4]);
    let answering = lab.event(server, EventKind::ConnectRequest).id;
    let param = Some(rping(0x11));
    lab.order(server, Command::Accept { id: answering, cookie: 1, param, ece: Ece::default() });
    check(&mut lab, &[REP]);
    lab.confirm(client, id);
    check(&mut lab, &[RTU]);
    lab.order(client, Command::Disconnect { id });
    check(&mut lab, &[DREQ]);
    lab.order(server, Command::Disconnect { id: answering });
    check(&mut lab, &[DREP]);
}

#[test]
fn a_request_over_ipv6() {
    let mut lab = lab();
    let (server, _) = (lab.program(0), lab.program(1));
    lab.listener(server, at("::", 7174), 1);
    asking(&mut lab, PortSpace::Tcp, at("fd77::2", 0x9603), at("fd77::1", 7174), 0x12);
    check(&mut lab, &[REQ_V6]);
}

#[test]
fn a_datagram_service_s_messages() {
    let mut lab = lab();
    let (server, _) = (lab.program(0), lab.program(1));
    let listener = lab.udp(server);
    lab.order(server, Command::Bind { id: listener, addr: at("0.0.0.0", 7174) });
    lab.order(server, Command::Listen { id: listener, backlog: 1 });
    asking(&mut lab, PortSpace::Udp, at("10.77.0.2", 0x814f), at("10.77.0.1", 7174), 0x14);
    check(&mut lab, &[SIDR_REQ]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    lab.order(server, Command::Accept { id, cookie: 1, param: Some(rping(0x15)), ece: Ece::default() });
    check(&mut lab, &[SIDR_REP]);
}

#[test]
fn nobody_listens() {
    let mut lab = lab();
    lab.program(1);
    asking(&mut lab, PortSpace::Tcp, at("10.77.0.2", 0xc724), at("10.77.0.1", 9999), 0x22);
    lab.pass(LISTENER_GRACE);
    lab.sent.remove(0);
    check(&mut lab, &[REJ]);
}
