//! Linux's own iWARP, siw, in a guest with Debian's kernel, against Weft's devices of type siw on the host: Debian's
//! programs connect in both directions, over IPv4 and IPv6, with and without CRCs, by both revisions of MPA.
//!
//! tshark reads a capture of the tap: no FPDU is malformed, and every CRC is right. Debian's kernels lack siw, so
//! these tests run only after `cargo xtask vm siw`.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::guest::siw::{self, Build};
use weft_interop::guest::{Additions, Driver};
use weft_interop::guest_peer::{Dissection, Listens, Match, Negotiated};
use weft_interop::{Lab, Outcome, Peer, Server, Table, skip, table};

/// MTU of the cable.
const CABLE: u32 = 1500;

/// Programs on both sides. `{server}` stands for the server's address, `{device}` for the side's device.
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
    /// The program supports only IPv4.
    V4,
    /// The server keeps running.
    Stays,
    /// A client may come before its server listens, and is rejected: perftest connects twice.
    Races,
}
use Trait::{Races, Stays, V4};

/// Result of perftest's last SEND if Weft answers it and closes before siw, in a slow guest, has completed it: siw then
/// calls it failed, although it was sent and acknowledged.
const CLOSED: &[&str] = &["Bad wc status 2"];

/// Tries of a client that comes too early.
const TRIES_MAX: u32 = 9;

/// Returns the first case of a program.
fn case(program: &str) -> &'static Case {
    CASES.iter().find(|case| case.connect.split(' ').next() == Some(program)).expect("a program of the table")
}

const CASES: &[Case] = &[
    Case {
        serve: "rping -s -V -C 20 -S 10000 -a {server}",
        connect: "rping -c -V -C 20 -S 10000 -a {server}",
        listens: Listens::Cm(7174),
        prints: "",
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
        serve: "rdma_server -s {server}",
        connect: "rdma_client -s {server}",
        listens: Listens::Cm(7471),
        prints: "rdma_client: end 0",
        traits: &[V4],
    },
    Case {
        serve: "cmtime -b {server} -c 20",
        connect: "cmtime -s {server} -c 20",
        listens: Listens::Cm(7471),
        prints: "disconnect",
        traits: &[V4, Stays],
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
        serve: "ib_write_bw -R -F -d {device} -n 50 -s 65536",
        connect: "ib_write_bw -R -F -d {device} -n 50 -s 65536 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_read_bw -R -F -d {device} -n 50 -s 65536",
        connect: "ib_read_bw -R -F -d {device} -n 50 -s 65536 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "ib_send_lat -R -F -d {device} -n 100 -s 64",
        connect: "ib_send_lat -R -F -d {device} -n 100 -s 64 {server}",
        listens: Listens::Cm(18515),
        prints: "#bytes",
        traits: &[V4, Races],
    },
    Case {
        serve: "qperf",
        connect: "qperf {server} -cm 1 -t 1 rc_lat",
        listens: Listens::Tcp(19765),
        prints: "rc_lat:",
        traits: &[V4, Stays, Races],
    },
];

/// Words for `WEFT_MPA` on Weft's side, and the agreement that they lead to.
struct Mpa {
    asks: &'static str,
    revision: u8,
    crc: bool,
    /// The program. Revision 1 knows no depths, and siw then sends no READs, which rping needs.
    program: &'static str,
    /// The side that may ask for it: as a responder, Weft follows the initiator's revision.
    only: Option<Server>,
}

const MPA: &[Mpa] = &[
    Mpa { asks: "", revision: 2, crc: false, program: "rping", only: None },
    Mpa { asks: "crc", revision: 2, crc: true, program: "rping", only: None },
    Mpa { asks: "crc", revision: 2, crc: true, program: "ucmatose", only: None },
    Mpa { asks: "crc", revision: 2, crc: true, program: "ib_send_bw", only: None },
    Mpa { asks: "crc", revision: 2, crc: true, program: "ib_write_bw", only: None },
    Mpa { asks: "crc", revision: 2, crc: true, program: "ib_read_bw", only: None },
    Mpa { asks: "revision=1", revision: 1, crc: false, program: "ucmatose", only: Some(Server::Kernel) },
    Mpa { asks: "revision=1,crc", revision: 1, crc: true, program: "ucmatose", only: Some(Server::Kernel) },
    Mpa { asks: "rtr=write", revision: 2, crc: false, program: "rping", only: Some(Server::Kernel) },
    Mpa { asks: "rtr=read,crc", revision: 2, crc: true, program: "rping", only: Some(Server::Kernel) },
];

/// Operations of [`KEYS`], what is wrong with them, and the TERMINATE that the target sends, as tshark prints it
/// (RFC 5040 §4.8). siw writes layer and type of errors in the wrong order, and a READ's are not the same number.
const WRONG: &[(&str, &str, &str)] = &[
    ("write", "key", "DDP (0x1), Tagged Buffer Error (0x1), Invalid STag (0x00)"),
    ("write", "bounds", "DDP (0x1), Tagged Buffer Error (0x1), Base or bounds violation (0x01)"),
    ("read", "key", "RDMA (0x0), Remote Protection Error (0x1), Invalid STag (0x00)"),
    ("read", "bounds", "RDMA (0x0), Remote Protection Error (0x1), Base or bounds violation (0x01)"),
];

/// Connections to a stock siw: it would miss the first FPDU of some of a dozen.
const CONNECTIONS: u32 = 12;

/// The program that uses keys.
const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel_peer_iwarp/keys.c");
const KEYS_IN_GUEST: &str = "/usr/bin/keys";

const NEEDED: &[&str] =
    &["ip", "cc", "rping", "ucmatose", "ib_send_bw", "qperf", "dumpcap", "tshark", "/usr/include/rdma/rdma_verbs.h"];

#[test]
fn iwarp_connections_with_the_kernel() {
    if let Some(why) = siw::obstacle() {
        // Not a skip: its sources are too large to fetch by default.
        return table::note(&format!("kernel peer, iWARP: not run: {why}"));
    }
    if !skip::have("iwarp_connections_with_the_kernel", NEEDED) {
        return;
    }
    let mut table = Table::new("kernel peer, iWARP");
    let sides = Sides::boot(Build::Fixed).expect("a guest with siw");
    table::note(&format!("kernel peer, iWARP: {}", sides.peer.guest().package));
    let capture = sides.peer.capture().expect("a capture of the tap");
    for (number, case) in CASES.iter().enumerate() {
        for server in Server::BOTH {
            let families: &[bool] = if case.traits.contains(&V4) { &[false] } else { &[false, true] };
            for &v6 in families.iter().filter(|_| !table::quick() || number < 3) {
                let family = if v6 { "IPv6" } else { "IPv4" };
                let label = format!("{} over {family}, {server:?} serving", case.connect.replace(" {server}", ""));
                table.case(&label, || run(&sides.peer, case, server, v6, ""));
            }
        }
    }
    let found = capture.dissect(sides.ours());
    table.case("tshark reads every FPDU", || {
        let found = found?;
        table::note(&format!("kernel peer, iWARP: {} requests, FPDUs {:?}", found.requests.len(), found.fpdus));
        is_clean(&found)?;
        ensure!(found.fpdus.iter().min() > Some(&0), "a side is missing: {:?}", found.fpdus);
        Ok(())
    });
    negotiations(&mut table, &sides);
    wrong_keys(&mut table, &sides);
    table.case("the kernel has nothing to complain of", || {
        let complaints = sides.peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.finish();
}

/// Linux's siw misses a first FPDU that arrives before `siw_accept` has set its callback. A Weft that initiates the
/// connection sends it again, so even there every connection works at the first try.
#[test]
fn iwarp_connections_to_stock_siw() {
    if siw::obstacle().is_some() || !skip::have("iwarp_connections_to_stock_siw", NEEDED) {
        return;
    }
    let mut table = Table::new("kernel peer, stock siw");
    let sides = Sides::boot(Build::Stock).expect("a guest with siw");
    for number in 0..if table::quick() { 2 } else { CONNECTIONS } {
        for server in Server::BOTH {
            table.case(&format!("rping {number}, {server:?} serving"), || {
                run(&sides.peer, case("rping"), server, number % 2 == 1, "")
            });
        }
    }
    table.finish();
}

/// The guest and the host, with the program of [`wrong_keys`].
struct Sides {
    peer: Peer,
    keys: PathBuf,
}

impl Sides {
    fn boot(build: Build) -> Result<Sides> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let keys = std::env::temp_dir().join(format!("weft-keys-{}-{build:?}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&keys).args([KEYS, "-lrdmacm", "-libverbs"]);
        ensure!(cc.status().context("cc runs")?.success(), "keys.c does not compile");
        let extra = [(keys.clone(), KEYS_IN_GUEST.to_owned())];
        Ok(Sides {
            peer: {
                let additions = Additions { files: &extra, ..Additions::default() };
                Peer::boot_with(agent, Driver::Siw(build), additions, CABLE)?
            },
            keys,
        })
    }

    fn ours(&self) -> [&'static str; 2] {
        let side = self.lab().client();
        [side.v4, side.v6]
    }

    fn lab(&self) -> &Lab {
        self.peer.lab()
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.keys);
    }
}

/// Runs a case; `mpa` is Weft's `WEFT_MPA`.
fn run(peer: &Peer, case: &Case, server: Server, v6: bool, mpa: &str) -> Result<()> {
    let has = |wanted| case.traits.contains(&wanted);
    let (serving, connecting) = peer.devices(server)?;
    let address = peer.address(server, v6);
    let line = |words: &str, device: &str| words.replace("{server}", address).replace("{device}", device);
    let pair = Match {
        server,
        serve: line(case.serve, &serving.name),
        connect: line(case.connect, &connecting.name),
        listens: case.listens,
        env: vec![("WEFT_MPA", mpa.to_owned())],
        limit: Duration::from_secs(60),
        stays: has(Stays),
    };
    let tries = if has(Races) { TRIES_MAX } else { 1 };
    let outcome = until_late_enough(tries, &[REFUSED, FREED, CLOSED], |_| peer.succeed(&pair))?;
    ensure!(outcome.client.text.contains(case.prints), "it does not print {:?}\n{}", case.prints, outcome.report());
    Ok(())
}

fn is_clean(found: &Dissection) -> Result<()> {
    ensure!(found.complaints.is_empty(), "{}", found.complaints.join("\n"));
    ensure!(found.terminates.iter().all(Vec::is_empty), "TERMINATEs: {:?}", found.terminates);
    Ok(())
}

/// Both revisions of MPA, CRCs that one side asks for, and the frames by which an initiator opens a peer-to-peer
/// connection; markers, which siw rejects.
fn negotiations(table: &mut Table, sides: &Sides) {
    let peer = &sides.peer;
    for mpa in MPA {
        for server in Server::BOTH.into_iter().filter(|&server| mpa.only.is_none_or(|only| only == server)) {
            table.case(&format!("{} with WEFT_MPA={}, {server:?} serving", mpa.program, mpa.asks), || {
                let capture = peer.capture()?;
                let ran = run(peer, case(mpa.program), server, false, mpa.asks);
                let found = capture.dissect(sides.ours())?;
                ran.with_context(|| format!("{found:?}"))?;
                is_clean(&found)?;
                let reply = Negotiated { revision: mpa.revision, crc: mpa.crc, rejected: false };
                ensure!(found.replies.iter().all(|found| *found == reply) && !found.replies.is_empty(), "{found:?}");
                let crcs = if mpa.crc { found.fpdus } else { [0; 2] };
                ensure!(found.good_crcs == crcs && found.fpdus.iter().min() > Some(&0), "{found:?}");
                Ok(())
            });
        }
    }
    table.case("siw rejects markers", || {
        let capture = peer.capture()?;
        let ran = run(peer, case("rping"), Server::Kernel, false, "markers");
        let found = capture.dissect(sides.ours())?;
        let error = ran.err().context("rping connected")?;
        ensure!(found.replies.iter().all(|reply| reply.rejected) && !found.replies.is_empty(), "{found:?}\n{error:#}");
        Ok(())
    });
}

/// A WRITE or READ with a wrong key, or beyond its memory's end: the target sends a TERMINATE, both ends learn of the
/// end, and the memory is as before.
fn wrong_keys(table: &mut Table, sides: &Sides) {
    for server in Server::BOTH {
        for &(operation, wrong, terminate) in WRONG {
            table.case(&format!("a {operation} with wrong {wrong}, {server:?} serving"), || {
                let capture = sides.peer.capture()?;
                let outcome = use_keys(sides, server, operation, wrong);
                let found = capture.dissect(sides.ours())?;
                let outcome = outcome?;
                ensure!(found.complaints.is_empty(), "{}", found.complaints.join("\n"));
                let swapped = server == Server::Kernel && operation == "read";
                let [ours, theirs] = &found.terminates;
                let (target, other) = if server == Server::Us { (ours, theirs) } else { (theirs, ours) };
                let right = matches!(&target[..], [text] if swapped || text == terminate) && other.is_empty();
                ensure!(right, "{:?}\n{}", found.terminates, outcome.report());
                let (server, client) = (&outcome.server.text, &outcome.client.text);
                let failed = operation == "write" || !client.contains("request: success");
                ensure!(client.contains("read: as written") && failed, "{}", outcome.report());
                ensure!(server.contains("page: as written"), "{}", outcome.report());
                for text in [server, client] {
                    ensure!(text.contains("receive: Work Request Flushed Error"), "{}", outcome.report());
                    ensure!(text.contains("event: RDMA_CM_EVENT_DISCONNECTED"), "{}", outcome.report());
                }
                Ok(())
            });
        }
    }
}

fn use_keys(sides: &Sides, server: Server, operation: &str, wrong: &str) -> Result<Outcome> {
    let here = sides.keys.to_str().context("the temporary directory's path is not UTF-8")?;
    let (serving, connecting) = match server {
        Server::Us => (here, KEYS_IN_GUEST),
        Server::Kernel => (KEYS_IN_GUEST, here),
    };
    let address = sides.peer.address(server, false);
    sides.peer.succeed(&Match {
        server,
        serve: format!("{serving} {address} serve"),
        connect: format!("{connecting} {address} {operation} {wrong}"),
        listens: Listens::Cm(7300),
        env: Vec::new(),
        limit: Duration::from_secs(60),
        stays: false,
    })
}
