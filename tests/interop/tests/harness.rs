//! Tests of the test bench: labs, pairs, timeouts and cleanup, with programs that need no RDMA.

use std::path::Path;
use std::time::{Duration, Instant};
use weft_interop::{Lab, Shape, Who, skip};

#[test]
fn two_namespaces_exchange_tcp() {
    if !skip::have("two_namespaces_exchange_tcp", &["ip", "qperf"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 9000 }).expect("a lab");
    let mut server = lab.start_bare(lab.server(), Who::Ordinary, &["qperf"]).expect("a server");
    assert!(server.wait_listening(19765, Duration::from_secs(5)), "{}", server.text());
    let words = ["qperf", lab.server().v4, "-t", "1", "tcp_lat"];
    let client = lab.start_bare(lab.client(), Who::Root, &words).expect("a client");
    let ended = client.wait(Duration::from_secs(10));
    assert!(ended.ok() && ended.text.contains("latency"), "{}", ended.report());
}

#[test]
fn a_lab_leaves_nothing_behind() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let stray = lab.start_bare(lab.client(), Who::Root, &["setsid", "-f", "sleep", "60"]).expect("starts");
    assert!(stray.wait(Duration::from_secs(5)).ok());
    let netns = Path::new("/run/netns").join(&lab.client().netns);
    let pids = lab.pids(lab.client());
    assert_eq!(pids.len(), 1, "the stray process is seen");
    drop(lab);
    assert!(!netns.exists());
    let until = Instant::now() + Duration::from_secs(2);
    let alive = || std::fs::read_to_string(format!("/proc/{}/cmdline", pids[0])).is_ok_and(|l| l.contains("sleep"));
    while alive() {
        assert!(Instant::now() < until, "the stray process lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_that_hangs_is_killed_in_time() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let started = Instant::now();
    let words = ["sh", "-c", "echo before; sleep 60 & wait"];
    let ended = lab.start_bare(lab.client(), Who::Ordinary, &words).expect("starts");
    let ended = ended.wait(Duration::from_millis(300));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(!ended.ok() && ended.text.contains("before"), "{}", ended.report());
    assert!(ended.how().contains("killed after"));
}
