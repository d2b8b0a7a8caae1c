//! A stream that a polling thread reads again and again wakes no other thread, until a thread goes to sleep.

use std::os::fd::AsFd;
use std::time::Duration;

use weft_sys::epoll;
use weft_verbs::{QpState, SendOp, Wc, WcStatus};

use crate::node::{Node, PATIENCE, connection, now, pair, weft};

/// More messages than it takes to leave a stream to the pollers.
const MESSAGES: usize = 100;

fn wakes(node: &Node, within: Duration) -> bool {
    epoll::wait_readable(node.pump.streams.set().unwrap().as_fd(), within).unwrap()
}

/// Turns a pump as a polling thread does, until it has a completion.
fn poll(node: &mut Node) -> Wc {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        node.pump.turn_briefly();
        let mut wcs = [Wc::default()];
        if node.pump.hca.poll_cq(node.cq, &mut wcs).unwrap() > 0 {
            return wcs[0];
        }
        assert!(std::time::Instant::now() < deadline, "nothing comes");
    }
}

/// Sends one message from the first node to the second, which polls.
fn send_one([a, b]: &mut [Node; 2]) {
    b.recv(0, 64);
    a.send(SendOp::Send, 0, 8);
    assert_eq!((poll(b).status, poll(a).status), (WcStatus::Success, WcStatus::Success));
}

fn send_many(nodes: &mut [Node; 2]) {
    (0..MESSAGES).for_each(|_| send_one(nodes));
}

/// Sends a message that the second node does not poll for.
fn leave_one([a, b]: &mut [Node; 2]) {
    b.recv(0, 64);
    a.send(SendOp::Send, 0, 8);
}

/// Two nodes, of which the second polls so much that the background thread would be parked.
fn polled() -> [Node; 2] {
    let mut nodes = pair(4096, weft());
    nodes[1].pump.streams.allow_unwatched();
    send_many(&mut nodes);
    nodes
}

/// How long to look for a wake-up that must not come.
const SHORTLY: Duration = Duration::from_millis(50);

#[test]
fn a_stream_that_is_polled_wakes_nobody_until_a_thread_goes_to_sleep() {
    let mut nodes = polled();
    leave_one(&mut nodes);
    assert!(!wakes(&nodes[1], SHORTLY));
    assert!(nodes[1].pump.fall_asleep());
    assert!(wakes(&nodes[1], PATIENCE), "what came before the sleep wakes, too");
    assert_eq!(nodes[1].turn().len(), 1);
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
    assert_eq!(poll(&mut nodes[1]).status, WcStatus::Success);
    // The background thread has not parked again since.
    send_many(&mut nodes);
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
}

#[test]
fn the_thread_that_takes_over_watches_every_stream() {
    let mut nodes = polled();
    assert_eq!(nodes[1].turn(), []);
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
}

#[test]
fn without_leave_of_the_background_thread_every_stream_is_watched() {
    let mut nodes = pair(4096, weft());
    send_many(&mut nodes);
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
}

#[test]
fn a_poller_reads_both_the_unwatched_stream_and_the_others() {
    let mut nodes = polled();
    let mut other = Node::new(3, 4096);
    let [near, far] = connection();
    let first = (nodes[1].qp, nodes[1].qpn);
    (nodes[1].qp, nodes[1].qpn) = nodes[1].create_qp();
    nodes[1].open(near, weft());
    other.open(far, weft());
    for _ in 0..3 {
        nodes[1].recv(128, 64);
        other.send(SendOp::Send, 0, 8);
        assert_eq!((poll(&mut nodes[1]).status, poll(&mut other).status), (WcStatus::Success, WcStatus::Success));
        let second = std::mem::replace(&mut nodes[1].qp, first.0);
        send_one(&mut nodes);
        nodes[1].qp = second;
    }
    // The other stream becomes the one to read, and the first is watched again.
    for _ in 0..MESSAGES {
        nodes[1].recv(128, 64);
        other.send(SendOp::Send, 0, 8);
        assert_eq!((poll(&mut nodes[1]).status, poll(&mut other).status), (WcStatus::Success, WcStatus::Success));
    }
    nodes[1].qp = first.0;
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
    assert_eq!(poll(&mut nodes[1]).status, WcStatus::Success);
}

#[test]
fn an_unwatched_stream_that_ends_is_found_and_forgotten() {
    let mut nodes = polled();
    nodes[1].recv(0, 64);
    let qpn = nodes[0].qpn;
    nodes[0].pump.close_stream(now(), qpn);
    nodes[0].pump.transmit(now());
    assert_eq!(poll(&mut nodes[1]).status, WcStatus::WrFlushErr);
    assert_eq!(nodes[1].state(), QpState::Err);
    // A new stream at the same place is watched.
    let [near, far] = connection();
    for (node, socket) in nodes.iter_mut().zip([near, far]) {
        (node.qp, node.qpn) = node.create_qp();
        node.open(socket, weft());
    }
    leave_one(&mut nodes);
    assert!(wakes(&nodes[1], PATIENCE));
}
