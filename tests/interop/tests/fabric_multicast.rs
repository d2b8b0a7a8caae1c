//! Multicast groups of an InfiniBand fabric that Debian's opensm manages: Debian's mckey joins through the subnet
//! administration, the switches' tables decide which ports get a copy, ports count every copy, and wrong keys are
//! counted and trapped.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, OpenSm, Shape, Table, skip};

const TOOLS: &[&str] = &["ip", "opensm", "mckey", "perfquery", "stdbuf"];

/// Hosts of the members; ports have addresses in the order of the description.
const MEMBERS: &[(&str, &str)] = &[("node2", "10.0.0.2"), ("node3", "10.0.0.3")];
const SENDER: (&str, &str) = ("node4", "10.0.0.4");
/// A host that is in no group.
const STRANGER: &str = "node5";

/// Time limit of a member to join, and to receive everything.
const WITHIN: Duration = Duration::from_secs(10);
/// Messages of each exchange.
const MESSAGES: u64 = 10;

#[test]
fn members_of_a_group_hear() {
    if skip::have("multicast on a fabric", TOOLS) {
        hear("multicast on a fabric", false);
    }
}

#[test]
fn members_of_a_group_hear_hop_by_hop() {
    if skip::have("multicast hop by hop", TOOLS) {
        hear("multicast hop by hop", true);
    }
}

fn hear(name: &'static str, hop_by_hop: bool) {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let words = ["--fat-tree", "4,2", "--hosts", "6"];
    let fabric = if hop_by_hop { Fabric::hop_by_hop(&lab, &words) } else { Fabric::up(&lab, &words) };
    let fabric = fabric.expect("a fabric");
    let _opensm: OpenSm = fabric.opensm("node1", "minhop").expect("a subnet manager");
    let mut table = Table::new(name);
    for group in ["239.77.1.1", "239.77.1.2"] {
        table.case(&format!("mckey -m {group}"), || exchange(&lab, &fabric, group));
    }
    table.case("two members on one host", || neighbours(&lab, &fabric));
    table.finish();
}

fn start(lab: &Lab, fabric: &Fabric<'_>, (host, address): (&str, &str), options: &str) -> Result<Proc> {
    // Line-buffered, so that its message about the join comes at once.
    let line = format!("stdbuf -oL mckey -b {address} -C {MESSAGES} {options}");
    // Without ib0, whose packets to groups would be counted, too.
    lab.start_line(&fabric.words_without_ib0(host, &line.split_whitespace().collect::<Vec<_>>())?, &[])
}

/// Starts a member, and returns it once it has joined and waits.
fn member(lab: &Lab, fabric: &Fabric<'_>, at: (&str, &str), group: &str) -> Result<Proc> {
    let mut proc = start(lab, fabric, at, &format!("-m {group}"))?;
    ensure!(proc.wait_until(WITHIN, |p| p.text().contains("joined")), "{} did not join:\n{}", at.0, proc.text());
    Ok(proc)
}

/// Returns the number of multicast packets that a host's port received.
fn received(fabric: &Fabric<'_>, host: &str) -> Result<u64> {
    let text = fabric.run_without_ib0(host, &["perfquery", "-x"])?.success()?.text;
    let line = text.lines().find(|line| line.starts_with("PortMulticastRcvPkts:")).context("PortMulticastRcvPkts")?;
    Ok(line.trim_start_matches("PortMulticastRcvPkts:").trim_start_matches('.').parse()?)
}

fn exchange(lab: &Lab, fabric: &Fabric<'_>, group: &str) -> Result<()> {
    let hosts: Vec<&str> = MEMBERS.iter().map(|(host, _)| *host).chain([STRANGER]).collect();
    let before: Vec<u64> = hosts.iter().map(|host| received(fabric, host)).collect::<Result<_>>()?;
    let members: Vec<Proc> = MEMBERS.iter().map(|at| member(lab, fabric, *at, group)).collect::<Result<_>>()?;
    start(lab, fabric, SENDER, &format!("-m {group} -s"))?.wait(WITHIN).success()?;
    for member in members {
        let ended = member.wait(WITHIN).success()?;
        ensure!(ended.text.contains("data transfers complete"), "{}", ended.report());
    }
    for (host, before) in hosts.iter().zip(before) {
        let wanted = if *host == STRANGER { 0 } else { MESSAGES };
        let mut heard = received(fabric, host)? - before;
        // Counters are updated twenty times a second.
        for _ in 0..20 {
            if heard < wanted {
                std::thread::sleep(Duration::from_millis(50));
                heard = received(fabric, host)? - before;
            }
        }
        ensure!(heard == wanted, "{host} counts {heard} packets for groups, not {wanted}");
    }
    Ok(())
}

/// Sender and member on one host: the adapter loops the packet back, not a switch.
fn neighbours(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let group = "239.77.1.9";
    let there = [member(lab, fabric, SENDER, group)?, member(lab, fabric, MEMBERS[0], group)?];
    start(lab, fabric, SENDER, &format!("-m {group} -s"))?.wait(WITHIN).success()?;
    there.into_iter().try_for_each(|member| member.wait(WITHIN).success().map(drop))
}
