//! Weft's subnet manager, judged by third-party programs: Debian's diagnostics, its simulator, and its own manager as
//! the other one on a subnet.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::time::Duration;
use weft_interop::manager::{WITHIN, settled, until};
use weft_interop::proc::Proc;
use weft_interop::user::Who;
use weft_interop::{Fabric, IbSim, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "opensm", "ibstat", "sminfo", "saquery", "ibping", "rping", "ibsim", "ibnetdiscover"];

/// Arguments of a manager that reads no file and quickly notices its master's death.
const MANAGER: &[&str] =
    &["sm", "--no-config", "--set", "sminfo_polling_timeout=200", "--set", "polling_retry_number=2", "--sweep", "1"];

/// Starts Weft's manager on a host.
fn manager(fabric: &Fabric<'_>, lab: &Lab, host: &str, priority: &str) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    let words = [&[weft.as_str()], MANAGER, &["-p", priority]].concat();
    let proc = lab.start_line(&fabric.words(host, &words)?, &[])?;
    settled(proc)
}

#[test]
fn a_fabric_comes_up_managed() {
    if !skip::have("a managed fabric", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("a managed fabric");
    let up = || -> Result<()> {
        let words = ["up", "--replace", "--fat-tree", "8,2", "--hosts", "16"];
        lab.weft(lab.client(), Who::Root, &[], &words)?.success()?;
        Ok(())
    };
    table.case("weft up", up);
    let run = |host: &str, words: &[&str]| -> Result<String> {
        let line = [&["run", "--host", host, "--"], words].concat();
        Ok(lab.weft(lab.client(), Who::Root, &[], &line)?.success()?.text)
    };
    let says = |host: &'static str, words: &'static [&'static str], wanted: &'static [&'static str]| {
        move || -> Result<()> {
            let text = run(host, words)?;
            let missing: Vec<_> = wanted.iter().filter(|word| !text.contains(**word)).collect();
            ensure!(missing.is_empty(), "{missing:?} not in\n{text}");
            Ok(())
        }
    };
    table.case("ibstat", says("h0001", &["ibstat"], &["State: Active", "SM lid: 1", "Link layer: InfiniBand"]));
    table.case("ibv_devinfo", says("h0003", &["ibv_devinfo"], &["PORT_ACTIVE", "InfiniBand"]));
    table.case("sminfo", says("h0002", &["sminfo"], &["SMINFO_MASTER"]));
    table.case("saquery: nodes", says("h0004", &["saquery"], &["NodeRecord dump", "node16"]));
    table.case("saquery: paths", says("h0004", &["saquery", "-p", "--src-to-dst", "1:2"], &["PathRecord dump"]));
    table.case("saquery: groups", says("h0004", &["saquery", "-g"], &["MCMemberRecord group dump"]));
    table.case("saquery: links", says("h0004", &["saquery", "-x"], &["LinkRecord dump"]));
    table.case("ibnetdiscover", says("h0005", &["ibnetdiscover"], &["leaf1", "spine1", "node16"]));
    let _ = lab.weft(lab.client(), Who::Root, &[], &["down"]);
    table.finish();
}

/// `weft up --replace` while the previous fabric's manager, on a port of the same GUID, is slow to end.
#[test]
fn a_fabric_is_replaced_with_its_manager() {
    if !skip::have("a fabric replaced", &["ip"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("a fabric replaced");
    table.case("the manager before ends late", || {
        let fabric = Fabric::up(&lab, &["--pair"])?;
        let before = manager(&fabric, &lab, "node1", "3")?;
        before.signal(Signal::STOP);
        let line = product::weft()?.display().to_string();
        let words = lab.bare(lab.client(), Who::Root, &[&line, "up", "--replace", "--pair"]);
        let mut up = lab.start_line(&words, &[])?;
        // Whether or not it already waits for the manager, it ends well.
        up.wait_until(Duration::from_millis(500), |_| false);
        before.signal(Signal::CONT);
        up.wait(WITHIN).success()?;
        ensure!(fabric.master("node2")?.is_some(), "no master");
        Ok(())
    });
    table.finish();
}

#[test]
fn managers_take_over() {
    if !skip::have("several managers", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "8,2", "--hosts", "16"]).expect("a fabric");
    let mut table = Table::new("several managers");
    let is_master = |lid: u64| -> Result<()> { until("another master", || Ok(fabric.master("node9")? == Some(lid))) };
    let mut first = None;
    table.case("the first becomes master", || {
        first = Some(manager(&fabric, &lab, "node1", "3")?);
        is_master(1)
    });
    let before = fabric.lids().expect("LIDs");
    let mut second = None;
    table.case("one of lower priority stands by", || {
        second = Some(manager(&fabric, &lab, "node2", "2")?);
        is_master(1)
    });
    table.case("it takes over from a dead master, and no LID changes", || {
        first.take().context("a master")?.kill();
        is_master(2)?;
        ensure!(fabric.lids()? == before, "LIDs changed");
        Ok(())
    });
    table.case("who comes back with a higher priority is handed over to", || {
        first = Some(manager(&fabric, &lab, "node1", "3")?);
        is_master(1)
    });
    table.case("OpenSM of a higher priority is handed over to, and its death survived", || {
        let words = fabric.words("node5", &["opensm", "-p", "9", "-f", "stdout", "-s", "1"])?;
        let opensm = lab.start_line(&words, &[("OSM_CACHE_DIR", &lab.file("").display().to_string())])?;
        is_master(5)?;
        opensm.kill();
        is_master(1)?;
        ensure!(fabric.lids()? == before, "LIDs changed");
        Ok(())
    });
    table.finish();
}

#[test]
fn the_simulator_of_others_comes_up() {
    if !skip::have("ibsim under our manager", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("ibsim under our manager");
    let net = product::root().join("tests/interop/golden/ib_fabric.net");
    let sim = IbSim::start(&lab, &net).expect("ibsim");
    let host = "h00001 HCA-1";
    let mut manager = None;
    table.case("subnet up", || {
        let words = sim.weft_beside_system(host, MANAGER)?;
        let mut proc = sim.stay(&words, &[])?;
        ensure!(proc.wait_until(WITHIN, |proc| proc.text().contains("Entering MASTER")), "{}", proc.kill().report());
        manager = Some(proc);
        until("all links active", || {
            let links = sim.run("h00002 HCA-1", &["iblinkinfo"])?;
            Ok(links.out.contains("Active/  LinkUp")
                && !links.out.contains("Initialize")
                && !links.out.contains("Armed"))
        })
    });
    for (words, wanted) in [
        (&["sminfo"][..], "SMINFO_MASTER"),
        // The simulator returns only the first datagram of a response.
        (&["saquery"], "h00001 HCA-1"),
        (&["ibroute", "2"], "Unicast lids"),
        (&["ibtracert", "1", "2"], "To "),
        (&["ibqueryerrors"], "0 bad nodes found"),
    ] {
        table.case(&words.join(" "), || {
            let said = sim.run("h00002 HCA-1", words)?;
            ensure!(
                said.out.contains(wanted) || said.err.contains(wanted),
                "{wanted:?} not in\n{}{}",
                said.out,
                said.err
            );
            Ok(())
        });
    }
    table.finish();
}
