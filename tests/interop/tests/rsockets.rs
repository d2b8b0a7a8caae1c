//! rsockets: Debian's rstream, riostream, rcopy and udpong, and its librspreload under TCP programs that know nothing
//! of RDMA; a C program (`rsockets_calls`) for details that only C programs see.

use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weft_interop::ends::Ends;
use weft_interop::{Ended, Lab, Proc, Shape, Table, Who, skip, table};

const TOOLS: &[&str] = &["ip", "rstream", "riostream", "rcopy", "udpong"];
/// Debian's preload library, not Weft's: it turns every TCP socket of a program into an rsocket.
const PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
/// The semaphore by which librspreload serialises its switches to rsockets.
const SEMAPHORE: &str = "/dev/shm/sem.rsocket_fork";
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rsockets_calls/calls.c");
/// Delay before the first client of a datagram server, which shows no listening socket.
const SETTLES_WITHIN: Duration = Duration::from_millis(400);
/// Time limit of `rstream -S all`, which runs only with `WEFT_LONG` set.
const EVERY_SIZE_WITHIN: Duration = Duration::from_secs(600);
/// Time limit for a stream server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// Streams: a tool and the options of both ends. Each runs over IPv4 and IPv6, as root and as an ordinary user, in
/// turn.
const STREAMS: &[(&str, &str)] = &[
    ("rstream", "-S 64 -C 1000"),
    ("rstream", "-T a -T v -S 5000 -C 200 -I 5"),
    ("rstream", "-T b -T v -S 65536 -C 50"),
    ("rstream", "-T n -T v -S 1000000 -C 5"),
    ("rstream", "-T b -S 1 -C 2000"),
    ("rstream", "-T a -B 1000 -S 20000 -C 20"),
    ("rstream", "-T v -B 1000000 -i 0 -S 300000 -C 10"),
    ("rstream", "-T v -i 512 -S 512 -C 500"),
    ("rstream", "-T r -S 4096 -C 100"),
    ("rstream", "-k 1 -S 4096 -C 100"),
    ("rstream", "-p 5555 -I 100 -C 1 -S 1024"),
    ("riostream", "-T v -S 64 -C 500"),
    ("riostream", "-T a -T v -S 5000 -C 200 -I 5"),
    ("riostream", "-T b -T v -S 65536 -C 50"),
    ("riostream", "-T n -S 300000 -C 20"),
];

/// Datagrams. Most of these count the received ones. With `-T e` all must arrive, and each answer within a millisecond:
/// udpong takes a late one for the next, and never recovers. So it may try again.
const DATAGRAMS: &[&str] =
    &["-C 1000", "-T a -C 1000 -S 64", "-T b -C 1000", "-T e -T a -C 100", "-T e -T b -C 100 -S 512"];

/// The user, and whether over IPv6.
const TURNS: [(Who, bool); 4] = [(Who::Root, false), (Who::Ordinary, true), (Who::Ordinary, false), (Who::Root, true)];

#[test]
fn one_namespace() {
    everything("rsockets, one namespace", Shape::One, weft_interop::Path::SameHost, 0);
}

#[test]
fn one_namespace_by_packets() {
    everything("rsockets, one namespace, by packets", Shape::One, weft_interop::Path::Wire, 2);
}

#[test]
fn two_namespaces() {
    everything("rsockets, two namespaces", Shape::Two { mtu: 1500 }, weft_interop::Path::SameHost, 1);
}

#[test]
fn loopback_alone() {
    if !skip::have("rsockets, loopback alone", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("rsockets, loopback alone");
    for (who, address) in [(Who::Root, "127.0.0.1"), (Who::Ordinary, "::1")] {
        let label = format!("rstream {address} {who:?}");
        table.case(&label, || stream(&lab, who, "rstream", "-T v -S 5000 -C 200", address));
    }
    table.finish();
}

#[test]
fn every_size() {
    if table::quick() || !skip::have("rsockets, every size", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("rsockets, every size");
    let address = lab.server().v4;
    // The sizes of `-S all`, and odd ones beside them.
    for power in 6..=22 {
        for size in [1 << power, (1 << power) + (1 << (power - 1)), (1 << power) - 1, (1 << power) + 1] {
            let options = format!("-T v -S {size} -C {}", (4_000_000 / size).clamp(2, 40));
            table.case(&options, || stream(&lab, Who::Root, "rstream", &options, address));
        }
    }
    // A hundred thousand round trips of each small size take minutes.
    if std::env::var_os("WEFT_LONG").is_some() {
        table.case("rstream -S all", || every_size_at_length(&lab, address));
    }
    table.finish();
}

fn every_size_at_length(lab: &Lab, address: &str) -> Result<()> {
    let ends = Ends::new("rstream", "-S all").each("", &format!("-s {address}"));
    let (server, client) = (ends.start_server(lab)?, ends.start_client(lab)?);
    let client = client.wait(EVERY_SIZE_WITHIN);
    let server = server.wait(Duration::from_secs(15));
    // It continues after an error, and its exit status says nothing.
    for ended in [&client, &server] {
        ensure!(ended.ok() && ended.text.contains("6m_bw"), "{}\n      {}", client.report(), server.report());
    }
    Ok(())
}

#[test]
fn calls_do_as_their_manual_page_says() {
    let needed = ["ip", "cc", "/usr/include/rdma/rsocket.h"];
    if !skip::have("rsockets, C calls", &needed) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = lab.file("rsockets-calls");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program).arg(CALLS).args(["-lrdmacm", "-libverbs", "-lpthread"]);
    assert!(cc.status().expect("cc runs").success(), "calls.c does not compile");
    let program = program.to_str().expect("the lab's path is UTF-8");
    let mut table = Table::new("rsockets, C calls");
    for who in Who::BOTH {
        table.case(&format!("{who:?}"), || {
            let ended = lab.run(lab.client(), who, &[], &[program, lab.client().v4])?.success()?;
            ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn programs_of_tcp() {
    if !skip::have("rsockets, librspreload", &["ip", "openssl", "curl", "busybox", PRELOAD]) {
        return;
    }
    let mut table = Table::new("rsockets, librspreload");
    for shape in [Shape::One, Shape::Two { mtu: 1500 }] {
        let lab = Lab::new(shape).expect("a lab");
        for who in Who::BOTH {
            table.case(&format!("openssl s_server, curl {shape:?} {who:?}"), || https(&lab, who));
            table.case(&format!("busybox nc {shape:?} {who:?}"), || netcat(&lab, who));
            table.case(&format!("a server that forks {shape:?} {who:?}"), || forked(&lab, who));
        }
    }
    table.finish();
}

fn everything(name: &'static str, shape: Shape, path: weft_interop::Path, turn: usize) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab").on(path);
    let mut table = Table::new(name);
    let streams = if table::quick() { &STREAMS[..4] } else { STREAMS };
    for (number, (tool, options)) in streams.iter().enumerate() {
        let (who, ipv6) = TURNS[(number + turn) % TURNS.len()];
        let address = if ipv6 { lab.server().v6 } else { lab.server().v4 };
        table.case(&format!("{tool} {options} {address} {who:?}"), || stream(&lab, who, tool, options, address));
    }
    for (number, options) in DATAGRAMS.iter().enumerate() {
        let (who, ipv6) = TURNS[(number + turn) % TURNS.len()];
        let address = if ipv6 { lab.server().v6 } else { lab.server().v4 };
        table.case(&format!("udpong {options} {address} {who:?}"), || datagrams(&lab, who, options, address));
    }
    for who in Who::BOTH {
        table.case(&format!("rcopy {who:?}"), || copy(&lab, who));
    }
    table.finish();
}

fn stream(lab: &Lab, who: Who, tool: &str, options: &str, address: &str) -> Result<()> {
    let ends = Ends::new(tool, options).each(&format!("-b {address}"), &format!("-s {address}")).who(who);
    ends.judged(lab, |client, server| {
        for text in [client, server] {
            ensure!(text.contains("custom"), "no result printed");
            ensure!(!text.contains("data verification failed"), "wrong bytes arrived");
        }
        Ok(())
    })
}

/// Starts a server that ends with its lab; `comm` is the name of the listening process, if one listens.
fn start(lab: &Lab, who: Who, comm: Option<&str>, words: &[&str]) -> Result<Proc> {
    let mut server = lab.start(lab.server(), who, &[], words)?;
    let ready = match comm {
        None => server.wait_until(SETTLES_WITHIN, |_| false) || server.running(),
        Some(comm) => {
            let comm = format!("comm {comm} ");
            server.wait_until(LISTENS_WITHIN, |_| {
                let ids = lab.weft(lab.server(), Who::Root, &[], &["resource", "show", "cm_id"]);
                ids.is_ok_and(|ids| ids.text.lines().any(|id| id.contains(&comm) && id.contains("state LISTEN")))
            })
        }
    };
    ensure!(ready, "the server does not run, or does not listen: {}", server.kill().report());
    Ok(server)
}

/// Runs a client, and reports the server's output too if it fails.
fn client(lab: &Lab, who: Who, words: &[&str], server: Proc) -> Result<Ended> {
    let ended = lab.start(lab.client(), who, &[], words)?.wait(Duration::from_secs(10));
    let server = server.kill();
    ended.success().with_context(|| format!("server: {}", server.report()))
}

fn datagrams(lab: &Lab, who: Who, options: &str, address: &str) -> Result<()> {
    let tries = if options.contains("-T e") { 3 } else { 1 };
    (1..tries).find_map(|_| pong(lab, who, options, address).ok()).map_or_else(|| pong(lab, who, options, address), Ok)
}

fn pong(lab: &Lab, who: Who, options: &str, address: &str) -> Result<()> {
    let options: Vec<_> = options.split_whitespace().collect();
    let server = start(lab, who, None, &[&["udpong", "-b", address], &options[..]].concat())?;
    let ended = client(lab, who, &[&["udpong", "-s", address], &options[..]].concat(), server)?;
    ensure!(ended.text.contains("custom"), "no result printed: {}", ended.report());
    Ok(())
}

fn copy(lab: &Lab, who: Who) -> Result<()> {
    let (from, to) = (lab.file("from"), lab.file(&format!("to-{who:?}")));
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    std::fs::write(&from, &bytes)?;
    let server = start(lab, who, Some("rcopy"), &["rcopy"])?;
    let target = format!("{}:{}", lab.server().v4, name(&to)?);
    client(lab, who, &["rcopy", name(&from)?, &target], server)?;
    ensure!(std::fs::read(&to)? == bytes, "what arrived is not what was sent");
    Ok(())
}

fn name(path: &Path) -> Result<&str> {
    path.to_str().context("the lab's path is not UTF-8")
}

/// Transfers a file over HTTPS: neither end knows of RDMA, and no TCP connection is made.
fn https(lab: &Lab, who: Who) -> Result<()> {
    let (key, certificate, page) = (lab.file("key.pem"), lab.file("certificate.pem"), lab.file("page"));
    let bytes: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    std::fs::write(&page, &bytes)?;
    if !key.exists() {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        openssl.args(["-subj", "/CN=weft", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
        ensure!(openssl.output()?.status.success(), "openssl makes no certificate");
        Command::new("chmod").arg("644").arg(&key).status()?;
    }
    let port = if who == Who::Root { "4433" } else { "4434" };
    // s_server serves files below its working directory.
    let directory = name(page.parent().context("a page has a directory")?)?;
    let serve = format!(
        "cd {directory} && exec env LD_PRELOAD={PRELOAD} openssl s_server -accept {port} -key {} -cert {} -WWW",
        name(&key)?,
        name(&certificate)?
    );
    let server = start(lab, who, Some("openssl"), &["sh", "-c", &serve])?;
    let sockets = lab.start_bare(lab.server(), Who::Root, &["ss", "-Hltn"])?.wait(Duration::from_secs(5)).success()?;
    ensure!(!sockets.text.contains(port), "the server listens by TCP: {}", sockets.text);
    let got = lab.file(&format!("got-{who:?}"));
    let (address, preload) = (lab.server().v4, format!("LD_PRELOAD={PRELOAD}"));
    let url = format!("https://{address}:{port}/page");
    let words = ["env", &preload, "curl", "-sSk", "-m", "20", "-o", name(&got)?, &url];
    client(lab, who, &words, server)?;
    ensure!(std::fs::read(&got)? == bytes, "what arrived is not what was sent");
    Ok(())
}

/// Transfers bytes from one pipe to another.
fn netcat(lab: &Lab, who: Who) -> Result<()> {
    let (from, to) = (lab.file("from"), lab.file(&format!("netcat-{who:?}")));
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    std::fs::write(&from, &bytes)?;
    // The server's input stays open, or it would signal the end of its data.
    let nc = format!("env LD_PRELOAD={PRELOAD} busybox nc");
    let serve = format!("sleep 60 | {nc} -l -p 5100 > {}", name(&to)?);
    let mut server = start(lab, who, Some("busybox"), &["sh", "-c", &serve])?;
    let send = format!("{nc} {} 5100 < {}", lab.server().v4, name(&from)?);
    let sent = lab.start(lab.client(), who, &[], &["sh", "-c", &send])?.wait(Duration::from_secs(20));
    server.wait_until(Duration::from_secs(5), |_| std::fs::metadata(&to).is_ok_and(|m| m.len() >= bytes.len() as u64));
    let server = server.kill();
    sent.success().with_context(|| server.report())?;
    ensure!(std::fs::read(&to)? == bytes, "what arrived is not what was sent: {}", server.report());
    Ok(())
}

/// Runs rstream with plain sockets and a child for each connection, which librspreload converts to rsockets after the
/// fork.
fn forked(lab: &Lab, who: Who) -> Result<()> {
    // The library's own semaphore, which it leaves behind; its first user locks others out.
    remove_semaphore()?;
    let address = lab.server().v4;
    let preload = format!("LD_PRELOAD={PRELOAD}");
    let words = ["env", "RDMAV_FORK_SAFE=1", &preload, "rstream", "-T", "f", "-S", "5000", "-C", "200"];
    let mut server = lab.start(lab.server(), who, &[], &[&words[..], &["-b", address]].concat())?;
    ensure!(server.wait_listening(7471, LISTENS_WITHIN), "the server does not listen: {}", server.kill().report());
    let ended = client(lab, who, &[&words[..], &["-s", address]].concat(), server)?;
    ensure!(ended.text.contains("custom"), "no result printed: {}", ended.report());
    remove_semaphore()
}

fn remove_semaphore() -> Result<()> {
    match std::fs::remove_file(SEMAPHORE) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context(format!("{SEMAPHORE} is another user's: remove it"))
        }
        _ => Ok(()),
    }
}
