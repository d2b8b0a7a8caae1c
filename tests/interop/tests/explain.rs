//! `weft record` and `weft explain`: connections that break for a known cause, and the cause that is named. Once with the
//! records of both sides, and once with that of the side that failed.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_interop::{Ended, Fabric, Lab, Pair, Proc, Shape, Side, Table, Who, product, skip};

const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h"];
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain_calls/pair.c");
const PORT: u16 = 18600;
/// perftest's port.
const PERFTEST_PORT: u16 = 18515;
const READY_WITHIN: Duration = Duration::from_secs(20);
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The change made to the two sides after their first message.
type Meddle = fn(&Lab) -> Result<()>;

/// A connection that breaks.
struct Case {
    /// Name in the table.
    name: &'static str,
    /// Settings of the server.
    server: &'static str,
    /// Settings of the client, whose queue pair fails.
    client: &'static str,
    /// Faults in what the server receives.
    fault: &'static str,
    /// The change made after the first message.
    meddle: Option<Meddle>,
    /// The cause with both records, and how sure it is.
    both: (&'static str, &'static str),
    /// The first cause with the client's record alone.
    alone: &'static str,
    /// Words that the text must have.
    words: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a GID that no host has",
        server: "",
        client: "gid=5",
        fault: "",
        meddle: None,
        both: ("wrong-gid", "certain"),
        alone: "wrong-gid",
        words: &["RETRY_EXC_ERR (12)", "10.77.0.7", "wrong GID (certain)", "last heard: nothing"],
    },
    Case {
        name: "a number that no queue pair has",
        server: "",
        client: "qpn=7",
        fault: "",
        meddle: None,
        both: ("wrong-qpn", "certain"),
        alone: "firewall",
        words: &["wrong queue pair number (certain)", "expects its packets"],
    },
    Case {
        name: "different path MTUs",
        server: "mtu=2",
        client: "mtu=3 size=4096",
        fault: "",
        meddle: None,
        both: ("mtu", "certain"),
        alone: "mtu",
        words: &["path_mtu is 1024 here and 512 at the peer"],
    },
    Case {
        name: "a link that carries short packets only",
        server: "mtu=5",
        client: "mtu=5 size=4096",
        fault: "",
        meddle: Some(|lab| link(lab, lab.server(), "mtu 1400")),
        both: ("mtu", "likely"),
        alone: "mtu",
        words: &["with up to 64 bytes of payload were answered"],
    },
    Case {
        name: "an interface that goes down",
        server: "",
        client: "",
        fault: "",
        meddle: Some(|lab| link(lab, lab.client(), "down")),
        both: ("cable", "certain"),
        alone: "cable",
        words: &["IBV_EVENT_PORT_ERR"],
    },
    Case {
        name: "a peer that is killed",
        server: "",
        client: "",
        fault: "",
        meddle: Some(kill_server),
        both: ("peer-gone", "certain"),
        alone: "peer-gone",
        words: &["was killed by signal 9", "last heard: Acknowledge (ACK)"],
    },
    Case {
        name: "a firewall that refuses what leaves",
        server: "",
        client: "",
        fault: "",
        meddle: Some(|lab| firewall(lab, lab.client(), "OUTPUT")),
        both: ("firewall", "certain"),
        alone: "firewall",
        words: &["EPERM"],
    },
    Case {
        name: "a firewall that drops what arrives",
        server: "",
        client: "",
        fault: "",
        meddle: Some(|lab| firewall(lab, lab.server(), "INPUT")),
        both: ("firewall", "likely"),
        alone: "peer-gone",
        words: &["UDP port 4791", "received it never"],
    },
    Case {
        name: "a timeout shorter than the way",
        server: "",
        client: "timeout=8 retry=1 hold=1500",
        fault: "delay=300ms",
        meddle: None,
        both: ("short-timeout", "certain"),
        alone: "short-timeout",
        words: &["timeout is 8 (1048.6 µs), retry_cnt 1"],
    },
    Case {
        name: "no receive is posted",
        server: "receives=1",
        client: "rnr=1",
        fault: "",
        meddle: None,
        both: ("receiver-not-ready", "certain"),
        alone: "receiver-not-ready",
        words: &["RNR_RETRY_EXC_ERR (13)", "1 receive in all"],
    },
    Case {
        name: "an address that is taken away",
        server: "",
        client: "",
        fault: "",
        meddle: Some(lose_address),
        both: ("address-gone", "certain"),
        alone: "address-gone",
        words: &["not an address of this host any more"],
    },
    Case {
        name: "an R_Key that does not exist",
        server: "",
        client: "rkey=1",
        fault: "",
        meddle: None,
        both: ("remote-access", "certain"),
        alone: "remote-access",
        words: &["REM_ACCESS_ERR (10)", "NAK: remote access error"],
    },
];

fn link(lab: &Lab, side: &Side, change: &str) -> Result<()> {
    lab.ip(&format!("-n {} link set {} {change}", side.netns, side.interface))
}

/// The far end of the path keeps its address: the TCP connection is not needed any more.
fn lose_address(lab: &Lab) -> Result<()> {
    let Side { netns, interface, v4, .. } = lab.client();
    lab.ip(&format!("-n {netns} addr del {v4}/24 dev {interface}"))
}

fn firewall(lab: &Lab, side: &Side, chain: &str) -> Result<()> {
    let words = ["iptables", "-A", chain, "-p", "udp", "--dport", "4791", "-j", "DROP"];
    lab.start_bare(side, Who::Root, &words)?.wait(READY_WITHIN).success().map(drop)
}

/// Kills the server's program, not the command that records it.
fn kill_server(lab: &Lab) -> Result<()> {
    let pid = lab.pids(lab.server()).into_iter().find(|pid| name_of(*pid) == "pair").context("no server")?;
    signal(pid, rustix::process::Signal::KILL)
}

fn signal(pid: u32, signal: rustix::process::Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process ID")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn broken_connections_are_explained() {
    if !skip::have("broken_connections_are_explained", NEEDED) {
        return;
    }
    let mut table = Table::new("explain");
    for case in CASES {
        if case.name.contains("firewall") && !skip::have(case.name, &["iptables"]) {
            continue;
        }
        // Each case leaves the network in a state of its own.
        let lab = Lab::new(Shape::Two { mtu: 9000 }).expect("a lab");
        table.case(case.name, || explained(&lab, case));
    }
    table.finish();
}

fn explained(lab: &Lab, case: &Case) -> Result<()> {
    let program = compile(lab)?;
    let [server, client] = ["server", "client"].map(|side| lab.file(&format!("{side}.record")));
    break_connection(lab, case, &program, [&server, &client])?;
    let both = explain(lab, &[&client, &server], &["--json"])?;
    let (cause, certainty) = first_cause(&both)?;
    let text = explain(lab, &[&client, &server], &[])?;
    ensure!((cause.as_str(), certainty.as_str()) == case.both, "{cause}, {certainty}:\n{text}");
    for word in case.words {
        ensure!(text.contains(word), "{word:?} is missing:\n{text}");
    }
    let (cause, _) = first_cause(&explain(lab, &[&client], &["--json"])?)?;
    let text = explain(lab, &[&client], &[])?;
    ensure!(cause == case.alone, "{cause} without the peer's record:\n{text}");
    ensure!(text.contains("fix: "), "{text}");
    Ok(())
}

/// Connects the two programs, and breaks the connection.
fn break_connection(lab: &Lab, case: &Case, program: &str, [of_server, of_client]: [&Path; 2]) -> Result<()> {
    let port = PORT.to_string();
    let index = |side| lab.device(side).map(|device| device.gid_v4.to_string());
    let (server_index, client_index) = (index(lab.server())?, index(lab.client())?);
    let mut words = vec![program, &lab.device(lab.server())?.name, &server_index, "server", &port];
    words.extend(case.server.split_whitespace());
    let env: &[(&str, &str)] = if case.fault.is_empty() { &[] } else { &[("WEFT_FAULT", case.fault)] };
    let mut server = lab.start_line(&recorded(lab, lab.server(), of_server, &words)?, env)?;
    ensure!(server.wait_listening(PORT, READY_WITHIN), "the server does not listen:\n{}", server.text());

    let go = lab.file("go").display().to_string();
    let waits = format!("go={go}");
    let mut words = vec![program, &lab.device(lab.client())?.name, &client_index, "client", &port, lab.server().v4];
    words.extend(case.client.split_whitespace());
    words.extend(case.meddle.map(|_| waits.as_str()));
    let mut client = lab.start_line(&recorded(lab, lab.client(), of_client, &words)?, &[])?;
    if let Some(meddle) = case.meddle {
        let is_up = client.wait_until(READY_WITHIN, |client| client.text().contains("first: 0"));
        ensure!(is_up, "no connection:\n{}\n{}", client.text(), server.text());
        meddle(lab)?;
        std::fs::write(&go, "")?;
    }
    let client = client.wait(ENDS_WITHIN);
    ensure!(client.text.contains("status: ") && !client.text.contains("status: 0"), "{}", client.report());
    end_server(lab, server)
}

/// The server ends with the TCP connection; where that broke, too, it is ended.
fn end_server(lab: &Lab, mut server: Proc) -> Result<()> {
    if !server.wait_until(Duration::from_secs(2), |_| false) && server.running() {
        for pid in lab.pids(lab.server()).into_iter().filter(|pid| name_of(*pid) == "pair") {
            signal(pid, rustix::process::Signal::TERM)?;
        }
    }
    let ended = server.wait(ENDS_WITHIN);
    ensure!(ended.text.contains("weft record: "), "no record: {}", ended.report());
    Ok(())
}

fn recorded(lab: &Lab, side: &Side, file: &Path, words: &[&str]) -> Result<Vec<String>> {
    let (weft, file) = (product::weft()?.display().to_string(), file.display().to_string());
    let _ = std::fs::remove_file(&file);
    Ok(lab.bare(side, Who::Root, &[&[weft.as_str(), "record", "-o", &file, "--"], words].concat()))
}

fn explain(lab: &Lab, files: &[&Path], options: &[&str]) -> Result<String> {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut words = vec!["explain"];
    words.extend(options);
    words.extend(files.iter().map(String::as_str));
    Ok(lab.weft(lab.client(), Who::Root, &[], &words)?.success()?.text)
}

/// Returns the first cause of the failed queue pair of the first file, and how sure it is.
fn first_cause(json: &str) -> Result<(String, String)> {
    let json: Value = serde_json::from_str(json).with_context(|| json.to_owned())?;
    let pairs = json["queue_pairs"].as_array().context("no queue pairs")?;
    let Some(failed) = pairs.iter().find(|qp| !qp["failure"].is_null()) else { bail!("no failure: {json:#}") };
    let first = &failed["causes"][0];
    let text = |key: &str| first[key].as_str().map(str::to_owned).with_context(|| format!("no {key}: {json:#}"));
    Ok((text("cause")?, text("certainty")?))
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("pair").display().to_string();
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o", &program, SOURCE, "-libverbs"]);
    let out = cc.output().context("cc")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(program)
}

/// Programs whose recorded packets tshark reads, with opcodes (its decimal `infiniband.bth.opcode`) that must be among them.
const CAPTURED: &[(&str, &str, &[u8])] = &[
    ("ibv_rc_pingpong", "-n 20 -s 4096 -m 1024", &[0, 1, 2, 17]),
    ("ibv_uc_pingpong", "-n 20 -s 100", &[36]),
    ("ib_write_bw", "-F -n 20 -s 4096 -m 1024", &[6, 7, 8, 17]),
    // The row of the GID table is of RoCE v1.
    ("ib_write_bw", "-F -n 20 -s 4096 -m 1024 -x 32", &[6, 7, 8, 17]),
    ("ib_read_bw", "-F -n 20 -s 4096 -m 1024", &[12, 13, 14, 15]),
    ("ib_atomic_bw", "-F -n 20", &[20, 18]),
];

#[test]
fn recorded_packets_are_a_capture() {
    if !skip::have("recorded_packets_are_a_capture", &["ip", "tshark", "ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("recorded packets");
    for (tool, args, opcodes) in CAPTURED {
        table.case(&format!("{tool} {args}"), || captured(&lab, tool, args, opcodes));
    }
    table.finish();
}

fn captured(lab: &Lab, tool: &str, args: &str, opcodes: &[u8]) -> Result<()> {
    let (file, capture) = (lab.file("client.record"), lab.file("packets.pcapng"));
    let mut pair = Pair::new(tool, args).devices(lab)?;
    if tool.starts_with("ibv_") {
        let row = |side| lab.device(side).map(|device| format!("-g {}", device.gid_v4));
        pair = pair.each(&row(lab.server())?, &row(lab.client())?);
    }
    let server = pair.start_server(lab)?;
    let words: Vec<&str> = pair.client.iter().map(String::as_str).chain([lab.server().v4]).collect();
    lab.start_line(&recorded(lab, lab.client(), &file, &words)?, &[])?.wait(ENDS_WITHIN).success()?;
    server.wait(ENDS_WITHIN).success()?;
    explain(lab, &[&file], &["--all", "--pcapng", &capture.display().to_string()])?;
    check_capture(&capture, opcodes)
}

/// Checks that every packet is whole as far as it was captured, and says which queue pair and verb it is of.
fn check_capture(file: &Path, opcodes: &[u8]) -> Result<()> {
    const FIELDS: [&str; 5] =
        ["frame.protocols", "infiniband.bth.opcode", "frame.cap_len", "frame.len", "frame.comment"];
    let mut tshark = Command::new("tshark");
    // tshark takes small payloads for RPC over RDMA and then calls them malformed.
    tshark.args(["--disable-protocol", "rpcordma", "-T", "fields", "-r"]).arg(file);
    tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let out = tshark.output().context("tshark")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [protocols, opcode, captured, length, comment] = fields[..] else { bail!("{line}") };
        ensure!(protocols.contains("infiniband") && !protocols.contains("malformed"), "{line}");
        ensure!(captured.parse::<u32>()? < length.parse::<u32>()?, "{line}");
        ensure!(comment.contains(" of process ") && comment.contains("PSN"), "{line}");
        seen.insert(opcode.parse::<u8>().with_context(|| line.to_owned())?);
    }
    for opcode in opcodes {
        ensure!(seen.contains(opcode), "no packet of opcode {opcode}, only {seen:?}");
    }
    Ok(())
}

const FABRIC_TOOLS: &[&str] = &["ip", "opensm", "ib_write_bw", "ibstat", "tshark"];

#[test]
fn broken_connections_of_a_fabric_are_explained() {
    if !skip::have("broken_connections_of_a_fabric_are_explained", FABRIC_TOOLS) {
        return;
    }
    let mut table = Table::new("explain, fabric");
    for (name, words, cause, by_packets) in [
        ("two limited members of a partition, data through memory", "--pkey_index=1", "pkey", false),
        ("two partitions, packets hop by hop", "--pkey_index=2", "pkey", true),
        ("a cable, data through memory", "", "cable", false),
        ("a cable, packets hop by hop", "", "cable", true),
    ] {
        // Timeouts of cut cables take half a minute each.
        if words.is_empty() && !by_packets && !weft_interop::table::all() {
            continue;
        }
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        table.case(name, || explained_on_a_fabric(&lab, words, cause, by_packets));
    }
    table.finish();
}

/// The client uses another partition than the server, or its cable is cut.
fn explained_on_a_fabric(lab: &Lab, client_words: &str, cause: &str, by_packets: bool) -> Result<()> {
    let (fabric, _opensm) = bring_up(lab, by_packets)?;
    let [server_file, client_file] = ["server", "client"].map(|side| lab.file(&format!("{side}.record")));
    let cuts = client_words.is_empty();
    let length = if cuts { ["-D", "20"] } else { ["-n", "100"] };
    let tool = [&["ib_write_bw", "-d", "weft0", "-F"][..], &length].concat();
    // Both ends have the index of the limited members; in the other case the client alone has one.
    let server_words = if by_packets { "" } else { client_words };
    let words: Vec<&str> = tool.iter().copied().chain(server_words.split_whitespace()).collect();
    let server = lab.start_line(&recorded_as(lab, SERVER, &server_file, &words)?, &[])?;
    let until = std::time::Instant::now() + READY_WITHIN;
    while !listens("ib_write_bw", PERFTEST_PORT) {
        ensure!(std::time::Instant::now() < until, "the server does not listen:\n{}", server.text());
        std::thread::sleep(Duration::from_millis(50));
    }
    let words: Vec<&str> = tool.iter().copied().chain(client_words.split_whitespace()).chain([SERVER]).collect();
    let mut client = lab.start_line(&recorded_as(lab, CLIENT, &client_file, &words)?, &[])?;
    if cuts {
        let rings = PathBuf::from(format!("{}.rings", client_file.display()));
        let is_connected = |_: &Proc| explain(lab, &[&rings], &["--json"]).is_ok_and(|json| json.contains("\"RTS\""));
        ensure!(client.wait_until(READY_WITHIN, is_connected), "{}", client.text());
        std::thread::sleep(Duration::from_secs(1));
        fabric.weft(&["cable", "cut", &format!("{CLIENT}:1")])?;
    }
    let client: Ended = client.wait(ENDS_WITHIN);
    ensure!(client.text.contains("status 12"), "{}", client.report());
    drop(server.wait(Duration::from_secs(20)));
    // A server that waits for its client for ever was killed with the command that records it: its rings are left.
    let rings = PathBuf::from(format!("{}.rings", server_file.display()));
    let both = [client_file.as_path(), if rings.exists() { &rings } else { &server_file }];
    let (found, _) = first_cause(&explain(lab, &both, &["--json"])?)?;
    ensure!(found == cause, "{found}:\n{}", explain(lab, &both, &[])?);
    if by_packets {
        let capture = lab.file("packets.pcapng");
        explain(lab, &both, &["--all", "--pcapng", &capture.display().to_string()])?;
        check_capture(&capture, &[6])?;
    }
    Ok(())
}

const SERVER: &str = "node1";
const CLIENT: &str = "node2";

fn recorded_as(lab: &Lab, host: &str, file: &Path, words: &[&str]) -> Result<Vec<String>> {
    let (weft, file) = (product::weft()?.display().to_string(), file.display().to_string());
    let command = [&[weft.as_str(), "record", "-o", &file, "--host", host, "--"], words].concat();
    Ok(lab.bare(lab.client(), Who::Root, &command))
}

/// Whether a program of this name listens on a TCP port, in whatever network namespace it is.
fn listens(name: &str, port: u16) -> bool {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let wanted = format!(":{port:04X} ");
    pids.filter(|pid| name_of(*pid) == name).any(|pid| {
        ["tcp", "tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            text.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
        })
    })
}

/// Brings up two hosts and their subnet manager, with a partition of limited members, which may not talk to each other.
fn bring_up(lab: &Lab, by_packets: bool) -> Result<(Fabric<'_>, Proc)> {
    let words = ["--star", "2"];
    let fabric = if by_packets { Fabric::hop_by_hop(lab, &words)? } else { Fabric::up(lab, &words)? };
    let file = |name: &str| lab.file(name).display().to_string();
    let (log, parts, config) = (file("opensm.log"), file("partitions.conf"), file("opensm.conf"));
    std::fs::write(&parts, "Default=0x7fff,ipoib:ALL=full;\nOne=0x0001:ALL=limited;\nTwo=0x0002:ALL=full;\n")?;
    std::fs::write(&config, "force_log_flush TRUE\n")?;
    let words = ["opensm", "-F", &config, "-P", &parts, "-f", &log];
    let mut opensm = lab.start_line(&fabric.words(SERVER, &words)?, &[("OSM_CACHE_DIR", &file(""))])?;
    let up = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SUBNET UP"));
    ensure!(opensm.wait_until(READY_WITHIN, up), "no subnet:\n{}", opensm.kill().report());
    fabric.wait("all links active", |state| state["links"]["active"] == 2)?;
    Ok((fabric, opensm))
}
