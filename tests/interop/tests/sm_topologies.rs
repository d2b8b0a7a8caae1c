//! Weft's subnet manager on Debian's ibsim, one topology after the other: the subnet comes up, Debian's diagnostics
//! agree on it, and `weft diagnose`, which reads the tables back from the switches, finds every route complete and no
//! credit loop.
//!
//! The small ones run with all tests; the large ones by
//! `WEFT_TOPOLOGIES=large cargo test --release -p weft-interop --test sm_topologies`, which takes many minutes.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::proc::Proc;
use weft_interop::user::Who;
use weft_interop::{IbSim, Lab, Shape, Table, skip};

const TOOLS: &[&str] =
    &["ip", "ibsim", "timeout", "sminfo", "ibnetdiscover", "iblinkinfo", "ibqueryerrors", "dump_lfts"];

/// Time limit for a subnet to come up.
const UP_WITHIN: Duration = Duration::from_secs(120);

/// A topology: its name, the command line that generates it, its hosts and switches.
type Topology = (&'static str, &'static str, usize, usize);

const SMALL: &[Topology] = &[
    ("fat tree, 64 hosts", "--fat-tree 16,2 --hosts 64", 64, 16),
    ("torus 4x4x4", "--torus 4x4x4", 64, 64),
    ("dragonfly, 72 hosts", "--dragonfly 4,2,2", 72, 36),
    ("random, 10 switches", "--random 10,4 --hosts-per-switch 2", 20, 10),
];

const LARGE: &[Topology] = &[
    ("fat tree, 324 hosts", "--fat-tree 36,2 --hosts 324", 324, 36),
    ("fat tree, 648 hosts", "--fat-tree 36,2", 648, 54),
    ("fat tree, 1,728 hosts", "--fat-tree 24,3 --hosts 1728", 1728, 432),
    ("fat tree, 1,944 hosts", "--fat-tree 36,3 --hosts 1944", 1944, 540),
    ("fat tree, 2,048 hosts", "--fat-tree 64,2", 2048, 96),
    ("fat tree, 5,832 hosts", "--fat-tree 36,3 --hosts 5832", 5832, 972),
    ("torus 8x8x8", "--torus 8x8x8", 512, 512),
    ("torus 8x8x8, 4 hosts a switch", "--torus 8x8x8 --hosts-per-switch 4", 2048, 512),
    ("torus 16x16", "--torus 16x16", 256, 256),
    ("dragonfly, 1,056 hosts", "--dragonfly 8,4,4", 1056, 264),
    ("random, 64 switches", "--random 64,8,1 --hosts-per-switch 8", 512, 64),
];

/// Nodes that the simulator does not reach from the first host of the torus with this many switches: its limit for
/// packets routed by LID is 16 links.
const TOO_FAR: &[&str] = &["node137 weft0 port 1: counters", "sw8-8 port "];
const TOO_FAR_SWITCHES: usize = 256;

/// Starts Weft's manager on a host and waits until the subnet is up.
fn manager(sim: &IbSim<'_>, lab: &Lab, host: &str) -> Result<Proc> {
    let log = lab.file("sm.log");
    let _ = std::fs::remove_file(&log);
    let path = log.display().to_string();
    let mut proc = sim.stay(&sim.weft_words(host, &["sm", "--no-config", "-f", &path])?, &[])?;
    let is_up = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SUBNET UP"));
    ensure!(proc.wait_until(UP_WITHIN, is_up), "no SUBNET UP: {}", proc.kill().report());
    Ok(proc)
}

/// Counts the lines of a text with this prefix.
fn count(text: &str, begins: &str) -> usize {
    text.lines().filter(|line| line.starts_with(begins)).count()
}

/// Brings a topology up and checks it with every tool.
fn hold(lab: &Lab, (_, shape, hosts, switches): Topology) -> Result<()> {
    let words: Vec<&str> =
        ["topology", "--format", "net", "--speed", "EDR"].into_iter().chain(shape.split(' ')).collect();
    let net = lab.weft(lab.client(), Who::Root, &[], &words)?.success()?.text;
    let file = lab.file("topology.net");
    std::fs::write(&file, &net)?;
    let sim = IbSim::start(lab, &file)?;
    // ibsim knows a host by its name in ibnetdiscover's output.
    let first = net.lines().find(|line| line.starts_with("Ca\t")).context("a host")?;
    let host = first.split('"').nth(1).context("its name")?;
    let _manager = manager(&sim, lab, host)?;
    let said = sim.run(host, &["ibnetdiscover"])?.out;
    ensure!((count(&said, "Ca\t"), count(&said, "Switch\t")) == (hosts, switches), "ibnetdiscover finds others");
    let said = sim.run(host, &["iblinkinfo"])?.out;
    ensure!(said.contains("Active/  LinkUp") && !said.contains("Initialize") && !said.contains("Armed"), "{said}");
    let said = sim.run(host, &["sminfo"])?;
    ensure!(said.out.contains("SMINFO_MASTER"), "{said:?}");
    let said = sim.run(host, &["ibqueryerrors"])?;
    ensure!(format!("{}{}", said.out, said.err).contains(" 0 bad nodes found"), "{said:?}");
    if hosts + switches < 200 {
        let said = sim.run(host, &["dump_lfts"])?.out;
        // It leaves the last LID out if that begins a block of 64.
        let lids = hosts + switches - usize::from((hosts + switches) % 64 == 0);
        let ways = said.lines().filter(|line| line.starts_with("0x")).count();
        ensure!(ways == lids * switches, "dump_lfts has {ways} entries for {switches} switches of {lids} LIDs");
    }
    diagnose(&sim, host, switches)
}

/// Checks that all routes in the switches' tables lead to their destinations, and that lanes have no circular
/// dependency.
fn diagnose(sim: &IbSim<'_>, host: &str, switches: usize) -> Result<()> {
    let said = sim.weft(host, &["diagnose", "--seconds", "0.1", "--json"])?;
    let report: serde_json::Value = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let checks = report["checks"].as_array().context("checks")?;
    for title in ["answers", "subnet managers", "routes", "credit loops"] {
        let check =
            checks.iter().find(|check| check["check"] == title).with_context(|| format!("no check of {title}"))?;
        let findings = check["findings"].as_array().context("findings")?;
        let is_far = |finding: &serde_json::Value| {
            let text = finding["text"].as_str().unwrap_or_default();
            title == "answers" && switches == TOO_FAR_SWITCHES && TOO_FAR.iter().any(|far| text.starts_with(far))
        };
        ensure!(check["verdict"] == "ok" || findings.iter().all(is_far), "weft diagnose: {check:#}");
    }
    Ok(())
}

fn all(name: &'static str, topologies: &'static [Topology]) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new(name);
    for topology in topologies {
        table.case(topology.0, || hold(&lab, *topology));
    }
    table.finish();
}

#[test]
fn small_subnets_come_up_on_the_simulator_of_others() {
    all("small subnets on ibsim", SMALL);
}

#[test]
fn large_subnets_come_up_on_the_simulator_of_others() {
    if std::env::var_os("WEFT_TOPOLOGIES").is_some_and(|which| which == "large") {
        all("large subnets on ibsim", LARGE);
    }
}
