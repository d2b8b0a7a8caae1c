//! What people and scripts see of a fabric's programs from outside its hosts, and what commands say that cannot do there
//! what is asked.

use std::time::Duration;

use anyhow::{Result, ensure};
use weft_interop::fabric::Fabric;
use weft_interop::{Ended, Lab, Proc, Shape, Table, Who, skip};

#[test]
fn instruments_see_a_fabric() {
    if !skip::have("instruments on a fabric", &["ib_write_bw"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--star", "3"]).expect("a fabric");
    let mut table = Table::new("instruments on a fabric");
    table.case("programs of all hosts, from the machine and from a host", || seen(&lab, &fabric));
    table.case("counters stay when the programs have ended", || kept(&lab, &fabric));
    table.case("devices of the hosts are mentioned, and shown on request", || mentioned(&lab, &fabric));
    table.case("diagnose chooses a host, and takes names of hosts", || diagnosed(&lab, &fabric));
    table.case("what a fabric swallows is told", || swallowed(&lab, &fabric));
    table.finish();
}

fn weft(lab: &Lab, words: &[&str]) -> Result<Ended> {
    lab.weft(lab.client(), Who::Root, &[], words)
}

fn start(lab: &Lab, fabric: &Fabric<'_>) -> Result<(Proc, Proc)> {
    let words = ["ib_write_bw", "-d", "weft0", "-F", "-D", "6"];
    let mut server = lab.start_line(&fabric.words("node2", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node3", &[&words[..], &["127.0.0.1"]].concat())?, &[])?;
    Ok((server, client))
}

fn seen(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (server, mut client) = start(lab, fabric)?;
    let mut last = String::new();
    let both = client.wait_until(Duration::from_secs(8), |_| {
        last = weft(lab, &["qp"]).map(|ended| ended.text).unwrap_or_default();
        let of = |host: &str| format!("link weft0/1 host {host} lqpn ");
        last.contains(&of("node2")) && last.contains(&of("node3")) && last.contains("state RTS")
    });
    let (table, counts) = (weft(lab, &["stat"])?, weft(lab, &["resource"])?);
    let (host, own) = (weft(lab, &["qp", "--host", "node3"])?, weft(lab, &["stat", "weft0", "--host", "node3"])?);
    drop((client.kill(), server.kill()));
    ensure!(both, "not both ends:\n{last}");
    for host in ["node2", "node3"] {
        ensure!(table.text.contains(&format!("weft0/1 of {host}  pd 1 cq ")), "{}", table.report());
        ensure!(counts.text.contains(&format!("0: weft0: host {host} pd 1 ")), "{}", counts.report());
    }
    ensure!(host.text.starts_with("link weft0/1 lqpn ") && host.text.lines().count() == 1, "{}", host.report());
    ensure!(own.text.starts_with("weft0/1  pd 1 cq ") && own.text.contains("_ops "), "{}", own.report());
    Ok(())
}

fn kept(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    fabric.wait("programs to end", |state| {
        let programs = state["programs"].as_array();
        programs.is_some_and(|hosts| hosts.iter().all(|host| host["host"] == "node1"))
    })?;
    let stat: serde_json::Value = serde_json::from_str(&weft(lab, &["stat", "-j"])?.text)?;
    let of_client = stat["devices"].as_array().and_then(|all| all.iter().find(|device| device["host"] == "node3"));
    let counters = of_client.map(|device| device["counters"].clone()).unwrap_or_default();
    let copied = |name: &str| counters[name].as_u64().unwrap_or(0);
    ensure!(copied("memcpy_bytes") + copied("process_vm_bytes") > 0, "{stat:#}");
    ensure!(weft(lab, &["qp"])?.text.is_empty(), "queue pairs of processes that ended");
    Ok(())
}

fn mentioned(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    for command in ["link", "dev"] {
        let said = weft(lab, &[command])?;
        ensure!(said.text.contains("the fabric's 3 hosts have adapters of their own"), "{}", said.report());
        let shown = weft(lab, &[command, "--host", "node2"])?;
        ensure!(shown.text.contains("weft0") && !shown.text.contains("of their own"), "{}", shown.report());
    }
    let listed = fabric.run("node2", &["rdma", "dev"])?;
    ensure!(listed.text.starts_with("0: weft0: node_type ca "), "{}", listed.report());
    let renamed = fabric.run("node2", &["rdma", "dev", "set", "weft0", "name", "mlx4_0"])?;
    ensure!(renamed.text.contains("weft0 keeps its name"), "{}", renamed.report());
    let wrong = weft(lab, &["stat", "weft7"])?;
    ensure!(wrong.text.contains("Wrong device name: weft7: no such device; devices are "), "{}", wrong.report());
    Ok(())
}

fn diagnosed(lab: &Lab, _: &Fabric<'_>) -> Result<()> {
    let path = weft(lab, &["diagnose", "--path", "node1", "node3"])?;
    ensure!(path.text.contains("asks from host node1 of the fabric"), "{}", path.report());
    ensure!(path.text.contains("It arrives."), "{}", path.report());
    let path = weft(lab, &["diagnose", "--host", "node2", "--path", "node2", "switch1"])?;
    ensure!(path.text.contains("It arrives.") && !path.text.contains("asks from"), "{}", path.report());
    Ok(())
}

fn swallowed(lab: &Lab, _: &Fabric<'_>) -> Result<()> {
    let run = |env: &[(&str, &str)], words: &[&str]| {
        lab.weft(lab.client(), Who::Root, env, &[&["run", "--host", "node1"], words].concat())
    };
    let faults = run(&[], &["--fault", "loss=1%", "--", "true"])?;
    ensure!(faults.text.contains("--fault has no effect on a fabric"), "{}", faults.report());
    let file = lab.file("swallowed.pcapng").display().to_string();
    let capture = run(&[("WEFT_LOOPBACK", "wire")], &["--pcap", &file, "--", "true"])?;
    ensure!(capture.text.contains("--pcap captures nothing"), "{}", capture.report());
    ensure!(capture.text.contains("WEFT_LOOPBACK=wire has no effect"), "{}", capture.report());
    let silent = run(&[], &["--", "true"])?;
    ensure!(silent.text.is_empty(), "{}", silent.report());
    let slip = weft(lab, &["run", "--hosts", "node1", "--", "ls"])?;
    ensure!(slip.text.contains("unknown option --hosts: did you mean --host?"), "{}", slip.report());
    Ok(())
}
