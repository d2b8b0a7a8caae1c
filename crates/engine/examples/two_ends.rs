//! A bench of the pump alone, without daemon and C interface, for profiling: run one end in each of two network
//! namespaces (or both in one, with --slot 1 and --slot 2), with the same directory to meet in.
//!
//! ```text
//! two_ends write_bw|send_bw|send_lat --slot N --here IP --there IP --size BYTES --count N --dir DIR [--server]
//! ```

#[path = "../tests/loopback/node.rs"]
#[allow(dead_code)]
mod node;

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use node::{Node, now};
use weft_verbs::{Mtu, RemoteTarget, SendFlags, SendOp, SendWr, Wc, WcStatus};

/// Maximum number of posted sends without a completion.
const DEPTH: usize = 128;

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().expect("a mode");
    let mut options: HashMap<String, String> = HashMap::new();
    let mut server = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--server" => server = true,
            name => {
                options.insert(name.trim_start_matches('-').into(), args.next().expect("a value"));
            }
        }
    }
    let number = |name: &str, default: usize| options.get(name).map_or(default, |v| v.parse().expect("a number"));
    let ip = |name: &str| options[name].parse::<IpAddr>().expect("an address");
    let (slot, size, count) = (number("slot", 1), number("size", 8), number("count", 100_000));
    let mtu = Mtu::at_most(number("mtu", 4096)).expect("an MTU");
    let mut node = node::one(slot as u32, ip("here"), "", size.max(4096) * 2);

    let me = format!("{} {} {}", node.qpn, node.addr(), node.mr.rkey);
    let dir = &options["dir"];
    let role = |server| if server { "server" } else { "client" };
    std::fs::write(format!("{dir}/{}.tmp", role(server)), me).expect("the directory");
    std::fs::rename(format!("{dir}/{}.tmp", role(server)), format!("{dir}/{}", role(server))).expect("the directory");
    let peer = loop {
        match std::fs::read_to_string(format!("{dir}/{}", role(!server))) {
            Ok(text) => break text.split(' ').map(|n| n.parse::<u64>().expect("a number")).collect::<Vec<_>>(),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    node.connect(peer[0] as u32, ip("there"), mtu);
    let remote = RemoteTarget { addr: peer[1], rkey: peer[2] as u32 };
    for _ in 0..DEPTH {
        node.recv(size.max(4096), size);
    }
    if !server {
        std::thread::sleep(Duration::from_millis(100));
    }
    let start = Instant::now();
    match (mode.as_str(), server) {
        ("write_bw", false) => bandwidth(&mut node, SendOp::Write(remote), size, count),
        ("send_bw", false) => bandwidth(&mut node, SendOp::Send, size, count),
        ("send_lat", false) => latency(&mut node, size, count, true),
        ("send_lat", true) => latency(&mut node, size, count, false),
        ("send_bw", true) => sink(&mut node, size, count),
        _ => loop {
            node.turn();
        },
    }
    if !server {
        let time = start.elapsed().as_secs_f64();
        match mode.as_str() {
            "send_lat" => println!("{mode} {size} B: {:.2} us one way", time * 1e6 / count as f64 / 2.0),
            _ => println!(
                "{mode} {size} B: {:.1} MB/s, {:.3} M messages/s",
                (size * count) as f64 / time / 1e6,
                count as f64 / time / 1e6
            ),
        }
    }
    println!("{:?}", node.pump.stack.stats());
    // Answer the peer's remaining requests.
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        node.turn();
    }
}

/// As `Engine::poll_cq` does.
fn poll(node: &mut Node, wcs: &mut [Wc]) -> usize {
    let pump = &mut node.pump;
    let mut n = pump.hca.poll_cq(node.cq, wcs).expect("a queue");
    if n == 0 {
        pump.turn(now(), false);
        n = pump.hca.poll_cq(node.cq, wcs).expect("a queue");
    }
    assert!(wcs[..n].iter().all(|wc| wc.status == WcStatus::Success), "{:?}", &wcs[..n]);
    n
}

fn bandwidth(node: &mut Node, op: SendOp, size: usize, count: usize) {
    let mut wcs = [Wc::default(); 16];
    let (mut posted, mut done) = (0, 0);
    // The cost of copying payload depends on its position in its page.
    let offset = std::env::var("OFFSET").map_or(0, |v| v.parse().expect("a number"));
    let sge = node.sge(offset, size);
    while done < count {
        let mut any = false;
        while posted < count && posted - done < DEPTH {
            let flags = SendFlags::SIGNALED | if size <= 64 { SendFlags::INLINE } else { SendFlags::empty() };
            let wr = SendWr { wr_id: 0, flags, op, sges: &[sge], ud: None, xrc_srqn: None };
            node.pump.hca.post_send(now(), node.qp, &wr).expect("room");
            posted += 1;
            any = true;
        }
        if any {
            node.pump.transmit(now());
        }
        done += poll(node, &mut wcs);
    }
}

fn sink(node: &mut Node, size: usize, count: usize) {
    let mut wcs = [Wc::default(); 16];
    let mut got = 0;
    while got < count {
        let n = poll(node, &mut wcs);
        for _ in 0..n {
            node.recv(size.max(4096), size);
        }
        got += n;
    }
}

fn latency(node: &mut Node, size: usize, count: usize, first: bool) {
    let mut wcs = [Wc::default(); 16];
    let sge = node.sge(0, size);
    let wr = SendWr {
        wr_id: 1,
        flags: SendFlags::SIGNALED | if size <= 64 { SendFlags::INLINE } else { SendFlags::empty() },
        op: SendOp::Send,
        sges: &[sge],
        ud: None,
        xrc_srqn: None,
    };
    let (mut sent, mut received, mut completed) = (0, 0, 0);
    while received < count || completed < count {
        if sent < count && (if first { sent == received } else { sent < received }) {
            node.pump.hca.post_send(now(), node.qp, &wr).expect("room");
            node.pump.transmit(now());
            sent += 1;
        }
        let n = poll(node, &mut wcs);
        for wc in &wcs[..n] {
            if wc.wr_id == 2 {
                node.recv(size.max(4096), size);
                received += 1;
            } else {
                completed += 1;
            }
        }
    }
}
