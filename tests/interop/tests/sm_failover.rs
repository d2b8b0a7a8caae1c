//! Subnet managers that come and go under traffic: connections stay up, new ones get their path records, and a standby
//! answers in time. Also a subnet that is cut in two and joined again, with Debian's manager as either of the two.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_interop::manager::{WITHIN, settled, until};
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] =
    &["ip", "opensm", "sminfo", "saquery", "rping", "ib_write_bw", "ibv_rc_pingpong", "ibv_asyncwatch"];

/// Interval at which a standby polls the master.
const POLLING: Duration = Duration::from_millis(600);

/// Time for a program to start and send its query, on a busy machine.
const PROGRAM: Duration = Duration::from_millis(400);

/// Two switches with hosts at both, and two cables between them.
const HALVES: &str = r#"
cables = ["node[1-3] - left", "node[4-6] - right", "left:7 - right:7", "left:8 - right:8"]
[[switch]]
name = "left"
ports = 8
[[switch]]
name = "right"
ports = 8
[[host]]
name = "node"
count = 6
"#;

const CABLES: [[&str; 2]; 2] = [["left:7", "right:7"], ["left:8", "right:8"]];

/// Starts a manager on a host, with a priority.
type Start = fn(&Fabric<'_>, &Lab, &str, &str) -> Result<Proc>;

/// Starts Weft's manager on a host.
fn ours(fabric: &Fabric<'_>, lab: &Lab, host: &str, priority: &str) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    let polling = format!("sminfo_polling_timeout={}", POLLING.as_millis());
    let words = [weft.as_str(), "sm", "--no-config", "--set", &polling, "--sweep", "1", "-p", priority];
    let proc = lab.start_line(&fabric.words(host, &words)?, &[])?;
    settled(proc)
}

/// Starts Debian's manager on a host, with the same polling interval and as quick to see its half of the subnet.
fn theirs(fabric: &Fabric<'_>, lab: &Lab, host: &str, priority: &str) -> Result<Proc> {
    let cache = lab.file(&format!("cache-{host}")).display().to_string();
    std::fs::create_dir_all(&cache)?;
    let config = lab.file(&format!("opensm-{host}.conf")).display().to_string();
    let text = format!("sminfo_polling_timeout {}\npolling_retry_number 2\nsweep_interval 1\n", POLLING.as_millis());
    std::fs::write(&config, text + &format!("dump_files_dir {cache}\nmax_wire_smps 16\n"))?;
    let words = fabric.words(host, &["opensm", "-F", &config, "-p", priority, "-f", "stdout"])?;
    let proc = lab.start_line(&words, &[("OSM_CACHE_DIR", &cache)])?;
    settled(proc)
}

fn lid(fabric: &Fabric<'_>, host: &str) -> Result<u64> {
    let all = fabric.lids()?;
    all.iter().find(|(name, _)| name == host).map(|(_, lid)| *lid).context("no LID")
}

/// Queries the administrator until `stop` is set; returns the longest time without an answer.
fn longest_silence(fabric: &Fabric<'_>, stop: &AtomicBool) -> Result<Duration> {
    let (mut answered, mut longest) = (Instant::now(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let said = fabric.run("node12", &["saquery", "-t", "100", "NR", "1"])?;
        if said.ok() && said.text.contains("NodeRecord") {
            longest = longest.max(answered.elapsed());
            answered = Instant::now();
        }
    }
    Ok(longest.max(answered.elapsed()))
}

/// A server and a client that exchange data until the end of the test.
struct Talk {
    server: Proc,
    client: Proc,
}

fn talk(lab: &Lab, fabric: &Fabric<'_>, port: u16, hosts: [&str; 2], words: &[&str]) -> Result<Talk> {
    let number = port.to_string();
    let all = [words, &["-p", &number]].concat();
    let mut server = lab.start_line(&fabric.words(hosts[0], &all)?, &[])?;
    ensure!(server.wait_listening(port, WITHIN), "{}", server.kill().report());
    let client = lab.start_line(&fabric.words(hosts[1], &[&all[..], &[hosts[0]]].concat())?, &[])?;
    Ok(Talk { server, client })
}

#[test]
fn connections_outlive_managers() {
    if !skip::have("connections outlive managers", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "8,2", "--hosts", "16"]).expect("a fabric");
    let mut table = Table::new("connections outlive managers");
    let mut first = Some(ours(&fabric, &lab, "node1", "3").expect("a master"));
    let _second = ours(&fabric, &lab, "node2", "2").expect("a standby");
    let is_master = |lid: u64| until("another master", || Ok(fabric.master("node9")? == Some(lid)));
    is_master(1).expect("a master");
    let before = fabric.lids().expect("LIDs");
    let write = ["ib_write_bw", "-d", "weft0", "-D", "9", "-s", "65536"];
    let writes = talk(&lab, &fabric, 18601, ["node5", "node10"], &write).expect("traffic");
    let pings = ["ibv_rc_pingpong", "-d", "weft0", "-e", "-n", "400000", "-s", "64"];
    let mut pings = talk(&lab, &fabric, 18602, ["node6", "node11"], &pings).expect("traffic");
    let serve = fabric.words("node7", &["rping", "-s", "-P", "-a", "10.0.0.7"]).expect("words");
    let _serve = lab.start_line(&serve, &[]).expect("a server");
    let connect = || fabric.run("node12", &["rping", "-c", "-a", "10.0.0.7", "-C", "1"]);
    until("rping's server listens", || Ok(connect()?.ok())).expect("a server");
    let watch = fabric.words("node8", &["stdbuf", "-oL", "ibv_asyncwatch", "-d", "weft0"]).expect("words");
    let mut watch = lab.start_line(&watch, &[]).expect("a program");
    assert!(watch.wait_until(WITHIN, |proc| proc.text().contains("FD")), "no adapter: {}", watch.text());
    table.case("the master is killed: who stands by answers in time", || {
        let (stop, rested) = (AtomicBool::new(false), AtomicBool::new(false));
        // How long a question takes while a master answers: the machine may be busy.
        let usual = std::thread::scope(|scope| {
            let asks = scope.spawn(|| longest_silence(&fabric, &rested));
            std::thread::sleep(Duration::from_millis(1500));
            rested.store(true, Ordering::Relaxed);
            asks.join().map_err(|_| anyhow::anyhow!("a panic"))?
        })?;
        let silence = std::thread::scope(|scope| {
            let asks = scope.spawn(|| longest_silence(&fabric, &stop));
            std::thread::sleep(Duration::from_millis(300));
            first.take().context("a master")?.kill();
            let done = is_master(2);
            stop.store(true, Ordering::Relaxed);
            let silence = asks.join().map_err(|_| anyhow::anyhow!("a panic"))?;
            done.and(silence)
        })?;
        ensure!(silence <= 2 * POLLING + PROGRAM + 2 * usual, "nobody answered for {silence:?}, {usual:?} before");
        ensure!(fabric.lids()? == before, "LIDs changed");
        println!("    nobody answered for {silence:?}, polls are {POLLING:?} apart");
        Ok(())
    });
    table.case("programs hear that they must register again", || {
        let heard = watch.wait_until(WITHIN, |proc| proc.text().to_lowercase().contains("reregist"));
        ensure!(heard, "no event:\n{}", watch.text());
        Ok(())
    });
    table.case("and hands over when the first comes back", || {
        first = Some(ours(&fabric, &lab, "node1", "3")?);
        is_master(1)?;
        ensure!(fabric.lids()? == before, "LIDs changed");
        Ok(())
    });
    table.case("who connects while there is no master connects all the same", || {
        first.take().context("a master")?.kill();
        for turn in 0..4 {
            let said = connect()?;
            ensure!(said.ok(), "turn {turn}: {}", said.report());
        }
        is_master(2)?;
        first = Some(ours(&fabric, &lab, "node1", "3")?);
        for turn in 0..4 {
            let said = connect()?;
            ensure!(said.ok(), "handing back, turn {turn}: {}", said.report());
        }
        is_master(1)
    });
    table.case("ib_write_bw heard nothing of it", || {
        writes.client.wait(WITHIN).success()?;
        writes.server.wait(WITHIN).success().map(drop)
    });
    table.case("ibv_rc_pingpong neither", || {
        let ended = |proc: &mut Proc| !proc.running();
        if ended(&mut pings.client) {
            pings.client.wait(WITHIN).success()?;
            pings.server.wait(WITHIN).success()?;
        } else {
            ensure!(pings.server.running(), "{}", pings.server.kill().report());
        }
        Ok(())
    });
    table.finish();
}

#[test]
fn halves_become_whole() {
    if !skip::have("halves become whole", TOOLS) {
        return;
    }
    let mut table = Table::new("halves become whole");
    let pairs: [(&str, Start, Start); 3] =
        [("ours and ours", ours, ours), ("ours and OpenSM", ours, theirs), ("OpenSM and ours", theirs, ours)];
    for (name, greater, lesser) in pairs {
        table.case(name, || split_and_join(greater, lesser));
    }
    table.finish();
}

/// Tests managers in both halves of a subnet that is cut and joined: one in each, then the greater one alone, whose
/// half keeps its LIDs.
fn split_and_join(greater: Start, lesser: Start) -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let file = lab.file("halves.toml").display().to_string();
    std::fs::write(&file, HALVES)?;
    let fabric = Fabric::up(&lab, &[&file])?;
    let first = greater(&fabric, &lab, "node1", "3")?;
    until("a master", || Ok(fabric.master("node3")?.is_some()))?;
    let second = lesser(&fabric, &lab, "node4", "2")?;
    let said = || format!("\n{}\n{}", tail(&first), tail(&second));
    let masters = |left: &str, right: &str| -> Result<bool> {
        let (a, b) = (lid(&fabric, left)?, lid(&fabric, right)?);
        Ok(fabric.master("node3")? == Some(a) && fabric.master("node6")? == Some(b))
    };
    let step = |what: &str, left: &str, right: &str| until(what, || masters(left, right)).with_context(said);
    step("one master of the whole", "node1", "node1")?;
    for [a, b] in CABLES {
        fabric.weft(&["cable", "cut", a, b])?;
    }
    step("a master in each half", "node1", "node4")?;
    let left: BTreeSet<_> = fabric.lids()?.into_iter().filter(|(name, _)| LEFT.contains(&name.as_str())).collect();
    for [a, b] in CABLES {
        fabric.weft(&["cable", "join", a, b])?;
    }
    step("one master of the whole again", "node1", "node1")?;
    fabric.wait("every link is active", |status| status["links"]["active"] == 8)?;
    let all = fabric.lids()?;
    let different: BTreeSet<u64> = all.iter().map(|(_, lid)| *lid).collect();
    ensure!(all.len() == 8 && different.len() == 8, "two nodes have one LID: {all:?}");
    ensure!(left.iter().all(|one| all.contains(one)), "LIDs of the master's half changed: {left:?}, now {all:?}");
    let said = fabric.run("node3", &["saquery", "-p", "--src-to-dst", &format!("{}:{}", all[0].1, all[7].1)])?;
    ensure!(said.ok() && said.text.contains("PathRecord"), "{}", said.report());
    Ok(())
}

/// The scenario `manager-lost`, whose minute is four seconds here.
#[test]
fn a_scenario_switches_the_master_off() {
    if !skip::have("a scenario switches the master off", TOOLS) {
        return;
    }
    let mut table = Table::new("manager-lost");
    for (name, standby) in [("Weft's manager stands by", ours as Start), ("OpenSM stands by", theirs)] {
        table.case(name, || manager_lost(standby));
    }
    table.finish();
}

fn manager_lost(standby: Start) -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?;
    let fabric = Fabric::up(&lab, &["--star", "4"])?;
    let _first = ours(&fabric, &lab, "node1", "3")?;
    until("a master", || Ok(fabric.master("node3")?.is_some()))?;
    let second = standby(&fabric, &lab, "node2", "2")?;
    let host_of_master = || -> Result<Option<String>> {
        let Some(master) = fabric.master("node3")? else { return Ok(None) };
        Ok(fabric.lids()?.into_iter().find(|(_, lid)| *lid == master).map(|(name, _)| name))
    };
    let is_master = |host: &str| until(host, || Ok(host_of_master()?.as_deref() == Some(host)));
    is_master("node1")?;
    let text = fabric.weft(&["fault", "scenarios", "manager-lost"])?;
    ensure!(text.contains("at = \"60s\""), "{text}");
    let file = lab.file("manager-lost.toml").display().to_string();
    std::fs::write(&file, text.replace("at = \"60s\"", "at = \"4s\""))?;
    let played = std::thread::scope(|scope| {
        let plays = scope.spawn(|| fabric.try_weft(&["fault", "run", &file, "--set", "node=node1"]));
        let passed = is_master("node2").with_context(|| tail(&second)).and_then(|()| connects(&lab, &fabric));
        passed.and(plays.join().map_err(|_| anyhow::anyhow!("a panic"))?)
    })?;
    let text = played.success()?.text;
    ensure!(text.contains("off node1") && text.contains("on node1"), "{text}");
    fabric.wait("node1 has a link again", |status| status["links"]["active"] == 4)
}

/// A new connection has its path record.
fn connects(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let serve = fabric.words("node4", &["rping", "-s", "-P", "-a", "10.0.0.4"])?;
    let _serve = lab.start_line(&serve, &[])?;
    let connect = || fabric.run("node3", &["rping", "-c", "-a", "10.0.0.4", "-C", "1"]);
    until("rping's server listens", || Ok(connect()?.ok()))
}

const LEFT: [&str; 4] = ["left", "node1", "node2", "node3"];

fn tail(proc: &Proc) -> String {
    let text = proc.text();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
