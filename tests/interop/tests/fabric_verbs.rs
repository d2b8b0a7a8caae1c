//! Verbs between virtual hosts of an InfiniBand fabric under Debian's opensm: Debian's unmodified ping-pongs and
//! perftest by LID and by GID, the counters of the ports on the path, partitions, and a cable pulled under traffic; by
//! verdicts, and with every packet going hop by hop.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, skip, table};

const TOOLS: &[&str] =
    &["ip", "opensm", "perfquery", "ibstat", "ibqueryerrors", "ibv_rc_pingpong", "ib_write_bw", "ib_send_lat"];

/// Hosts of the fabric: a server and a client, each cabled to one switch.
const SERVER: &str = "node1";
const CLIENT: &str = "node2";

/// A program and its options, by LID and with a GRH.
const EXCHANGES: &[&str] = &[
    "ibv_rc_pingpong -c",
    "ibv_rc_pingpong -g 0 -c",
    "ibv_ud_pingpong -c",
    "ibv_ud_pingpong -g 0 -c",
    "ib_write_bw -n 500",
    "ib_send_lat -n 500",
    "ibv_uc_pingpong -c",
    "ibv_uc_pingpong -g 0 -c",
    "ibv_srq_pingpong -c",
    "ibv_xsrq_pingpong",
    "ib_write_bw -x 0 -n 500",
    "ib_read_bw -n 200",
    "ib_send_bw -n 500",
    "ib_atomic_lat -n 200",
    "ib_write_lat -x 0 -n 500",
    "ib_send_lat -c UD -n 500",
    "ib_send_bw -c UD -n 500",
    "ib_send_bw -c UC -n 500",
    "ib_send_lat -c XRC -n 200",
];

/// Programs to run with every packet going hop by hop.
const HOP_BY_HOP: &[&str] = &[
    "ibv_rc_pingpong -n 100 -c",
    "ibv_rc_pingpong -n 100 -g 0 -c",
    "ibv_uc_pingpong -n 100 -c",
    "ibv_ud_pingpong -n 100 -g 0 -c",
    "ibv_srq_pingpong -n 100 -c",
    "ib_write_bw -n 500",
    "ib_read_lat -n 50",
    "ib_atomic_lat -n 50",
    "ib_send_bw -c UD -n 500",
    "ib_send_lat -c XRC -n 50",
];

fn perftest(line: &str) -> bool {
    line.split(' ').any(|word| word.starts_with("ib_"))
}

/// Runs a program as the server's host and as the client's; returns both results.
fn exchange(lab: &Lab, fabric: &Fabric<'_>, line: &str) -> Result<(Ended, Ended)> {
    let (server, client) = start(lab, fabric, line)?;
    let client = client.wait(Duration::from_secs(30));
    Ok((server.wait(Duration::from_secs(10)), client))
}

fn start(lab: &Lab, fabric: &Fabric<'_>, line: &str) -> Result<(Proc, Proc)> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if perftest(line) {
        words.extend(["-d", "weft0", "-F"]);
    }
    let mut server = lab.start_line(&fabric.words(SERVER, &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    words.push(SERVER);
    let client = lab.start_line(&fabric.words(CLIENT, &words)?, &[])?;
    Ok((server, client))
}

/// Brings up a fabric with its subnet manager and these partitions.
fn bring_up<'a>(lab: &'a Lab, partitions: &str, hop_by_hop: bool) -> Result<(Fabric<'a>, Proc)> {
    let words = ["--star", "2"];
    let fabric = if hop_by_hop { Fabric::hop_by_hop(lab, &words)? } else { Fabric::up(lab, &words)? };
    let file = |name: &str| lab.file(name).display().to_string();
    let (log, parts, config) = (file("opensm.log"), file("partitions.conf"), file("opensm.conf"));
    let _ = std::fs::remove_file(&log);
    std::fs::write(&parts, partitions)?;
    std::fs::write(&config, "force_log_flush TRUE\n")?;
    let words = ["opensm", "-F", &config, "-P", &parts, "-f", &log];
    let mut opensm = lab.start_line(&fabric.words(SERVER, &words)?, &[("OSM_CACHE_DIR", &file(""))])?;
    let up = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SUBNET UP"));
    ensure!(opensm.wait_until(Duration::from_secs(20), up), "no subnet:\n{}", opensm.kill().report());
    fabric.wait("all links active", |state| state["links"]["active"] == 2)?;
    Ok((fabric, opensm))
}

#[test]
fn programs_of_others_by_lid_and_by_gid() {
    if !skip::have("verbs on a fabric", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let (fabric, _opensm) = bring_up(&lab, "Default=0x7fff,ipoib:ALL=full;\n", false).expect("a fabric");
    let mut table = Table::new("verbs on a fabric");
    let lines = if table::quick() { &EXCHANGES[..6] } else { EXCHANGES };
    for line in lines {
        table.case(line, || whole(exchange(&lab, &fabric, line)?));
    }
    table.case("counters of the ports on the way", || counted(&lab, &fabric));
    table.case("a cable pulled and plugged in again", || interrupted(&lab, &fabric));
    table.case("a cable pulled for good", || cut_off(&lab, &fabric));
    table.case("a host that boots anew", || rebooted(&lab, &fabric));
    table.finish();
}

/// Checks that both ended well, and addressed each other by LID.
fn whole((server, client): (Ended, Ended)) -> Result<()> {
    let (server, client) = (server.success()?, client.success()?);
    for text in [&server.text, &client.text] {
        ensure!(!text.contains("invalid data"), "wrong bytes arrived:\n{text}");
        ensure!(text.contains("LID"), "no LID in:\n{text}");
        ensure!(!text.contains("LID 0x0000") && !text.contains("LID 0000 "), "no LID of its own:\n{text}");
    }
    Ok(())
}

#[test]
fn programs_of_others_hop_by_hop() {
    if !skip::have("verbs hop by hop", &[TOOLS, &["tshark"]].concat()) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let (fabric, _opensm) = bring_up(&lab, "Default=0x7fff,ipoib:ALL=full;\n", true).expect("a fabric");
    let mut table = Table::new("verbs hop by hop");
    let lines = if table::quick() { &HOP_BY_HOP[..2] } else { HOP_BY_HOP };
    for line in lines {
        table.case(line, || whole(exchange(&lab, &fabric, line)?));
    }
    table.case("the mode is told", || {
        let state = fabric.status()?;
        ensure!(state["packets"] == true, "{state}");
        Ok(())
    });
    table.case("a capture is of InfiniBand's packets", || captured(&lab, &fabric));
    table.case("counters of the ports on the way", || counted(&lab, &fabric));
    table.case("a cable that damages packets", || damaged(&lab, &fabric));
    table.case("a cable pulled and plugged in again", || interrupted(&lab, &fabric));
    table.case("a cable pulled for good", || cut_off(&lab, &fabric));
    table.case("a host that boots anew", || rebooted(&lab, &fabric));
    table.finish();
}

/// Checks tshark's decoding of the packets that a program sent and received: RC's, LRH first, none malformed.
fn captured(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = lab.file("hops.pcapng").display().to_string();
    let set = format!("WEFT_PCAP={file}");
    let mut server =
        lab.start_line(&fabric.words(SERVER, &["env", &set, "ibv_rc_pingpong", "-n", "5", "-l", "2"])?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    fabric.run(CLIENT, &["ibv_rc_pingpong", "-n", "5", "-l", "2", SERVER])?.success()?;
    server.wait(Duration::from_secs(10)).success()?;
    let fields = ["-e", "frame.protocols", "-e", "infiniband.lrh.slid", "-e", "infiniband.bth.opcode"];
    let fields = [&fields[..], &["-e", "infiniband.lrh.vl"]].concat();
    let read = |options: &[&str]| -> Result<String> {
        // tshark takes small payloads for RPC over RDMA and then calls them malformed.
        let words: Vec<&str> = [&["tshark", "--disable-protocol", "rpcordma", "-r", &file][..], options].concat();
        let text = std::process::Command::new(words[0]).args(&words[1..]).output()?.stdout;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let text = read(&[&["-T", "fields"][..], &fields[..]].concat())?;
    let good = text.lines().filter(|line| line.starts_with("erf:infiniband")).count();
    ensure!(good >= 10 && good == text.lines().count(), "tshark sees:\n{text}");
    let on_its_lane = |line: &&str| line.ends_with("\t2") || line.ends_with("\t0x02");
    ensure!(text.lines().all(|line| on_its_lane(&line)), "service level 2 is not on virtual lane 2:\n{text}");
    let bad = read(&["-Y", "_ws.malformed"])?;
    ensure!(bad.trim().is_empty(), "tshark objects to:\n{bad}");
    Ok(())
}

/// Packets that a cable damages are counted at the receiving port, and retransmitted.
fn damaged(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let errors = |ppm: &str| fabric.weft(&["cable", "errors", &format!("{CLIENT}:1"), "--ppm", ppm]);
    errors("2000")?;
    let ended = exchange(lab, fabric, "ib_write_bw -n 300");
    errors("0")?;
    whole(ended?)?;
    let counted = fabric.run(SERVER, &["ibqueryerrors"])?.text;
    for counter in ["[SymbolErrorCounter == ", "[PortRcvErrors == "] {
        ensure!(counted.contains(counter), "no {counter} in:\n{counted}");
    }
    Ok(())
}

/// Returns the words of four bytes that the server's port has received.
fn received(fabric: &Fabric<'_>) -> Result<u64> {
    let text = fabric.run(SERVER, &["perfquery", "-x"])?.success()?.text;
    let line = text.lines().find(|line| line.starts_with("PortRcvData:")).context("PortRcvData")?;
    Ok(line.trim_start_matches("PortRcvData:").trim_start_matches('.').parse()?)
}

/// Checks that the port counts every written byte, and little more.
fn counted(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let before = received(fabric)?;
    let (server, client) = exchange(lab, fabric, "ib_write_bw -n 1000 -s 65536")?;
    server.success()?;
    client.success()?;
    let words = received(fabric)? - before;
    let written = 1000 * 65536 / 4;
    ensure!((written..written + written / 10).contains(&words), "{words} words counted, {written} were written");
    Ok(())
}

/// The queue pair's retries outlast the interruption: no data is lost.
fn interrupted(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (server, mut client) = start(lab, fabric, "ib_write_bw -D 6 -u 20")?;
    ensure!(!client.wait_until(Duration::from_millis(2500), |_| false) && client.running(), "{}", client.text());
    fabric.weft(&["cable", "cut", &format!("{CLIENT}:1")])?;
    std::thread::sleep(Duration::from_millis(700));
    fabric.weft(&["cable", "join", &format!("{CLIENT}:1")])?;
    let client = client.wait(Duration::from_secs(30)).success()?;
    ensure!(client.text.contains("65536"), "no figures:\n{}", client.text);
    server.wait(Duration::from_secs(10)).success()?;
    fabric.wait("all links active", |state| state["links"]["active"] == 2)
}

/// The peer no longer answers: the retries run out, as on a wire.
fn cut_off(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (server, mut client) = start(lab, fabric, "ib_write_bw -D 20")?;
    ensure!(!client.wait_until(Duration::from_millis(2500), |_| false) && client.running(), "{}", client.text());
    fabric.weft(&["cable", "cut", &format!("{CLIENT}:1")])?;
    let began = Instant::now();
    let client = client.wait(Duration::from_secs(15));
    drop(server.kill());
    ensure!(client.text.contains("status 12"), "after {:?}:\n{}", began.elapsed(), client.report());
    fabric.weft(&["cable", "join", &format!("{CLIENT}:1")])?;
    fabric.wait("all links active", |state| state["links"]["active"] == 2)
}

/// A host loses power and boots again: its programs lose their adapter, peers get no answer, and programs started
/// afterwards work.
fn rebooted(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (server, mut client) = start(lab, fabric, "ib_write_bw -b -D 20")?;
    ensure!(!client.wait_until(Duration::from_millis(2500), |_| false) && client.running(), "{}", client.text());
    fabric.weft(&["node", "reboot", CLIENT])?;
    let (client, server) = (client.wait(Duration::from_secs(15)), server.wait(Duration::from_secs(15)));
    let ended = |ended: &Ended| ended.status.and_then(|status| status.code()).is_some_and(|code| code != 0);
    ensure!(ended(&client) && client.text.contains("status 5"), "the host's own program: {}", client.report());
    ensure!(ended(&server) && server.text.contains("status 12"), "its peer: {}", server.report());
    fabric.wait("all links active", |state| state["links"]["active"] == 2)?;
    whole(exchange(lab, fabric, "ib_write_bw -n 100")?)
}

/// A fabric dies with its daemon: a program that is sending gets error completions for its outstanding work, as from an
/// adapter that was pulled out.
#[test]
fn adapters_go_with_their_daemon() {
    if !skip::have("a daemon killed under a fabric", TOOLS) {
        return;
    }
    let mut table = Table::new("a daemon killed under a fabric");
    for (mode, hop_by_hop) in [("by verdicts", false), ("hop by hop", true)] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        table.case(mode, || {
            let (fabric, _opensm) = bring_up(&lab, "Default=0x7fff,ipoib:ALL=full;\n", hop_by_hop)?;
            let (server, mut client) = start(&lab, &fabric, "stdbuf -oL ib_write_bw -D 20")?;
            // Both ends have what they exchange by TCP, which goes with the daemon, too.
            let writes = client.wait_until(Duration::from_secs(20), |proc| proc.text().contains("#bytes"));
            std::thread::sleep(Duration::from_millis(500));
            ensure!(writes && client.running(), "{}", client.text());
            let daemon =
                lab.daemon(lab.client()).and_then(|pid| Pid::from_raw(pid.cast_signed())).context("no daemon")?;
            kill_process(daemon, Signal::KILL)?;
            let ended = client.wait(Duration::from_secs(10));
            drop(server.kill());
            let code = ended.status.context("the client hangs")?.code();
            ensure!(code.is_some_and(|code| code != 0), "ended otherwise than by itself: {}", ended.report());
            // Flushed, or failed after retries if the other end lost its adapter first.
            let told = ["status 5", "status 12"].iter().any(|status| ended.text.contains(status));
            ensure!(told, "not by a completion: {}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn partitions_are_kept() {
    if skip::have("partitions on a fabric", TOOLS) {
        keep_partitions("partitions on a fabric", false);
    }
}

#[test]
fn partitions_are_kept_hop_by_hop() {
    if skip::have("partitions hop by hop", TOOLS) {
        keep_partitions("partitions hop by hop", true);
    }
}

fn keep_partitions(name: &'static str, hop_by_hop: bool) {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let guids = {
        let fabric = Fabric::up(&lab, &["--star", "2"]).expect("a fabric");
        [SERVER, CLIENT].map(|host| {
            let said = fabric.run(host, &["ibstat", "-p"]).expect("ibstat").success().expect("ibstat").text;
            said.trim().to_owned()
        })
    };
    let [server, client] = &guids;
    let partitions = format!(
        "Default=0x7fff,ipoib:ALL=full;\nLimited=0x0001:{server}=limited,{client}=limited;\nMixed=0x0002:{server}=full,{client}=limited;\n"
    );
    let (fabric, _opensm) = bring_up(&lab, &partitions, hop_by_hop).expect("a fabric");
    let mut table = Table::new(name);
    for (line, passes) in [
        ("ib_write_bw -n 100 --pkey_index=0", true),
        ("ib_write_bw -n 100 --pkey_index=1", false),
        ("ib_write_bw -n 100 --pkey_index=2", true),
    ] {
        table.case(line, || {
            let (_, client) = exchange(&lab, &fabric, line)?;
            if passes {
                return client.success().map(drop);
            }
            let text = &client.text;
            ensure!(client.status.is_none_or(|status| !status.success()), "two limited members talked:\n{text}");
            ensure!(text.contains("status 12"), "not by its retries:\n{text}");
            trapped(&lab, &fabric)
        });
    }
    if hop_by_hop {
        table.case("the queue pair at the far end is in another partition", || strangers(&lab, &fabric));
    }
    table.finish();
}

/// Both ports are in both partitions, but the two queue pairs use different ones: the server's side drops the packets,
/// and its port counts them.
fn strangers(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let line = |index: &str, to: &[&str]| -> Vec<String> {
        let words = ["ib_write_bw", "-n", "20", "-d", "weft0", "-F", index];
        words.iter().chain(to).map(|word| (*word).to_owned()).collect()
    };
    let run = |host: &str, words: Vec<String>| -> Result<Proc> {
        lab.start_line(&fabric.words(host, &words.iter().map(String::as_str).collect::<Vec<_>>())?, &[])
    };
    let mut server = run(SERVER, line("--pkey_index=0", &[]))?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    let client = run(CLIENT, line("--pkey_index=2", &[SERVER]))?.wait(Duration::from_secs(30));
    drop(server.kill());
    ensure!(client.text.contains("status 12"), "not by its retries:\n{}", client.report());
    for _ in 0..40 {
        let info = fabric.run(SERVER, &["smpquery", "portinfo", "-D", "0"])?.success()?.text;
        let line = info.lines().find(|line| line.starts_with("PkeyViolations:")).context("PkeyViolations")?;
        if !line.ends_with(".0") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("the port counts no violation of its partitions")
}

/// The switch that enforces partitions has counted the packets with a P_Key that its port lacks, and the subnet manager
/// got traps about them.
fn trapped(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    const TRAP: &str = "num:259 (Bad P_Key (switch external port))";
    let log = || std::fs::read_to_string(lab.file("opensm.log")).unwrap_or_default();
    for _ in 0..100 {
        if log().contains(TRAP) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(log().contains(TRAP), "no {TRAP} in:\n{}", log());
    let counted = fabric.run(SERVER, &["ibqueryerrors", "--details"])?.text;
    ensure!(counted.contains("[PortXmitConstraintErrors == "), "not counted:\n{counted}");
    Ok(())
}
