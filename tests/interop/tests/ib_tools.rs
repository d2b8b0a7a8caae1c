//! Weft's diagnostic tools on Debian's simulated InfiniBand fabric: they print the same as Debian's, byte for byte,
//! with the same exit codes; the tables list the differences with their reasons.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::{Fabric, IbSim, Lab, Originals, Said, Shape, Table, ibsim, originals, product, skip};

#[path = "ib_tools/lines.rs"]
mod lines;

use lines::{But, LINES, OWN_LINES};

/// The host that runs the tools, and the host of the subnet manager.
const HOST: &str = "h00002 HCA-1";
const MANAGER: &str = "h00001 HCA-1";
/// A host two switches away, LID 8.
const FAR: &str = "h00004 HCA-1";

fn golden(name: &str) -> PathBuf {
    product::root().join("tests/interop/golden").join(name)
}

fn have(what: &str) -> bool {
    skip::have(what, &[ibsim::TOOLS, &["smpquery", "perfquery", "ibportstate", "ibtracert"]].concat())
}

/// Checks that Weft's output is the same as that of these originals.
fn same(by: Originals, theirs: &Said, ours: &Said, but: But) -> Result<()> {
    let (a, b) = (but.both(theirs), but.both(&by.known_of(ours)));
    ensure!(a == b, "theirs ({:?}):\n{}{}\nours ({:?}):\n{}{}", a.code, a.out, a.err, b.code, b.out, b.err);
    Ok(())
}

#[test]
fn tools_print_what_the_originals_print() {
    if !have("tools_print_what_the_originals_print") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_fabric.net")).expect("a simulator");
    let _manager = sim.opensm(MANAGER, true).expect("a subnet manager");
    let by = Originals::installed().expect("the originals' version");
    let mut table = Table::new("ib tools, beside the originals");
    for (but, lines) in LINES {
        for line in *lines {
            table.case(line, || {
                let words: Vec<&str> = line.split(' ').collect();
                let theirs = sim.run(HOST, &words)?;
                if by.crash_at(line) {
                    return originals::crashed(&theirs);
                }
                same(by, &theirs, &sim.weft(HOST, &words)?, *but)
            });
        }
    }
    table.finish();
}

/// Recorded outputs: since which version of ibsim they are right, whose values they show, and of which originals they
/// are. A later recording has only those that differ from the earlier ones.
const RECORDINGS: &[(u32, u32, &str)] = &[(10, 44, "ib_tools.txt"), (12, 56, "ib_tools_56.txt")];

/// A command line with its recorded output from the same fabric.
struct Kept {
    by: Originals,
    line: String,
    said: Said,
}

/// Reads the outputs that were recorded with the installed version of ibsim.
fn recorded() -> Result<Vec<Kept>> {
    let ibsim = originals::ibsim_minor()?;
    let mut all: Vec<Kept> = Vec::new();
    for (_, diags, name) in RECORDINGS.iter().filter(|(since, ..)| *since <= ibsim) {
        for new in kept(Originals::of(*diags), &std::fs::read_to_string(golden(name))?) {
            match all.iter_mut().find(|old| old.line == new.line) {
                Some(old) => *old = new,
                None => all.push(new),
            }
        }
    }
    Ok(all)
}

/// Parses recorded outputs: `$ LINE`, the output, `--- stderr` and the rest, `--- exit N`.
fn kept(by: Originals, text: &str) -> Vec<Kept> {
    let one = |chunk: &str| {
        let (line, rest) = chunk.split_once('\n')?;
        let (body, code) = rest.rsplit_once("--- exit ")?;
        let (out, err) = body.split_once("--- stderr\n").unwrap_or((body, ""));
        let said = Said { out: out.to_owned(), err: err.to_owned(), code: code.trim().parse().ok() };
        Some(Kept { by, line: line.to_owned(), said })
    };
    text.split("$ ").filter_map(one).collect()
}

#[test]
fn tools_print_what_the_originals_printed_once() {
    if !have("tools_print_what_the_originals_printed_once") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_fabric.net")).expect("a simulator");
    let _manager = sim.opensm(MANAGER, true).expect("a subnet manager");
    let all = recorded().expect("the outputs that were kept");
    assert!(all.len() > 40, "only {} outputs are kept", all.len());
    let mut table = Table::new("ib tools, as kept");
    for kept in all {
        table.case(&kept.line, || {
            let words: Vec<&str> = kept.line.split(' ').collect();
            let ours = sim.weft(HOST, &words)?;
            let but = match words[0] {
                "perfquery" => But::Traffic,
                "sminfo" => But::Activity,
                _ => But::Nothing,
            };
            same(kept.by, &kept.said, &ours, but)
        });
    }
    table.finish();
}

/// Commands that change a port, one after the other; each sequence runs on a fresh fabric.
const CHANGES: &[&str] = &[
    "ibportstate 2 3 disable",
    "ibportstate -t 200 2 3",
    "ibportstate 2 3 enable",
    "ibportstate 2 3 reset",
    "ibportstate 2 3 speed 1",
    "ibportstate 2 3 espeed 2 width 2",
    "ibportstate 2 3 off",
    "ibportstate 2 3 on",
    "ibportstate 2 3 on",
    "ibportstate 2 2 down",
    "ibportstate -D 0,1 3 arm",
    "ibportstate 1 1 mkey 0x10 mkeylease 5 mkeyprot 1",
    "ibportstate -K -y 0x10 1 1",
    "ibportstate 1 1 lid 0x20 smlid 1 lmc 1 mtu 4 vls 1",
    "ibportstate 10 1 fdr10 1",
    "perfquery -R -a 2",
    "perfquery -x 2 5",
];

#[test]
fn tools_change_what_the_originals_change() {
    if !have("tools_change_what_the_originals_change") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let run = |ours: bool| -> Result<Vec<Said>> {
        let sim = IbSim::start(&lab, &golden("ib_fabric.net"))?;
        sim.opensm(MANAGER, false)?;
        let one = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            if ours { sim.weft(HOST, &words) } else { sim.run(HOST, &words) }
        };
        CHANGES.iter().map(one).collect()
    };
    let (theirs, ours) = (run(false).expect("theirs"), run(true).expect("ours"));
    let by = Originals::installed().expect("the originals' version");
    let mut table = Table::new("ib tools, changes");
    for (line, (theirs, ours)) in CHANGES.iter().zip(theirs.iter().zip(&ours)) {
        let but = if line.starts_with("perfquery") { But::Traffic } else { But::Nothing };
        table.case(line, || same(by, theirs, ours, but));
    }
    table.finish();
}

#[test]
fn servers_and_clients_mix() {
    if !have("servers_and_clients_mix") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("ib tools, servers");
    for (server, ask, answer) in [
        (&["ibping", "-S"], &["ibping", "-c", "2", "-f", "8"][..], "2 packets transmitted, 2 received, 0% packet loss"),
        (&["ibsysstat", "-S"], &["ibsysstat", "8"], "sysstat ping succeeded"),
        (&["ibsysstat", "-S"], &["ibsysstat", "8", "host"], &host_name()),
    ] {
        for (ours_serves, ours_asks) in [(true, true), (true, false), (false, true)] {
            let name = |ours| if ours { "ours" } else { "Debian's" };
            let label = format!("{}: {} serves {}", ask.join(" "), name(ours_serves), name(ours_asks));
            table.case(&label, || {
                // The simulator keeps answering killed clients, so each case has its own.
                let sim = IbSim::start(&lab, &golden("ib_fabric.net"))?;
                sim.opensm(MANAGER, false)?;
                let words = if ours_serves { sim.weft_words(FAR, server)? } else { sim.words(FAR, server) };
                // Only a manager's host receives unsolicited datagrams.
                let mut serving = sim.stay(&words, &[("SIM_SET_ISSM", "1")])?;
                let attached = serving.wait_until(Duration::from_secs(5), |p| p.text().contains("attached"));
                ensure!(attached, "not attached: {}", serving.kill().report());
                std::thread::sleep(Duration::from_millis(100));
                let said = if ours_asks { sim.weft(HOST, ask)? } else { sim.run(HOST, ask)? };
                ensure!(said.code == Some(0) && said.out.contains(answer), "{said:?}; {}", serving.kill().report());
                Ok(())
            });
        }
    }
    table.finish();
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

#[test]
fn every_tool_speaks_json() {
    if !have("every_tool_speaks_json") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_fabric.net")).expect("a simulator");
    let _manager = sim.opensm(MANAGER, true).expect("a subnet manager");
    let mut table = Table::new("ib tools, JSON");
    for (line, path, value) in [
        ("ibstat --json", "/0/ports/0/base_lid", "6"),
        ("ibstat --json -l", "/0", "\"ibsim0\""),
        ("ibaddr --json 5", "/lid_start", "5"),
        ("sminfo --json", "/state", "\"SMINFO_MASTER\""),
        ("smpdump --json 2 0x10", "/status", "\"0x0000\""),
        ("smpquery --json nodeinfo 2", "/fields/NodeType", "\"Switch\""),
        ("smpquery --json portinfo 2 4", "/fields/LinkWidthActive", "\"4X\""),
        ("smpquery --json pkeys 2 1", "/pkeys/0", "\"0xffff\""),
        ("smpquery --json sl2vl 2 3", "/table/8/vls/3", "3"),
        ("smpquery --json vlarb 2", "/high/0/weight", "4"),
        ("perfquery --json 2 1", "/0/counters/SymbolErrorCounter", "0"),
        ("perfquery --json -a -l 2", "/8/port", "8"),
        ("perfquery --json -E 2 1", "/0/counters/PortLoopingErrors", "0"),
        ("ibportstate --json 1 1", "/port/fields/LinkState", "\"Active\""),
        ("ibroute --json 2", "/entries/0/port", "1"),
        ("ibtracert --json 1 10", "/4/out_port", "3"),
        ("smpquery --json nodeinfo 99", "/error", "\"operation nodeinfo: node info query failed\""),
        ("vendstat --json 2", "/error", "\"at least one of -N and -w must be specified\""),
        ("ibping --json -c 1 -f 99", "/loss_percent", "100"),
        ("ibsysstat --json -t 50 5", "/error", "\"ibsystat to Lid 5: Connection timed out\""),
    ] {
        table.case(line, || {
            let said = sim.weft(HOST, &line.split(' ').collect::<Vec<_>>())?;
            let json: serde_json::Value =
                serde_json::from_str(&said.out).with_context(|| format!("no JSON: {said:?}"))?;
            let found = json.pointer(path).with_context(|| format!("no {path} in {json}"))?;
            let text = found.to_string();
            ensure!(text == value, "{path} is {found}");
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn tools_print_the_same_of_our_own_fabric() {
    if !have("tools_print_the_same_of_our_own_fabric") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let _manager = fabric.opensm("node1", "minhop").expect("a subnet manager");
    let weft = product::weft().expect("the product").display().to_string();
    let by = Originals::installed().expect("the originals' version");
    let run = |words: &[&str], is_ours: bool| -> Result<(Option<i32>, Vec<String>)> {
        let ended = fabric.run("node2", words)?;
        let text = if is_ours { by.known(&ended.text) } else { ended.text };
        let lines = But::Activity.of(&But::Traffic.of(&text));
        // Standard error is unbuffered, standard output comes at the end.
        let mut lines: Vec<String> = lines.lines().map(counted).collect();
        lines.sort();
        Ok((ended.status.and_then(|s| s.code()), lines))
    };
    let lid_of = |words: &[&str]| -> Result<String> {
        let text = fabric.run("node2", words)?.success()?.text;
        let lid = text.split("LID start ").nth(1).and_then(|rest| rest.split(' ').next());
        Ok(lid.with_context(|| format!("no LID in {text}"))?.to_owned())
    };
    let host = lid_of(&["ibaddr"]).expect("the host's LID");
    let switch = lid_of(&["ibaddr", "-D", "0,1", "0"]).expect("the switch's LID");
    let manager = fabric.status().expect("a status")["managers"][0]["lid"].to_string();
    let mut table = Table::new("ib tools, our own fabric");
    for line in OWN_LINES {
        table.case(line, || {
            let line = line.replace("HOST", &host).replace("SWITCH", &switch).replace("MANAGER", &manager);
            let words: Vec<&str> = line.split(' ').collect();
            let (theirs, ours) = (run(&words, false)?, run(&[&[weft.as_str()], &words[..]].concat(), true)?);
            ensure!(theirs == ours, "theirs: {theirs:#?}\nours: {ours:#?}");
            ensure!(ours.0 == Some(0), "it failed: {ours:#?}");
            Ok(())
        });
    }
    table.finish();
}

/// Removes a line's process id, and the counts of the query itself.
fn counted(line: &str) -> String {
    let grows = line.starts_with("PortUnicast") || line.starts_with("PortXmitWait");
    match (grows, line.split_once(':'), line.split_once("] ")) {
        (true, Some((name, _)), _) => format!("{name}:…"),
        (_, _, Some((_, text))) if line.starts_with("ibwarn: [") => text.to_owned(),
        _ => line.to_owned(),
    }
}
