//! Streams whose data takes the rings between two processes of one host: they carry no bytes, and tell the end.

use std::os::fd::OwnedFd;

use weft_ipc::StreamGrant;
use weft_link::shm::{Host, HostConfig, PAIR_BYTES, PeerConfig, directory_file};
use weft_sys::event::EventFd;
use weft_sys::shared;
use weft_verbs::{QpState, SendOp, WcStatus};

use crate::node::{Node, connection, now, turn_until, weft};

/// Makes two ends whose processes have met; each opens its connection.
fn met(bytes: usize) -> [Node; 2] {
    let mut nodes = [Node::new(1, bytes), Node::new(2, bytes)];
    let pair: OwnedFd = shared::create_file("test-pair", PAIR_BYTES).unwrap().into();
    let doorbells: [OwnedFd; 2] = [(); 2].map(|()| EventFd::new().unwrap().into());
    for (side, node) in nodes.iter_mut().enumerate() {
        let (slot, peer) = (side as u32 + 1, 2 - side as u32);
        let generation = |slot: u32| u64::from(slot) + 100;
        let doorbell = doorbells[side].try_clone().unwrap();
        let directory = Some(directory_file().unwrap());
        let config = HostConfig { slot, generation: generation(slot), doorbell, directory };
        node.pump.hca.peers().set_host(Host::new(config).unwrap());
        let config = PeerConfig {
            slot: peer,
            generation: generation(peer),
            pair: pair.try_clone().unwrap(),
            doorbell: doorbells[1 - side].try_clone().unwrap(),
            bell: None,
            process: None,
            directory: None,
            found: false,
            arena: None,
        };
        node.pump.hca.peers().host().unwrap().attach(config).unwrap();
        node.pump.hca.open_rings();
    }
    nodes
}

/// Gives an end its connection to a queue pair of a process of this host.
fn open(node: &mut Node, socket: std::net::TcpStream, peer_qp: u32) {
    let grant = StreamGrant { qp_num: node.qpn, params: weft(), peer_qp: Some(peer_qp) };
    node.pump.open_stream(now(), &grant, OwnedFd::from(socket));
}

fn connected(bytes: usize) -> [Node; 2] {
    let mut nodes = met(bytes);
    let qpns = nodes.each_ref().map(|node| node.qpn);
    for (side, socket) in connection().into_iter().enumerate() {
        open(&mut nodes[side], socket, qpns[1 - side]);
        assert_eq!(nodes[side].state(), QpState::Rts);
    }
    nodes
}

#[test]
fn data_takes_the_ring() {
    const HALF: usize = 1 << 20;
    let mut nodes = connected(2 * HALF);
    for (round, len) in [0, 1, 63, 2049, 65_536, HALF].into_iter().enumerate() {
        nodes[0].memory[..len].fill(round as u8 + 5);
        nodes[1].memory.fill(0);
        nodes[1].recv(0, HALF);
        nodes[0].send(SendOp::Send, 0, len);
        let remote = nodes[1].target(HALF);
        nodes[0].send(SendOp::Write(remote), 0, len);
        nodes[0].send(SendOp::Read(remote), HALF, len);
        let [a, b] = &mut nodes;
        let got = turn_until([a, b], |_, got| got[0].len() == 3 && got[1].len() == 1);
        assert!(got.iter().flatten().all(|wc| wc.status == WcStatus::Success), "{got:?}");
        let sent = &nodes[0].memory[..len];
        assert!(sent == &nodes[1].memory[..len] && sent == &nodes[1].memory[HALF..HALF + len]);
        assert!(sent == &nodes[0].memory[HALF..HALF + len]);
    }
    for node in &nodes {
        assert!(node.pump.streams.are_open() && !node.pump.streams.carry_data());
        let qp = node.pump.hca.qps().next().unwrap();
        assert_eq!((qp.path, qp.stats.tx_packets), ("same-host(ring)", 0));
        assert!(qp.stats.ring_frames_sent > 0);
    }
}

#[test]
fn an_end_comes_behind_the_frames_before_it_and_is_reported_once() {
    let mut nodes = connected(4096);
    nodes[0].recv(0, 100);
    nodes[1].recv(0, 100);
    nodes[1].recv(0, 100);
    nodes[0].send(SendOp::Send, 0, 100);
    nodes[0].modify(QpState::Err).unwrap();
    let [a, b] = &mut nodes;
    let got = turn_until([a, b], |nodes, _| nodes.iter().all(|node| node.ended.len() == 1));
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(got[0].iter().map(|wc| wc.status).collect::<Vec<_>>(), [flushed, flushed]);
    assert_eq!(got[1].iter().map(|wc| wc.status).collect::<Vec<_>>(), [WcStatus::Success, flushed]);
    for node in &mut nodes {
        assert_eq!((node.state(), node.ended.as_slice()), (QpState::Err, &[node.qpn][..]));
        assert!(!node.pump.streams.are_open());
        node.turn();
        assert_eq!(node.ended.len(), 1);
    }
}

#[test]
fn a_destroyed_queue_pair_ends_its_peer() {
    let mut nodes = connected(4096);
    nodes[1].recv(0, 100);
    let qp = nodes[0].qp;
    nodes[0].pump.hca.destroy_qp(qp).unwrap();
    nodes[0].pump.transmit(now());
    let [a, b] = &mut nodes;
    let got = turn_until([a, b], |nodes, _| nodes.iter().all(|node| node.ended.len() == 1));
    assert_eq!(got[1].iter().map(|wc| wc.status).collect::<Vec<_>>(), [WcStatus::WrFlushErr]);
    assert_eq!(nodes[1].state(), QpState::Err);
}

#[test]
fn a_polling_thread_finds_the_end() {
    let mut nodes = connected(4096);
    nodes[0].modify(QpState::Err).unwrap();
    let [a, b] = &mut nodes;
    a.turn();
    let deadline = std::time::Instant::now() + crate::node::PATIENCE;
    while b.state() == QpState::Rts {
        assert!(std::time::Instant::now() < deadline, "stuck");
        b.pump.turn_briefly();
    }
}

#[test]
fn a_peer_that_was_not_met_ends_the_connection() {
    let mut node = Node::new(1, 4096);
    node.recv(0, 100);
    let [near, far] = connection();
    open(&mut node, near, 2 << 14 | 5);
    let got = turn_until([&mut node], |[node], _| node.ended.len() == 1);
    assert_eq!(got[0].iter().map(|wc| wc.status).collect::<Vec<_>>(), [WcStatus::WrFlushErr]);
    assert_eq!((node.state(), node.ended.as_slice()), (QpState::Err, &[node.qpn][..]));
    drop(far);
}
