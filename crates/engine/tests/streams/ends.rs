//! Ends of streams: closes of either side, resets, destruction, and connections that no queue pair takes.

use std::io::{Read, Write};
use std::net::TcpStream;

use weft_verbs::{QpState, SendOp, Wc, WcStatus};
use weft_wire::iwarp::{Body, RdmapOpcode, SegmentHeader, Tagged};

use crate::node::{Node, PATIENCE, connection, now, pair, turn_until, weft};

fn is_flushed(wcs: &[Wc]) -> bool {
    wcs.iter().all(|wc| wc.status == WcStatus::WrFlushErr)
}

/// The first bytes of the FPDU of an RDMA WRITE of `len` bytes.
pub fn begin_write(stag: u32, offset: u64, len: usize) -> Vec<u8> {
    let header = SegmentHeader::new(RdmapOpcode::WRITE, true, Body::Write(Tagged::new(stag, offset))).write();
    let header = header.as_slice();
    let mut bytes = ((header.len() + len) as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(header);
    bytes
}

/// A node whose peer is the test itself.
pub fn node_and_peer(bytes: usize) -> (Node, TcpStream) {
    let mut node = Node::new(1, bytes);
    let [near, far] = connection();
    node.open(near, weft());
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    (node, far)
}

#[test]
fn a_close_of_one_side_ends_both_and_each_end_is_reported_once() {
    for closer in [0, 1] {
        let mut nodes = pair(4096, weft());
        nodes.iter_mut().for_each(|node| node.recv(0, 4096));
        let qpn = nodes[closer].qpn;
        nodes[closer].pump.close_stream(now(), qpn);
        nodes[closer].pump.transmit(now());
        let [a, b] = &mut nodes;
        let got = turn_until([a, b], |nodes, got| {
            nodes.iter().all(|node| !node.ended.is_empty()) && got.iter().all(|wcs| !wcs.is_empty())
        });
        assert!(got.iter().all(|wcs| wcs.len() == 1 && is_flushed(wcs)));
        for node in &mut nodes {
            assert_eq!((node.state(), node.ended.as_slice()), (QpState::Err, &[node.qpn][..]));
            assert!(!node.pump.streams.are_open());
            // As rdma_disconnect does.
            node.modify(QpState::Sqd).unwrap();
            node.turn();
            assert_eq!((node.state(), node.ended.len()), (QpState::Err, 1));
        }
    }
}

#[test]
fn both_sides_may_close_at_once() {
    let mut nodes = pair(4096, weft());
    for (node, state) in nodes.iter_mut().zip([QpState::Sqd, QpState::Err]) {
        node.modify(state).unwrap();
    }
    let [a, b] = &mut nodes;
    turn_until([a, b], |nodes, _| nodes.iter().all(|node| node.ended.len() == 1));
    assert!(nodes.iter().all(|node| !node.pump.streams.are_open() && node.state() == QpState::Err));
}

#[test]
fn a_close_sends_what_tcp_has_taken() {
    const LEN: usize = 1 << 20;
    let mut nodes = pair(LEN, weft());
    let remote = nodes[1].target(0);
    nodes[0].memory.fill(7);
    nodes[0].send(SendOp::Write(remote), 0, LEN);
    let [a, b] = &mut nodes;
    turn_until([a, b], |_, got| got[0].len() == 1);
    nodes[0].modify(QpState::Err).unwrap();
    let [a, b] = &mut nodes;
    turn_until([a, b], |nodes, _| nodes.iter().all(|node| node.ended.len() == 1));
    assert!(nodes[1].memory.iter().all(|byte| *byte == 7));
}

#[test]
fn a_peer_that_resets_in_the_middle_of_a_segment() {
    let (mut node, mut peer) = node_and_peer(65_536);
    node.recv(0, 16);
    let mut bytes = begin_write(node.mr.rkey, node.addr(), 30_000);
    bytes.extend([9; 10_000]);
    peer.write_all(&bytes).unwrap();
    turn_until([&mut node], |[node], _| node.memory[..10_000].iter().all(|byte| *byte == 9));
    // A close with bytes unread is a reset.
    node.send(SendOp::Send, 0, 100);
    assert!(weft_sys::epoll::wait_readable(&peer, PATIENCE).unwrap());
    drop(peer);
    let [got] = turn_until([&mut node], |[node], got| node.ended.len() == 1 && got[0].len() == 2);
    assert!(got[1..].iter().all(|wc| wc.status == WcStatus::WrFlushErr), "{got:?}");
    assert_eq!(node.state(), QpState::Err);
    assert!(!node.pump.streams.are_open());
}

#[test]
fn a_queue_pair_is_destroyed_while_data_waits() {
    const LEN: usize = 8 << 20;
    let (mut node, mut peer) = node_and_peer(LEN);
    node.memory.fill(5);
    let remote = node.target(0);
    node.send(SendOp::Write(remote), 0, LEN);
    turn_until([&mut node], |[node], _| !node.pump.hca.wants_stream());
    node.pump.hca.destroy_qp(node.qp).unwrap();
    node.pump.transmit(now());
    node.turn();
    assert_eq!(node.ended, [node.qpn]);
    // The bytes that TCP has taken arrive, then the end: the peer's own bytes do not turn it into a reset.
    peer.write_all(&[0; 1000]).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match peer.read(&mut bytes).unwrap() {
            0 => break,
            count => total += count,
        }
        node.turn();
    }
    assert!(total > 0 && total < LEN);
    assert!(node.pump.streams.are_open(), "it waits for the peer's end");
    assert!(node.pump.next_deadline().is_some());
    drop(peer);
    turn_until([&mut node], |[node], _| !node.pump.streams.are_open());
    assert_eq!(node.ended.len(), 1);
}

#[test]
fn a_peer_that_does_not_end_is_cut() {
    let (mut node, mut peer) = node_and_peer(4096);
    node.pump.hca.destroy_qp(node.qp).unwrap();
    node.turn();
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    let deadline = node.pump.streams.poll_timeout().unwrap();
    node.pump.turn(deadline, true);
    assert!(!node.pump.streams.are_open() && node.pump.streams.poll_timeout().is_none());
}

#[test]
fn a_reset_queue_pair_takes_another_stream() {
    let (mut node, mut peer) = node_and_peer(4096);
    node.modify(QpState::Reset).unwrap();
    node.turn();
    assert_eq!((node.ended.len(), node.state()), (1, QpState::Reset));
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    node.modify(QpState::Init).unwrap();
    node.modify(QpState::Rtr).unwrap();
    assert!(node.modify(QpState::Rts).is_err(), "without a stream");
    assert!(node.pump.hca.awaits_stream(node.qp));
    let [near, far] = connection();
    node.open(near, weft());
    assert_eq!((node.state(), node.pump.hca.awaits_stream(node.qp)), (QpState::Rts, false));
    node.modify(QpState::Rts).unwrap();
    drop((peer, far));
    turn_until([&mut node], |[node], _| node.ended.len() == 2 && !node.pump.streams.are_open());
}

#[test]
fn a_connection_that_no_queue_pair_takes_is_closed() {
    let mut node = Node::new(1, 4096);
    for state in [QpState::Reset, QpState::Err] {
        node.modify(state).unwrap();
        let [near, mut far] = connection();
        node.open(near, weft());
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    }
    node.pump.hca.destroy_qp(node.qp).unwrap();
    let [near, mut far] = connection();
    node.open(near, weft());
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(node.pump.streams.take_ended(), [node.qpn; 3]);
    assert!(!node.pump.streams.are_open());
}
