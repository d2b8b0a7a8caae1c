//! `weft capture` under tshark: the management datagrams and the IPoIB packets of a running fabric, by verdicts, and with
//! every packet going hop by hop.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;
use weft_interop::user::Who;
use weft_interop::{Fabric, Lab, Proc, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "ping", "tshark"];

/// Hosts of the fabric beside the first, which runs the subnet manager.
const FROM: &str = "node2";
const TO: &str = "node3";

/// Q_Key of IPoIB's groups in the manager's default partition, in hexadecimal.
const QKEY: &str = "b1b";

/// Echo requests.
const PINGS: usize = 3;

#[test]
fn wireshark_sees_a_fabric() {
    if !skip::have("captures of a fabric", TOOLS) {
        return;
    }
    let mut table = Table::new("capture");
    for (mode, words) in [("by verdicts", &["--star", "3"][..]), ("hop by hop", &["--star", "3", "--packets"])] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let fabric = Fabric::managed(&lab, words).expect("a fabric");
        table.case(&format!("all hosts, {mode}"), || all_hosts(&lab, &fabric));
        table.case(&format!("one host, {mode}"), || one_host(&lab, &fabric));
        table.case(&format!("so many packets, {mode}"), || counted(&lab, &fabric));
        table.case(&format!("until the fabric goes down, {mode}"), || ended_by_fabric(&lab, &fabric));
    }
    table.finish();
}

/// Reads a capture with tshark: one line for each packet that passes the filter, with these fields.
fn read(file: &str, filter: &str, fields: &[&str]) -> Result<Vec<String>> {
    let mut words = vec!["-r", file, "-Y", filter, "-T", "fields"];
    fields.iter().for_each(|field| words.extend(["-e", field]));
    let output = Command::new("tshark").args(&words).output()?;
    ensure!(output.status.success(), "tshark {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Starts a capture, and waits until it captures.
fn start(lab: &Lab, file: &str, options: &[&str]) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    let words = [&[weft.as_str(), "capture", "-w", file], options].concat();
    let mut capture = lab.start_line(&lab.bare(lab.client(), Who::Root, &words), &[])?;
    let begun = capture.wait_until(Duration::from_secs(10), |proc| proc.text().contains("capturing"));
    ensure!(begun, "it does not begin:\n{}", capture.text());
    Ok(capture)
}

fn ping(fabric: &Fabric<'_>) -> Result<()> {
    // A host has its network from its first program on.
    fabric.run(TO, &["true"])?.success()?;
    fabric.run(FROM, &["ping", "-c", &PINGS.to_string(), "-i", "0.2", "-W", "5", TO])?.success()?;
    Ok(())
}

/// Captures while one host pings another; returns the file.
fn captured(lab: &Lab, fabric: &Fabric<'_>, name: &str, options: &[&str]) -> Result<String> {
    let file = lab.file(name).display().to_string();
    let capture = start(lab, &file, options)?;
    ping(fabric)?;
    capture.signal(Signal::INT);
    let ended = capture.wait(Duration::from_secs(10)).success()?;
    ensure!(ended.text.contains(", 0 dropped by the daemon"), "{}", ended.text);
    let bad = read(&file, "_ws.malformed", &["frame.number", "_ws.col.Info"])?;
    ensure!(bad.is_empty(), "tshark objects to:\n{bad:?}");
    Ok(file)
}

fn all_hosts(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = captured(lab, fabric, "all.pcapng", &[])?;
    let joins = read(&file, "infiniband.mad.attributeid == 0x38", &["infiniband.mad.method"])?;
    ensure!(joins.len() >= 4, "joins of two hosts, asked and answered: {joins:?}");
    for (what, filter, least) in [
        ("requests of ARP", "arp.opcode == 1", 2),
        ("answers of ARP", "arp.opcode == 2", 2),
        ("path records", "infiniband.mad.attributeid == 0x35", 2),
        ("echo requests, sent and received", "icmp.type == 8", 2 * PINGS),
        ("echo replies, sent and received", "icmp.type == 0", 2 * PINGS),
    ] {
        let seen = read(&file, filter, &["infiniband.lrh.slid", "infiniband.lrh.dlid"])?;
        ensure!(seen.len() >= least, "{what}: {seen:?}");
    }
    // Data is on lane 0, with the Q_Key of IPoIB's groups (RFC 4391).
    let echo = read(&file, "icmp.type == 8 && infiniband.lrh.vl == 0", &["infiniband.deth.q_key"])?;
    let has_key = |line: &String| line.trim_start_matches("0x").trim_start_matches('0') == QKEY;
    ensure!(echo.len() >= 2 * PINGS && echo.iter().all(has_key), "{echo:?}");
    Ok(())
}

/// A capture at one host has each of its packets once, and no other host's.
fn one_host(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = captured(lab, fabric, "one.pcapng", &["--host", TO])?;
    for (kind, direction) in [("8", "1"), ("0", "2")] {
        let echo = read(&file, &format!("icmp.type == {kind}"), &["frame.packet_flags_direction"])?;
        let as_expected = |line: &String| line.trim_start_matches("0x").trim_start_matches('0') == direction;
        ensure!(echo.len() == PINGS && echo.iter().all(as_expected), "type {kind}: {echo:?}");
    }
    let unknown = fabric.weft(&["capture", "-w", "/dev/null", "--seconds", "1", "--host", "nobody"]);
    ensure!(format!("{unknown:?}").contains("unknown host"), "{unknown:?}");
    Ok(())
}

/// `--count` ends it by itself.
fn counted(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = lab.file("count.pcapng").display().to_string();
    let capture = start(lab, &file, &["--count", "2"])?;
    ping(fabric)?;
    let ended = capture.wait(Duration::from_secs(10)).success()?;
    ensure!(ended.text.contains("2 packets captured"), "{}", ended.text);
    let seen = read(&file, "infiniband", &["frame.number"])?;
    ensure!(seen.len() == 2, "{seen:?}");
    Ok(())
}

fn ended_by_fabric(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = lab.file("end.pcapng").display().to_string();
    let capture = start(lab, &file, &[])?;
    ping(fabric)?;
    fabric.weft(&["down"])?;
    capture.wait(Duration::from_secs(10)).success()?;
    let echo = read(&file, "icmp.type == 0", &["frame.number"])?;
    ensure!(echo.len() >= 2 * PINGS, "{echo:?}");
    Ok(())
}
