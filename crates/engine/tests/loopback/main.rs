//! Two pumps exchange RC traffic over real sockets of the loopback interface, in a network namespace of their own, so
//! that no other process uses port 4791 there. No daemon is involved: the test makes the socket pool.

mod node;

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use node::{Node, pair};
use weft_verbs::{Mtu, RemoteTarget, SendOp, Wc, WcOpcode, WcStatus};

/// Runs `body` in a new user and network namespace: the test re-executes itself there.
fn in_namespace(test: &str, body: impl FnOnce()) {
    const MARK: &str = "WEFT_TEST_IN_NAMESPACE";
    if std::env::var_os("WEFT_EMULATED").is_some() {
        eprintln!("skipped: QEMU's user emulation has no SO_ATTACH_REUSEPORT_CBPF");
        return;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "`ip` is not installed");
        eprintln!("skipped: `ip` is not installed (package iproute2)");
        return;
    }
    if std::env::var_os(MARK).is_some() {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success(), "the loopback interface could not be brought up");
        return body();
    }
    let status = Command::new("unshare")
        .args(["-Urn", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .status()
        .expect("`unshare` of util-linux is needed");
    assert!(status.success(), "failed within the namespace");
}

fn connected(addresses: [&str; 2], fault: &str, mtu: Mtu, bytes: usize) -> [Node; 2] {
    let ips = addresses.map(|a| a.parse::<IpAddr>().unwrap());
    let mut nodes = pair(ips, fault, bytes);
    let qpns = [nodes[0].qpn, nodes[1].qpn];
    nodes[0].connect(qpns[1], ips[1], mtu);
    nodes[1].connect(qpns[0], ips[0], mtu);
    nodes
}

/// Turns both until each has that many completions.
fn complete(nodes: &mut [Node; 2], want: [usize; 2]) -> [Vec<Wc>; 2] {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut got = [Vec::new(), Vec::new()];
    while got[0].len() < want[0] || got[1].len() < want[1] {
        assert!(Instant::now() < deadline, "stuck at {got:?}, want {want:?}; {:?}", nodes[0].pump.stack.stats());
        for (node, got) in nodes.iter_mut().zip(&mut got) {
            got.extend(node.turn());
        }
    }
    assert!(got.iter().flatten().all(|wc| wc.status == WcStatus::Success), "{got:?}");
    got
}

fn fill(memory: &mut [u8], seed: u32) {
    let mut x = seed | 1;
    for byte in memory {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (x >> 24) as u8;
    }
}

fn exchange(addresses: [&str; 2], fault: &str, mtu: Mtu) {
    const HALF: usize = 1 << 20;
    let mut nodes = connected(addresses, fault, mtu, 2 * HALF);
    for (round, len) in [0, 1, 3, 8, 63, 512, 513, 4095, 4096, 4097, 65_536, 100_001, HALF].into_iter().enumerate() {
        fill(&mut nodes[0].memory[..len], round as u32 + 5);
        nodes[1].memory.fill(0);
        nodes[1].recv(0, HALF);
        nodes[0].send(SendOp::Send, 0, len);
        let [_, received] = complete(&mut nodes, [1, 1]);
        assert_eq!(received[0].byte_len as usize, len);
        assert!(nodes[0].memory[..len] == nodes[1].memory[..len], "SEND of {len} bytes");

        let remote = RemoteTarget { addr: nodes[1].addr() + HALF as u64, rkey: nodes[1].mr.rkey };
        nodes[0].send(SendOp::Write(remote), 0, len);
        complete(&mut nodes, [1, 0]);
        assert!(nodes[0].memory[..len] == nodes[1].memory[HALF..HALF + len], "WRITE of {len} bytes");

        nodes[0].send(SendOp::Read(remote), HALF, len);
        let [read, _] = complete(&mut nodes, [1, 0]);
        assert_eq!(read[0].opcode, WcOpcode::RdmaRead);
        let memory = &nodes[0].memory;
        assert!(memory[..len] == memory[HALF..HALF + len], "READ of {len} bytes");
    }
    let remote = RemoteTarget { addr: nodes[1].addr(), rkey: nodes[1].mr.rkey };
    nodes[1].memory[..8].copy_from_slice(&41u64.to_ne_bytes());
    nodes[0].send(SendOp::FetchAdd { target: remote, add: 1 }, 0, 8);
    complete(&mut nodes, [1, 0]);
    assert_eq!(nodes[0].memory[..8], 41u64.to_ne_bytes());
    assert_eq!(nodes[1].memory[..8], 42u64.to_ne_bytes());
    for node in &nodes {
        let stats = node.pump.stack.stats();
        assert_eq!((stats.tx_refused, stats.tx_unmapped, stats.rx_malformed), (0, 0, 0), "{stats:?}");
        if fault.is_empty() {
            assert_eq!(stats.rx_icrc_errors, 0, "{stats:?}");
        }
    }
    let sent = nodes[0].pump.stack.stats();
    if mtu == Mtu::Mtu4096 && fault.is_empty() {
        assert!(sent.tx_packets > 5 * sent.tx_messages, "packets leave together: {sent:?}");
    }
}

#[test]
fn reliable_traffic_over_ipv4() {
    in_namespace("reliable_traffic_over_ipv4", || {
        for mtu in Mtu::ALL {
            exchange(["127.0.0.1", "127.0.0.2"], "", mtu);
        }
    });
}

#[test]
fn reliable_traffic_over_ipv6() {
    in_namespace("reliable_traffic_over_ipv6", || exchange(["::1", "::1"], "", Mtu::Mtu4096));
}

#[test]
fn faults_are_overcome() {
    in_namespace("faults_are_overcome", || {
        let mild = "loss=1%,reorder=2%,dup=1%,corrupt=0.1%,seed=7";
        let both_ways = "loss=2%,seed=3;loss=2%,corrupt=1%,dup=1%,reorder=1%,delay=100us,dir=out,seed=4";
        for fault in [mild, "loss=10%,seed=1", "delay=300us,seed=2", both_ways] {
            exchange(["127.0.0.1", "127.0.0.2"], fault, Mtu::Mtu1024);
        }
    });
}
