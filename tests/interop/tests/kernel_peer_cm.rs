//! Linux's RDMA connection manager over rdma_rxe, in a guest, against Weft's on the host: Debian's programs connect in
//! both directions, over IPv4 and IPv6, path MTU 1024 and (by default a sample) 4096, with and without 1% loss on Weft's
//! side.
//!
//! One guest serves all cases, and one capture of its tap: the ICRC of every packet, management datagrams included, is
//! recomputed.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weft_interop::early::{REFUSED, until_late_enough};
use weft_interop::ends::lasting_cmtime;
use weft_interop::guest::Driver;
use weft_interop::guest_peer::{Listens, Match};
use weft_interop::{Lab, Outcome, Peer, Server, Table, guest, skip, table};

/// MTU of the cable, from which both sides derive the path MTU: 1024 and 4096.
const CABLES: [u32; 2] = [1500, 9000];

/// Programs on both sides. `{server}` stands for the server's address, `{own}` for that of the side itself, `{device}`
/// for its device.
struct Case {
    serve: &'static str,
    connect: &'static str,
    listens: Listens,
    /// The client's output on success.
    prints: &'static str,
    traits: &'static [Trait],
}

/// Special property of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// The program, or the kernel, supports only IPv4.
    V4,
    /// It does not survive lost packets.
    Unreliable,
    /// The server keeps running.
    Stays,
    /// It sends at full speed for seconds: too much for the capture.
    Floods,
    /// A client may come before its server listens, and is rejected: with rxe at both ends too. perftest connects
    /// twice; its server stops listening in between, and both sides sleep for a second. qperf's server announces its
    /// port before it listens.
    Races,
}
use Trait::{Floods, Races, Stays, Unreliable, V4};

/// Tries of a client that comes too early.
const TRIES_MAX: u32 = 9;
/// Delay before perftest's client requests a connection, longer with every try: otherwise a slow guest always loses the
/// race. Packet loss does not help the guest, because it waits for an acknowledgement before it listens.
const HEAD_START: Duration = Duration::from_millis(100);
/// Library that adds the delay.
const LATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel_peer_cm/late.c");

const CASES: &[Case] = &[
    Case {
        serve: "rping -s -V -C 20 -S 10000 -a {server}",
        connect: "rping -c -V -C 20 -S 10000 -a {server}",
        listens: Listens::Cm(7174),
        prints: "",
        traits: &[],
    },
    Case {
        serve: "rping -q -s -V -C 5 -S 100 -a {server}",
        connect: "rping -q -c -v -V -C 5 -S 100 -a {server}",
        listens: Listens::Cm(7174),
        prints: "ping data: rdma-ping-4:",
        traits: &[],
    },
    Case {
        serve: "ucmatose -b {server} -c 8 -C 5 -S 5000",
        connect: "ucmatose -s {server} -c 8 -C 5 -S 5000",
        listens: Listens::Cm(7471),
        prints: "return status 0",
        traits: &[],
    },
    Case {
        serve: "udaddy -b {server} -c 3 -C 5 -S 1000",
        connect: "udaddy -s {server} -c 3 -C 5 -S 1000",
        listens: Listens::Cm(7174),
        prints: "return status 0",
        traits: &[Unreliable],
    },
    Case {
        serve: "mckey -m 239.1.2.3 -b {own} -C 10 -S 1000",
        connect: "mckey -m 239.1.2.3 -b {own} -s -C 10 -S 1000",
        listens: Listens::Group("239.1.2.3"),
        prints: "return status 0",
        // The kernel cannot join IPv6 groups over RoCE v2.
        traits: &[V4, Unreliable],
    },
    Case {
        serve: "cmtime -b {server} -c 50",
        connect: "cmtime -s {server} -c 50",
        listens: Listens::Cm(7471),
        prints: "disconnect",
        traits: &[Stays],
    },
    Case {
        serve: "rstream -b {server} -S 20000 -I 5 -C 10 -T v",
        connect: "rstream -s {server} -S 20000 -I 5 -C 10 -T v",
        listens: Listens::Cm(7471),
        prints: "custom",
        traits: &[],
    },
    Case {
        serve: "riostream -b {server} -S 5000 -I 5 -C 10 -T v",
        connect: "riostream -s {server} -S 5000 -I 5 -C 10 -T v",
        listens: Listens::Cm(7471),
        prints: "custom",
        traits: &[],
    },
    Case {
        serve: "ib_send_bw -R -F -d {device} -n 50 -s 16384",
        connect: "ib_send_bw -R -F -d {device} -n 50 -s 16384 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_write_bw -R -F -d {device} -n 50 -s 16384",
        connect: "ib_write_bw -R -F -d {device} -n 50 -s 16384 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_read_bw -R -F -d {device} -n 50 -s 16384",
        connect: "ib_read_bw -R -F -d {device} -n 50 -s 16384 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_atomic_bw -R -F -d {device} -n 50",
        connect: "ib_atomic_bw -R -F -d {device} -n 50 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_send_lat -c UD -R -F -d {device} -n 50 -s 512",
        connect: "ib_send_lat -c UD -R -F -d {device} -n 50 -s 512 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races, Unreliable],
    },
    Case {
        serve: "qperf",
        connect: "qperf {server} -cm 1 -t 1 rc_bw ver_rc_compare_swap",
        listens: Listens::Tcp(19765),
        prints: "ver_rc_compare_swap:",
        traits: &[V4, Stays, Floods, Races],
    },
    Case {
        serve: "qperf",
        connect: "qperf {server} -cm 1 -t 1 rc_lat rc_rdma_read_lat",
        listens: Listens::Tcp(19765),
        prints: "rc_rdma_read_lat:",
        traits: &[V4, Stays, Floods, Races],
    },
];

const NEEDED: &[&str] =
    &["ip", "cc", "rping", "ucmatose", "ib_send_bw", "qperf", "dumpcap", "/usr/include/rdma/rdma_cma.h"];

#[test]
fn connections_with_the_kernel() {
    if let Some(why) = guest::obstacle() {
        return skip::skip("connections_with_the_kernel", &why);
    }
    if !skip::have("connections_with_the_kernel", NEEDED) {
        return;
    }
    let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
    let peer = Peer::boot(agent, Driver::Rxe, CABLES[0]).expect("a guest with rxe");
    let late = compile(peer.lab()).expect("what has a client wait");
    let sides = Sides { peer, late };
    let peer = &sides.peer;
    let mut table = Table::sampling("kernel peer, CM", 5, 0);
    table::note(&format!("kernel peer, CM: {}", peer.guest().package));
    let capture = peer.capture().expect("a capture of the tap");
    run_all(&mut table, &sides, false);
    let side = peer.lab().client();
    let captured = capture.finish([side.v4, side.v6]);
    run_all(&mut table, &sides, true);
    table.case("every ICRC of both sides is right", || {
        let captured = captured?;
        table::note(&format!("kernel peer, CM: {captured:?}"));
        let counts = captured.v4.into_iter().chain(captured.v6);
        ensure!(counts.min() > Some(0), "a side or a family is missing: {captured:?}");
        Ok(())
    });
    table.case("the kernel has nothing to complain of", || {
        let complaints = peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.finish();
}

/// The guest and the host, and the library that delays a client on the host.
struct Sides {
    peer: Peer,
    late: String,
}

/// Runs all flooding cases, or all others.
fn run_all(table: &mut Table, sides: &Sides, flooding: bool) {
    for cable in CABLES {
        sides.peer.set_mtu(cable).expect("an MTU for both ends");
        for (number, case) in CASES.iter().enumerate().filter(|(_, case)| case.traits.contains(&Floods) == flooding) {
            for server in Server::BOTH {
                let turn = number + usize::from(server == Server::Us) + usize::from(cable > 1500);
                run(table, sides, case, cable, server, turn);
            }
        }
    }
}

/// Runs a case in one direction: over both families, and over one of them with loss.
fn run(table: &mut Table, sides: &Sides, case: &Case, cable: u32, server: Server, turn: usize) {
    let peer = &sides.peer;
    let only_v4 = case.serve.starts_with("cmtime") && !lasting_cmtime();
    let has = |wanted| case.traits.contains(&wanted) || (wanted == V4 && only_v4);
    let lossy_family = !has(V4) && turn.is_multiple_of(2);
    for (v6, lossy) in [(false, false), (true, false), (lossy_family, true)] {
        if v6 && has(V4) || lossy && has(Unreliable) || (table::quick() && (turn > 2 || lossy)) {
            continue;
        }
        // These take seconds, so they alternate between loss and no loss.
        if has(Races) && !has(Unreliable) && lossy != turn.is_multiple_of(2) {
            continue;
        }
        let weather = lossy.then(|| format!("loss=1%,seed={turn}"));
        let address = peer.address(server, v6);
        let label = format!(
            "{} at {address}, MTU {cable}, {}, {server:?} serving",
            case.connect,
            weather.as_deref().unwrap_or("no loss")
        );
        let run = || {
            let (serving, connecting) = peer.devices(server)?;
            let other = if server == Server::Us { Server::Kernel } else { Server::Us };
            let line = |words: &str, own: &str, device: &str| {
                words.replace("{server}", address).replace("{own}", own).replace("{device}", device)
            };
            let mut pair = Match {
                server,
                serve: line(case.serve, address, &serving.name),
                connect: line(case.connect, peer.address(other, v6), &connecting.name),
                listens: case.listens,
                env: Vec::new(),
                limit: Duration::from_secs(60),
                stays: has(Stays),
            };
            let waits = has(Races) && server == Server::Kernel;
            // A receiver of a group is attached some time after it has joined; it waits for ever for what was sent
            // before.
            let (tries, signs): (u32, &[&[&str]]) = match (has(Races), has(Unreliable)) {
                (true, _) => (TRIES_MAX, &[REFUSED]),
                (false, true) => (3, &[&["was killed after"]]),
                (false, false) => (1, &[]),
            };
            let outcome = until_late_enough(tries, signs, |tried| {
                pair.env = weather.iter().map(|weather| ("WEFT_FAULT", weather.clone())).collect();
                if waits {
                    let by = HEAD_START * (tried + 1);
                    pair.env.extend([("LD_PRELOAD", sides.late.clone()), ("LATE_MS", by.as_millis().to_string())]);
                }
                peer.succeed(&pair)
            });
            printed(case, &outcome?)
        };
        if cable == CABLES[0] {
            table.case(&label, run);
        } else {
            table.sampled(&label, run);
        }
    }
}

/// Compiles the library that delays a client.
fn compile(lab: &Lab) -> Result<String> {
    let library = lab.file("late.so");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).args([LATE, "-ldl"]);
    ensure!(cc.status().context("cc runs")?.success(), "late.c does not compile");
    Ok(library.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

fn printed(case: &Case, outcome: &Outcome) -> Result<()> {
    ensure!(outcome.client.text.contains(case.prints), "it does not print {:?}\n{}", case.prints, outcome.report());
    Ok(())
}
