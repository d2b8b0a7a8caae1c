//! Linux's own RoCE, rdma_rxe of Debian's kernel in a guest, against Weft on the host: verbs without a connection
//! manager.
//!
//! Both directions, IPv4 and IPv6, path MTU 1024 and 4096, with and without 1% loss on Weft's side. One guest serves
//! all cases, and one capture of its tap: the ICRC of every packet of both sides is recomputed.

use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;
use weft_interop::guest::Driver;
use weft_interop::guest_peer::{Listens, Match};
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::{Outcome, Peer, Server, Table, guest, skip, table};

/// Path MTU, and the MTU of the cable under it.
const MTUS: [(u32, u32); 2] = [(1024, 1500), (4096, 9000)];

/// A program and its options; `{mtu}` stands for the path MTU.
struct Case {
    program: &'static str,
    options: &'static str,
    /// It recovers from lost packets.
    reliable: bool,
}

impl Case {
    /// Returns whether it survives the loss of any packet. Some programs exit without telling their peer: if the
    /// network loses their last acknowledgement, rxe's queue pair is gone before the peer retries. Weft's stays for a
    /// moment.
    fn bears_loss(&self, server: Server) -> bool {
        let leaves = match server {
            Server::Us => self.program.ends_with("_pingpong"),
            Server::Kernel => ["ib_send_lat", "ib_write_lat"].contains(&self.program),
        };
        self.reliable && !leaves
    }
}

const CASES: &[Case] = &[
    Case { program: "ibv_rc_pingpong", options: "-c -n 200 -s 9000 -m {mtu}", reliable: true },
    Case { program: "ibv_uc_pingpong", options: "-c -n 200 -s 9000 -m {mtu}", reliable: false },
    Case { program: "ibv_ud_pingpong", options: "-c -n 200 -s {mtu}", reliable: false },
    Case { program: "ibv_srq_pingpong", options: "-c -n 100 -q 4 -s 9000 -m {mtu}", reliable: true },
    Case { program: "ibv_rc_pingpong", options: "-c -e -n 100 -s 100 -m {mtu}", reliable: true },
    Case { program: "ib_send_bw", options: "-n 100 -s 16384 -m {mtu}", reliable: true },
    Case { program: "ib_send_lat", options: "-n 100 -s 64 -m {mtu}", reliable: true },
    Case { program: "ib_write_bw", options: "-n 100 -s 65536 -m {mtu}", reliable: true },
    Case { program: "ib_write_lat", options: "-n 100 -s 5000 -m {mtu}", reliable: true },
    Case { program: "ib_read_bw", options: "-n 100 -s 65536 -m {mtu}", reliable: true },
    Case { program: "ib_read_lat", options: "-n 100 -s 5000 -m {mtu}", reliable: true },
    Case { program: "ib_atomic_bw", options: "-n 200 -m {mtu}", reliable: true },
    Case { program: "ib_atomic_bw", options: "-n 200 -A CMP_AND_SWAP -m {mtu}", reliable: true },
    Case { program: "ib_atomic_lat", options: "-n 100 -m {mtu}", reliable: true },
    Case { program: "ib_write_bw", options: "-c UC -n 100 -s 16384 -m {mtu}", reliable: false },
    Case { program: "ib_send_lat", options: "-c UD -n 100 -s 512 -m {mtu}", reliable: false },
];

const NEEDED: &[&str] = &["ip", "ibv_rc_pingpong", "ib_send_bw", "ib_atomic_bw", "dumpcap"];

#[test]
fn verbs_against_rxe() {
    if let Some(why) = guest::obstacle() {
        return skip::skip("verbs_against_rxe", &why);
    }
    if !skip::have("verbs_against_rxe", NEEDED) {
        return;
    }
    let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
    let peer = Peer::boot(agent, Driver::Rxe, MTUS[0].1).expect("a guest with rxe");
    let mut table = Table::new("kernel peer");
    table::note(&format!("kernel peer: {}", peer.guest().package));
    let capture = peer.capture().expect("a capture of the tap");
    for (mtu, cable) in MTUS {
        peer.set_mtu(cable).expect("an MTU for both ends");
        for (number, case) in CASES.iter().enumerate() {
            for server in Server::BOTH {
                run(&mut table, &peer, case, mtu, server, number);
            }
        }
    }
    table.case("what arrives damaged is dropped, told, and sent again", || {
        let damage = Some("corrupt=2%,seed=3".to_owned());
        let pair = pair(&peer, "ibv_rc_pingpong", "-c -n 200 -s 9000", Server::Kernel, true, damage)?;
        let outcome = peer.succeed(&pair)?;
        ensure!(outcome.client.text.contains("wrong ICRC"), "nothing says so\n{}", outcome.report());
        Ok(())
    });
    for number in 0..long_messages() {
        table.case(&format!("messages of 100,000 bytes, 1% lost, seed {number}"), || {
            let weather = Some(format!("loss=1%,seed={number}"));
            let options = "-c -n 50 -s 100000 -m 1024";
            peer.succeed(&pair(&peer, "ibv_rc_pingpong", options, Server::Kernel, false, weather)?).map(drop)
        });
    }
    for (program, options) in
        [("ibv_rc_pingpong", "-c -n 200 -s 9000"), ("ib_read_bw", "-n 100 -s 9000"), ("ib_atomic_bw", "-n 100")]
    {
        table.case(&format!("{program}: what leaves is lost, late or doubled"), || {
            let weather = Some("loss=1%,reorder=1%,dup=1%,dir=out,seed=4".to_owned());
            sent_again(&peer, pair(&peer, program, options, Server::Kernel, false, weather)?)
        });
    }
    table.case("every ICRC of both sides is right", || {
        let side = peer.lab().client();
        let captured = capture.finish([side.v4, side.v6])?;
        table::note(&format!("kernel peer: {captured:?}"));
        let counts = captured.v4.into_iter().chain(captured.v6);
        ensure!(counts.min() > Some(0), "a side or a family is missing: {captured:?}");
        Ok(())
    });
    table.case("the kernel has nothing to complain of", || {
        let complaints = peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.case("the kernel drops what leaves damaged, and gets it again", || {
        let damage = Some("corrupt=5%,dir=out,seed=3".to_owned());
        sent_again(&peer, pair(&peer, "ibv_rc_pingpong", "-c -n 200 -s 9000", Server::Kernel, true, damage)?)
    });
    table.finish();
}

/// Returns how many runs of long messages have loss: a few, and one more for every ROUNDS_PER_RUN rounds of a soak
/// test.
fn long_messages() -> u32 {
    const RUNS: u32 = 4;
    const ROUNDS_PER_RUN: u32 = 40;
    let rounds: u32 = std::env::var("WEFT_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    RUNS + rounds.div_ceil(ROUNDS_PER_RUN)
}

/// Runs a case in one direction, with and without loss; the pingpongs over both families each, the others in turn.
fn run(table: &mut Table, peer: &Peer, case: &Case, mtu: u32, server: Server, number: usize) {
    let turn = number + usize::from(server == Server::Us) + usize::from(mtu == 4096);
    for (v6, lossy) in [(false, false), (true, false), (false, true), (true, true)] {
        let in_turn = v6 == turn.is_multiple_of(2);
        let wanted = match (lossy, case.program.starts_with("ibv_")) {
            (true, _) if !case.bears_loss(server) => false,
            (false, true) => true,
            (false, false) => in_turn,
            (true, _) => !in_turn,
        };
        if !wanted || (table::quick() && number > 0) {
            continue;
        }
        let options = case.options.replace("{mtu}", &mtu.to_string());
        let family = if v6 { "IPv6" } else { "IPv4" };
        let weather = lossy.then(|| format!("loss=1%,seed={turn}"));
        let label = format!(
            "{} {options} {family} {}, {server:?} serving",
            case.program,
            weather.as_deref().unwrap_or("no loss")
        );
        table.case(&label, || {
            let pair = pair(peer, case.program, &options, server, v6, weather)?;
            result_printed(case.program, &peer.succeed(&pair)?)
        });
    }
}

fn pair(peer: &Peer, program: &str, options: &str, server: Server, v6: bool, weather: Option<String>) -> Result<Match> {
    let (serving, connecting) = peer.devices(server)?;
    let flag = if program.starts_with("ibv_") { "-g" } else { "-F -x" };
    let line = |device: &weft_interop::Device| {
        let gid = if v6 { device.gid_v6 } else { device.gid_v4 };
        format!("{program} {options} -d {} {flag} {gid}", device.name)
    };
    Ok(Match {
        server,
        serve: line(serving),
        connect: format!("{} {}", line(connecting), peer.address(server, false)),
        listens: Listens::Tcp(DEFAULT_PORT),
        env: weather.into_iter().map(|weather| ("WEFT_FAULT", weather)).collect(),
        limit: Duration::from_secs(60),
        stays: false,
    })
}

/// Runs a pair that has to send packets again.
fn sent_again(peer: &Peer, mut pair: Match) -> Result<()> {
    pair.env.push(("WEFT_TRACE", "stderr,loss".to_owned()));
    let outcome = peer.succeed(&pair)?;
    ensure!(outcome.client.text.contains("retransmits=+"), "nothing is sent again\n{}", outcome.report());
    Ok(())
}

fn result_printed(program: &str, outcome: &Outcome) -> Result<()> {
    let wanted = if program.starts_with("ibv_") { "usec/iter" } else { "#bytes" };
    ensure!(outcome.client.text.contains(wanted), "no result printed\n{}", outcome.report());
    Ok(())
}
