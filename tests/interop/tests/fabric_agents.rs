//! Responses of a fabric's agents, queried by Debian's infiniband-diags and by Weft's: both print the same, even where
//! no response comes. Counters by virtual lane grow where a receiver makes its senders wait.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::time::Duration;
use weft_interop::{Fabric, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "opensm", "smpquery", "perfquery", "smpdump", "ib_send_bw"];

/// Queries of a switch's third port, at `LID`, and an adapter's first, at `OTHER`.
const QUESTIONS: &[&str] = &[
    "smpquery portinfoextended LID 3",
    "smpquery PIE LID 0",
    "smpquery PIE OTHER 1",
    "smpquery PIE LID 200",
    "smpdump LID 0x30",
    "smpdump LID 0x30 1",
    "smpdump OTHER 0x33 1",
    "perfquery LID 3",
    "perfquery -x LID 3",
    "perfquery --rcverr LID 3",
    "perfquery --xmtdisc LID 3",
    "perfquery -X LID 3",
    "perfquery -S LID 3",
    "perfquery --vlxmitcounters LID 3",
    "perfquery --vlxmitcounters OTHER 1",
    "perfquery --vlxmitcounters -r LID 3",
    "perfquery --swportvlcong LID 3",
    "perfquery --swportvlcong -R LID 3 0x5",
    // A virtual fabric has none of these events, and does not count them.
    "perfquery --swportvlcong OTHER 1",
    "perfquery --oprcvcounters LID 3",
    "perfquery --flowctlcounters LID 3",
    "perfquery --vloppackets LID 3",
    "perfquery --vlopdata LID 3",
    "perfquery --vlxmitflowctlerrors LID 3",
    "perfquery --rcvcc LID 3",
    "perfquery --xmitcc LID 3",
];

/// Adapters and a switch of different speeds: each link agrees on a different one.
const SPEEDS: &[&str] = &["QDR", "FDR", "EDR", "NDR"];

#[test]
fn agents_answer_debians_tools_and_ours_alike() {
    if !skip::have("agents of a fabric", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("agents of a fabric");
    for speed in SPEEDS {
        let fabric = Fabric::up(&lab, &["--star", "4", "--speed", speed]).expect("a fabric");
        let _opensm = fabric.opensm("node1", "minhop").expect("a subnet manager");
        let lids = Lids::of(&fabric).expect("LIDs");
        for line in QUESTIONS {
            table.case(&format!("{speed}: {line}"), || alike(&fabric, &lids.put_into(line)));
        }
        table.case(&format!("{speed}: error correction"), || corrected(&fabric, &lids, speed));
    }
    table.finish();
}

struct Lids {
    switch: u64,
    host: u64,
}

impl Lids {
    fn of(fabric: &Fabric<'_>) -> Result<Lids> {
        let all = fabric.lids()?;
        let of = |host: bool| all.iter().find(|(name, lid)| name.starts_with("node") == host && *lid != 0);
        let (switch, host) = of(false).zip(of(true)).context("a switch and a host")?;
        Ok(Lids { switch: switch.1, host: host.1 })
    }

    fn put_into(&self, line: &str) -> Vec<String> {
        let named = |word: &str| match word {
            "LID" => self.switch.to_string(),
            "OTHER" => self.host.to_string(),
            word => word.to_owned(),
        };
        line.split(' ').map(named).collect()
    }
}

/// Returns a tool's output; a warning names the process.
fn printed(fabric: &Fabric<'_>, words: &[&str]) -> Result<(bool, String)> {
    let ended = fabric.run("node2", words)?;
    let text = ended.text.lines().map(|line| match line.split_once('[').zip(line.split_once(']')) {
        Some(((before, _), (_, after))) if before.starts_with("ibwarn: ") => format!("{before}{after}\n"),
        _ => format!("{line}\n"),
    });
    Ok((ended.ok(), text.collect()))
}

fn alike(fabric: &Fabric<'_>, words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let weft = product::weft()?;
    let theirs = printed(fabric, &words)?;
    let ours = printed(fabric, &[&[weft.to_str().context("a path")?], &words[..]].concat())?;
    let program = |(ok, text): &(bool, String)| (*ok, without_program(text));
    ensure!(program(&theirs) == program(&ours), "theirs: {}\nours: {}", theirs.1, ours.1);
    Ok(())
}

/// Lines of PortInfoExtended that Debian's libibmad reads from the wrong half of a word (IBA 14.2.5.19): its modes of
/// HDR are the port's enabled modes at EDR.
const MISREAD: [&str; 2] = ["HDRFECMode", "NDRFECMode"];

/// Removes the path of the program, which starts each error.
fn without_program(text: &str) -> String {
    let line = |line: &str| line.split_once(": iberror: ").map_or(line.to_owned(), |(_, rest)| rest.to_owned());
    let lines = text.lines().filter(|line| !MISREAD.iter().any(|name| line.starts_with(name)));
    lines.map(line).collect::<Vec<_>>().join("\n")
}

/// Checks that links have error correction at speeds that need it.
fn corrected(fabric: &Fabric<'_>, lids: &Lids, speed: &str) -> Result<()> {
    let text = fabric.run("node1", &["smpquery", "PIE", &lids.switch.to_string(), "3"])?.success()?.text;
    let says = |name: &str, value: &str| text.contains(&format!("{:.<33}{value}\n", format!("{name}:")));
    let able = if matches!(speed, "EDR" | "NDR") { "0x0005" } else { "0x0000" };
    let active = if speed == "NDR" { "4" } else { "0" };
    ensure!(says("FECModeActive", active) && says("EDRFECModeSupported", able), "{text}");
    Ok(())
}

#[test]
fn who_waits_is_counted_by_virtual_lane() {
    if !skip::have("waiting by virtual lane", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::hop_by_hop(&lab, &["--star", "2"]).expect("a fabric");
    let _opensm = fabric.opensm("node1", "minhop").expect("a subnet manager");
    let mut table = Table::new("waiting by virtual lane");
    table.case("a receiver that stops", || stopped(&lab, &fabric));
    table.finish();
}

/// Checks a program that takes no messages: its switch's port waits, and drops packets after the time limit.
fn stopped(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let lids = Lids::of(fabric)?;
    let counted = |option: &str| -> Result<Vec<u64>> {
        let text = fabric.run("node1", &["perfquery", option, &lids.switch.to_string(), "1"])?.success()?.text;
        let lanes = text.lines().filter(|line| line.starts_with("PortVLXmitWait") || line.starts_with("SWPortVLCong"));
        lanes.map(|line| Ok(line.rsplit('.').next().context("a figure")?.parse()?)).collect()
    };
    let before = (counted("--vlxmitcounters")?, counted("--swportvlcong")?);
    ensure!(before == (vec![0; 16], vec![0; 16]), "before: {before:?}");
    let words = ["ib_send_bw", "-c", "UD", "-s", "2048", "-n", "5000000", "-d", "weft0"];
    let mut server = lab.start_line(&fabric.words("node1", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "the server does not listen:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node2", &[&words[..], &["node1"]].concat())?, &[])?;
    std::thread::sleep(Duration::from_millis(1500));
    server.signal(Signal::STOP);
    let mut after = (Vec::new(), Vec::new());
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        after = (counted("--vlxmitcounters")?, counted("--swportvlcong")?);
        if after.0.first().is_some_and(|ticks| *ticks > 0) && after.1.first().is_some_and(|packets| *packets > 0) {
            break;
        }
    }
    let said = client.kill().report();
    drop(server.kill());
    ensure!(after.0.len() == 16 && after.0[0] > 10_000, "waits: {after:?}\n{said}");
    ensure!(after.1.len() == 16 && after.1[0] > 0, "congestion: {after:?}\n{said}");
    ensure!(after.0[1..].iter().chain(&after.1[1..]).all(|figure| *figure == 0), "other lanes: {after:?}");
    Ok(())
}
