//! Pumps with iWARP queue pairs, over real TCP connections of the loopback interface: data, ends, full buffers, and
//! memory that the program unmapped. No daemon is involved: the test hands out the sockets.

mod ends;
mod memory;
mod node;
mod pauses;
mod polling;
mod rings;

use std::os::fd::AsFd;

use node::{Node, PATIENCE, connection, now, pair, siw, turn_until, weft};
use weft_iwarp::StreamParams;
use weft_verbs::{QpState, SendOp, WcOpcode, WcStatus};

fn fill(memory: &mut [u8], seed: u32) {
    let mut x = seed | 1;
    for byte in memory {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (x >> 24) as u8;
    }
}

/// Turns both until each has that many completions, all of them good.
fn complete([a, b]: &mut [Node; 2], want: [usize; 2]) -> [Vec<weft_verbs::Wc>; 2] {
    let got = turn_until([a, b], |_, got| got[0].len() >= want[0] && got[1].len() >= want[1]);
    assert!(got.iter().flatten().all(|wc| wc.status == WcStatus::Success), "{got:?}");
    got
}

fn exchange(params: StreamParams) {
    const HALF: usize = 1 << 20;
    let mut nodes = pair(2 * HALF, params);
    for (round, len) in [0, 1, 3, 8, 63, 512, 513, 4097, 65_536, 100_001, HALF].into_iter().enumerate() {
        fill(&mut nodes[0].memory[..len], round as u32 + 5);
        nodes[1].memory.fill(0);
        nodes[1].recv(0, HALF);
        nodes[0].send(SendOp::Send, 0, len);
        let [_, received] = complete(&mut nodes, [1, 1]);
        assert_eq!(received[0].byte_len as usize, len);
        assert!(nodes[0].memory[..len] == nodes[1].memory[..len], "SEND of {len} bytes");

        let remote = nodes[1].target(HALF);
        nodes[0].send(SendOp::Write(remote), 0, len);
        nodes[0].send(SendOp::Read(remote), HALF, len);
        let [done, _] = complete(&mut nodes, [2, 0]);
        assert_eq!(done[1].opcode, WcOpcode::RdmaRead);
        assert!(nodes[0].memory[..len] == nodes[1].memory[HALF..HALF + len], "WRITE of {len} bytes");
        let memory = &nodes[0].memory;
        assert!(memory[..len] == memory[HALF..HALF + len], "READ of {len} bytes");
    }
    assert!(nodes.iter().all(|node| node.ended.is_empty() && node.state() == QpState::Rts));
}

#[test]
fn data_between_peers_of_our_own() {
    exchange(weft());
    exchange(StreamParams { crc: true, ..weft() });
}

#[test]
fn data_in_segments_of_their_own() {
    exchange(siw());
    exchange(StreamParams { crc: false, ..siw() });
}

#[test]
fn a_full_buffer_blocks_a_sender_until_the_peer_reads() {
    const LEN: usize = 8 << 20;
    let mut nodes = [Node::new(1, LEN), Node::new(2, LEN)];
    let sockets = connection();
    // A receive buffer much smaller than a segment would have TCP wait for its timers.
    rustix::net::sockopt::set_socket_send_buffer_size(&sockets[0], 32 << 10).unwrap();
    for (node, socket) in nodes.iter_mut().zip(sockets) {
        node.open(socket, weft());
    }
    fill(&mut nodes[0].memory, 3);
    let remote = nodes[1].target(0);
    nodes[0].send(SendOp::Write(remote), 0, LEN);
    // The peer does not read: the buffers fill, and nothing is left to do at once.
    let [before] = turn_until([&mut nodes[0]], |[node], _| !node.pump.hca.wants_stream());
    assert!(before.is_empty());
    assert_ne!(nodes[0].pump.poll_timeout(), Some(weft_verbs::Instant(0)), "a blocked sender does not spin");
    complete(&mut nodes, [1, 0]);
    // The last bytes are in the peer's buffer.
    let [a, b] = &mut nodes;
    turn_until([a, b], |[a, b], _| a.memory == b.memory);
}

#[test]
fn many_streams_of_one_process_take_turns() {
    const STREAMS: usize = 20;
    const LEN: usize = 50_000;
    let (mut hub, mut peers) = (Node::new(1, STREAMS * LEN), Vec::new());
    for nth in 0..STREAMS {
        let mut peer = Node::new(2 + nth as u32, LEN);
        let [near, far] = connection();
        (hub.qp, hub.qpn) = hub.create_qp();
        hub.open(near, weft());
        peer.open(far, weft());
        fill(&mut peer.memory, nth as u32);
        let to = hub.target(nth * LEN);
        peer.send(SendOp::Write(to), 0, LEN);
        let to = hub.target(nth * LEN);
        peer.send(SendOp::Read(to), 0, 0);
        peers.push(peer);
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    let is_there = |hub: &Node, nth: usize, peer: &Node| hub.memory[nth * LEN..][..LEN] == peer.memory;
    while !peers.iter().enumerate().all(|(nth, peer)| is_there(&hub, nth, peer)) {
        assert!(std::time::Instant::now() < deadline, "stuck");
        hub.turn();
        peers.iter_mut().for_each(|peer| drop(peer.turn()));
    }
}

#[test]
fn a_sleeper_wakes_for_bytes_of_a_stream() {
    let [mut a, mut b] = pair(4096, weft());
    turn_until([&mut a, &mut b], |_, _| true);
    b.recv(0, 4096);
    a.send(SendOp::Send, 0, 100);
    let set = b.pump.streams.set().unwrap().as_fd().try_clone_to_owned().unwrap();
    assert!(weft_sys::epoll::wait_readable(&set, PATIENCE).unwrap());
    turn_until([&mut a, &mut b], |_, got| got[1].len() == 1);
    assert!(!weft_sys::epoll::wait_readable(&set, std::time::Duration::ZERO).unwrap(), "all is read");
    assert!(b.pump.next_deadline().is_none_or(|at| at > now()));
}
