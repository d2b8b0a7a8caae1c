//! Monitoring of a fabric's programs from outside its hosts and from one of them, `weft diagnose` from a chosen host,
//! and the lines about settings that have no effect on a fabric.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, Who, skip};

#[test]
fn instruments_see_a_fabric() {
    if !skip::have("instruments on a fabric", &["ip", "ib_write_bw"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--star", "3"]).expect("a fabric");
    let mut table = Table::new("instruments on a fabric");
    table.case("stat, qp, resource show every host's programs, and one host's with --host", || running(&lab, &fabric));
    table.case("counters of ports rise while no tool asks the programs", || live(&lab, &fabric));
    table.case("counters remain after the programs ended", || ended(&lab, &fabric));
    table.case("link, dev mention the hosts' adapters, and show one host's with --host", || devices(&lab, &fabric));
    table.case("diagnose chooses a host, and takes names of hosts", || diagnosed(&lab));
    table.case("settings without effect are named", || no_effect(&lab));
    table.finish();
}

/// Runs `weft WORDS` in the namespace, outside the fabric's hosts.
fn weft(lab: &Lab, words: &[&str]) -> Result<Ended> {
    lab.weft(lab.client(), Who::Root, &[], words)
}

fn start_writes(lab: &Lab, fabric: &Fabric<'_>) -> Result<(Proc, Proc)> {
    let words = ["ib_write_bw", "-d", "weft0", "-F", "-D", "30"];
    let mut server = lab.start_line(&fabric.words("node2", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node3", &[&words[..], &["node2"]].concat())?, &[])?;
    Ok((server, client))
}

fn running(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (server, mut client) = start_writes(lab, fabric)?;
    let mut last = String::new();
    let both = client.wait_until(Duration::from_secs(15), |_| {
        last = weft(lab, &["qp"]).map(|ended| ended.text).unwrap_or_default();
        // The server of a unidirectional test needs no more than RTR.
        [("node2", " state RT"), ("node3", " state RTS ")].iter().all(|(host, state)| {
            let start = format!("link weft0/1 host {host} lqpn ");
            last.lines().any(|line| line.starts_with(&start) && line.contains(state))
        })
    });
    let (counters, objects) = (weft(lab, &["stat"])?, weft(lab, &["resource"])?);
    let of_host = |command| weft(lab, &[command, "--host", "node3"]);
    let (host_qp, host_counters, host_objects) = (of_host("qp")?, of_host("stat")?, of_host("resource")?);
    drop((client.kill(), server.kill()));
    ensure!(both, "not both ends:\n{last}");
    for host in ["node2", "node3"] {
        ensure!(counters.text.contains(&format!("weft0/1 of {host}  pd 1 cq ")), "{}", counters.report());
        ensure!(objects.text.contains(&format!("0: weft0: host {host} pd 1 ")), "{}", objects.report());
    }
    ensure!(host_qp.text.starts_with("link weft0/1 lqpn "), "{}", host_qp.report());
    ensure!(host_qp.text.lines().count() == 1, "{}", host_qp.report());
    ensure!(host_counters.text.starts_with("weft0/1  pd 1 cq "), "{}", host_counters.report());
    ensure!(host_counters.text.contains("_ops "), "{}", host_counters.report());
    ensure!(host_objects.text.starts_with("0: weft0: pd 1 "), "{}", host_objects.report());
    ensure!(host_objects.text.lines().count() == 1, "{}", host_objects.report());
    Ok(())
}

/// Reads a counter of a port, as monitoring agents do, while a program sends. The read itself asks no program.
fn live(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    const FILE: &str = "/sys/class/infiniband/weft0/ports/1/counters/port_xmit_data";
    let (server, mut client) = start_writes(lab, fabric)?;
    let words = || -> Result<u64> {
        let ended = lab.start_line(&fabric.words("node3", &["cat", FILE])?, &[])?.wait(Duration::from_secs(15));
        ended.text.trim().parse().with_context(|| ended.report())
    };
    let mut seen = Vec::new();
    // Management datagrams alone are less.
    let rises = client.wait_until(Duration::from_secs(20), |_| {
        seen.extend(words());
        seen.last().is_some_and(|last| *last > 1_000_000)
    });
    drop((client.kill(), server.kill()));
    ensure!(rises, "{FILE} of node3: {seen:?}");
    Ok(())
}

fn ended(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    fabric.wait("the programs' end", |state| {
        // The subnet manager on node1 stays.
        let programs = state["programs"].as_array();
        programs.is_some_and(|hosts| hosts.iter().all(|host| host["host"] == "node1"))
    })?;
    let stat: Value = serde_json::from_str(&weft(lab, &["stat", "--json"])?.success()?.text)?;
    let devices = stat["devices"].as_array().context("devices")?;
    let client = devices.iter().find(|device| device["host"] == "node3").with_context(|| format!("{stat:#}"))?;
    let copied = |name: &str| client["counters"][name].as_u64().unwrap_or(0);
    ensure!(copied("memcpy_bytes") + copied("process_vm_bytes") > 0, "{stat:#}");
    let queue_pairs = weft(lab, &["qp"])?.success()?;
    let none = "weft qp: no process has a queue pair there\n";
    ensure!(queue_pairs.text == none, "queue pairs of processes that ended: {}", queue_pairs.report());
    Ok(())
}

fn devices(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    for command in ["link", "dev"] {
        let mentioned = weft(lab, &[command])?.success()?;
        ensure!(mentioned.text.contains("the fabric's 3 hosts have adapters of their own"), "{}", mentioned.report());
        let shown = weft(lab, &[command, "--host", "node2"])?.success()?;
        ensure!(shown.text.contains("weft0") && !shown.text.contains("of their own"), "{}", shown.report());
    }
    let listed = fabric.run("node2", &["rdma", "dev"])?.success()?;
    ensure!(listed.text.starts_with("0: weft0: node_type ca "), "{}", listed.report());
    let taken = fabric.run("node2", &["rdma", "dev", "set", "weft0", "name", "a/b"])?;
    ensure!(!taken.ok() && taken.text.contains("cannot be a device's name"), "{}", taken.report());
    let wrong = weft(lab, &["stat", "weft7"])?;
    ensure!(wrong.text.contains("Wrong device name: weft7: no such device; device"), "{}", wrong.report());
    ensure!(wrong.text.contains("rxe_lo, weft0"), "{}", wrong.report());
    Ok(())
}

fn diagnosed(lab: &Lab) -> Result<()> {
    let path = weft(lab, &["diagnose", "--path", "node1", "node3"])?.success()?;
    ensure!(path.text.contains("asks from host node1 of the fabric"), "{}", path.report());
    ensure!(path.text.contains("From node1 weft0 port 1 to node3 weft0 port 1 (LID "), "{}", path.report());
    ensure!(path.text.contains("It arrives."), "{}", path.report());
    let path = weft(lab, &["diagnose", "--host", "node2", "--path", "node2", "switch1"])?.success()?;
    ensure!(path.text.contains("It arrives.") && !path.text.contains("asks from"), "{}", path.report());
    let whole = weft(lab, &["diagnose", "--host", "node2"])?;
    ensure!(whole.text.contains("Fabric from node2 weft0 port 1: 3 adapters"), "{}", whole.report());
    let unknown = weft(lab, &["diagnose", "--path", "node1", "node9"])?;
    ensure!(
        !unknown.ok() && unknown.text.contains("no port has the LID, GUID or name \"node9\""),
        "{}",
        unknown.report()
    );
    Ok(())
}

/// Variables, options of `weft run`, and the words that name what has no effect.
type NoEffect<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

fn no_effect(lab: &Lab) -> Result<()> {
    let run = |env: &[(&str, &str)], words: &[&str]| {
        lab.weft(lab.client(), Who::Root, env, &[&["run", "--host", "node1"], words].concat())?.success()
    };
    let file = lab.file("unheard.pcapng").display().to_string();
    let cases: &[NoEffect] = &[
        (&[], &["--fault", "loss=1%"], "--fault has no effect on a fabric"),
        (&[("WEFT_FAULT", "loss=1%")], &[], "WEFT_FAULT has no effect on a fabric's packets"),
        (&[], &["--pcap", &file], "--pcap captures nothing"),
        (&[("WEFT_PCAP", &file)], &[], "WEFT_PCAP captures nothing"),
        (&[("WEFT_LOOPBACK", "wire")], &[], "WEFT_LOOPBACK=wire has no effect on a fabric"),
    ];
    for (env, options, expected) in cases {
        let told = run(env, &[options, &["--", "true"][..]].concat())?;
        ensure!(told.text.matches("weft run: ").count() == 1 && told.text.contains(expected), "{}", told.report());
    }
    let silent = run(&[], &["--", "true"])?;
    ensure!(silent.text.is_empty(), "{}", silent.report());
    Ok(())
}
