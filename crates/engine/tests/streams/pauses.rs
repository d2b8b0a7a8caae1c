//! Streams whose messages wait for receives.

use std::os::fd::AsFd;
use std::time::Duration;

use weft_sys::epoll;
use weft_verbs::{Instant, QpState, SendOp, Wc, WcStatus};

use crate::node::{Node, PATIENCE, connection, now, pair, turn_until, weft};

const MESSAGES: usize = 100;
const LEN: usize = 10_000;

/// Connects two nodes, and has the first send more than the other has receives for.
fn flooded() -> [Node; 2] {
    let mut nodes = pair(MESSAGES * LEN, weft());
    for nth in 0..MESSAGES {
        nodes[0].memory[nth * LEN..][..LEN].fill(nth as u8);
        nodes[0].send(SendOp::Send, nth * LEN, LEN);
    }
    let [a, b] = &mut nodes;
    turn_until([a, b], |[a, b], _| {
        b.pump.hca.stream_order(b.qp) == Ok(weft_transport::StreamOrder::Pause) && !a.pump.hca.wants_stream()
    });
    nodes
}

fn is_readable(node: &Node, within: Duration) -> bool {
    let set = node.pump.streams.set().unwrap().as_fd().try_clone_to_owned().unwrap();
    epoll::wait_readable(&set, within).unwrap()
}

#[test]
fn a_fast_sender_waits_for_the_receives_of_a_slow_program() {
    let mut nodes = flooded();
    assert!(!is_readable(&nodes[1], Duration::ZERO), "a thread that sleeps on the set is not kept awake");
    let end = nodes[1].pump.next_deadline().unwrap();
    assert!(end > now() && end < now() + Duration::from_secs(2), "it cannot wait for ever");
    for nth in 0..MESSAGES {
        nodes[1].recv(nth * LEN, LEN);
        nodes[1].pump.follow_stream_orders();
        let [a, b] = &mut nodes;
        let [_, got] = turn_until([a, b], |_, got| !got[1].is_empty());
        assert!(matches!(got[..], [Wc { status: WcStatus::Success, .. }]), "{got:?}");
    }
    assert!(nodes[0].memory == nodes[1].memory);
    assert!(nodes.iter().all(|node| node.state() == QpState::Rts && node.ended.is_empty()));
    assert!(nodes[1].pump.next_deadline().is_none_or(|at| at > Instant(0)));
}

#[test]
fn receives_of_a_shared_queue_go_to_the_streams_that_wait() {
    let mut node = Node::new(1, 4096);
    let srq = node.share_receives();
    let mut peers = Vec::new();
    for nth in 0..3 {
        let mut peer = Node::new(2 + nth, 4096);
        let [near, far] = connection();
        (node.qp, node.qpn) = node.create_qp();
        node.open(near, weft());
        peer.open(far, weft());
        peer.send(SendOp::Send, 0, 100);
        peer.send(SendOp::Send, 0, 100);
        peers.push((node.qp, peer));
    }
    let mut received = 0;
    while received < 6 {
        let [_] = turn_until([&mut node], |[node], _| {
            peers.iter().any(|(qp, _)| node.pump.hca.stream_order(*qp) == Ok(weft_transport::StreamOrder::Pause))
        });
        node.recv_shared(srq, 0, 4096);
        node.pump.follow_stream_orders();
        received += turn_until([&mut node], |_, got| !got[0].is_empty())[0].len();
    }
}

#[test]
fn a_paused_stream_whose_peer_resets_keeps_nobody_awake() {
    let [sender, mut node] = flooded();
    // A close with bytes unread is a reset.
    node.send(SendOp::Send, 0, LEN);
    drop(sender);
    assert!(is_readable(&node, PATIENCE), "the reset");
    node.turn();
    assert!(!is_readable(&node, Duration::ZERO));
    let end = node.pump.next_deadline().unwrap();
    node.pump.turn(end, true);
    let [got] = turn_until([&mut node], |[node], _| !node.ended.is_empty());
    assert!(got.iter().all(|wc| wc.status == WcStatus::WrFlushErr || wc.status == WcStatus::Success), "{got:?}");
    assert_eq!(node.state(), QpState::Err);
}
