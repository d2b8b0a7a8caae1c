//! Our diagnostic tools on Debian's simulated InfiniBand fabric: they print what Debian's print, byte for byte, with
//! the same exit codes; what differs stands in the tables with its reason.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::{Fabric, IbSim, Lab, Said, Shape, Table, ibsim, product, skip};

/// The host that the tools run on, and the one where the subnet manager is.
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

/// Why an output may differ, and what is done to both before they are compared.
#[derive(Clone, Copy, PartialEq)]
enum But {
    /// Nothing differs.
    Nothing,
    /// Our usage has two options more, `--system` and `--json`.
    Usage,
    /// Asking for counters is traffic, which they count.
    Traffic,
    /// The subnet manager counts its own activity.
    Activity,
    /// With `-v` the original prints where in memory it keeps what it found.
    Pointers,
    /// The original appends whatever error the last system call left behind, here of a file that is looked for first.
    StaleErrno,
    /// The original reads before the beginning of a table when a group's LID is below 0xc000; ours says that the
    /// switch has no such group.
    OutOfTable,
    /// Times of answers, which no two runs share.
    Time,
}

impl But {
    fn of(self, text: &str) -> String {
        let lines = text.lines().filter_map(|line| self.line(line));
        lines.map(|line| line + "\n").collect()
    }

    fn line(self, line: &str) -> Option<String> {
        let cut = |at: &str| line.split_once(at).map_or(line.to_owned(), |(before, _)| format!("{before}{at}…"));
        let traffic = ["PortXmitData:", "PortRcvData:", "PortXmitPkts:", "PortRcvPkts:", "PortRcvSwitchRelayErrors:"];
        match self {
            But::Usage if line.starts_with("  --system ") || line.starts_with("  --json ") => None,
            But::Traffic if traffic.iter().any(|name| line.starts_with(name)) => Some(cut(":")),
            But::Activity if line.starts_with("sminfo: ") => Some(cut("activity count ")),
            But::Pointers if line.contains(" node 0x") => None,
            But::StaleErrno if line.starts_with("ibpanic: ") => Some(cut("failed: ")),
            But::OutOfTable if line.contains("skipping bad Switch") => None,
            But::Time if line.contains("packet loss") => Some(cut("time ")),
            _ => Some(line.to_owned()),
        }
    }

    fn both(self, said: &Said) -> Said {
        Said { out: self.of(&said.out), err: self.of(&said.err), code: said.code }
    }
}

fn same(theirs: &Said, ours: &Said, but: But) -> Result<()> {
    let (a, b) = (but.both(theirs), but.both(ours));
    ensure!(a == b, "theirs ({:?}):\n{}{}\nours ({:?}):\n{}{}", a.code, a.out, a.err, b.code, b.out, b.err);
    Ok(())
}

/// Command lines that change nothing, without a difference unless one is said.
const LINES: &[(But, &[&str])] = &[
    (
        But::Nothing,
        &[
            "ibstat",
            "ibstat -l",
            "ibstat -p",
            "ibstat -s",
            "ibstat ibsim0",
            "ibstat ibsim0 1",
            "ibstat nosuch",
            "ibstatus",
            "ibstatus -h",
            "ibstatus nosuch",
            "ibaddr",
            "ibaddr 5",
            "ibaddr -l 5",
            "ibaddr -L 5",
            "ibaddr -g 5",
            "ibaddr -G 0x2c9030a000051",
            "ibaddr -D 0,1",
            "ibaddr 99",
            "ibaddr x",
            "sminfo 5",
            "sminfo -D 0",
            "smpdump -D 0 0x11",
            "smpdump -D 0,1 0x15 3",
            "smpdump 2 0x15 1",
            "smpdump -s 2 0x15 1",
            "smpdump -s 2 0x10",
            "smpdump -D x,y 0x11",
            "smpquery nodeinfo 1",
            "smpquery NI 2",
            "smpquery nodedesc 1",
            "smpquery ND 2",
            "smpquery portinfo 1",
            "smpquery portinfo 2",
            "smpquery portinfo 2 4",
            "smpquery -x portinfo 2 4",
            "smpquery -K portinfo 1",
            "smpquery portinfo 2 99",
            "smpquery PIE 1",
            "smpquery PIE 2",
            "smpquery PIE 99",
            "smpquery switchinfo 1",
            "smpquery switchinfo 2",
            "smpquery pkeys 1",
            "smpquery pkeys 2",
            "smpquery pkeys 2 1",
            "smpquery pkeys 2 77",
            "smpquery sl2vl 1",
            "smpquery sl2vl 2",
            "smpquery sl2vl 2 3",
            "smpquery vlarb 1",
            "smpquery vlarb 2",
            "smpquery vlarb 2 3",
            "smpquery guidinfo 1",
            "smpquery guidinfo 2",
            "smpquery mepi 1",
            "smpquery mepi 2 3",
            "smpquery -D nodeinfo 0",
            "smpquery -D nodeinfo 0,1",
            "smpquery -D nodedesc 0,1,4",
            "smpquery -D nodeinfo 0,1,7",
            "smpquery -t 50 -c nodeinfo 2 0,4",
            "smpquery -G nodeinfo 0x2c90300100000",
            "smpquery -G nodeinfo 0x99",
            "smpquery nodeinfo 99",
            "smpquery -e nodeinfo 99",
            "smpquery -t 20 nodeinfo 99",
            "smpquery -t 0 nodeinfo 1",
            "smpquery -t x nodeinfo 1",
            "smpquery bogus 1",
            "smpquery nodeinfo bogus",
            "smpquery nodeinfo 0xc000",
            "smpquery -C nosuch nodeinfo 1",
            "smpquery -P 3 nodeinfo 1",
            "smpquery -s 1 -G nodeinfo 0x2c90300100000",
            "smpquery -s x nodeinfo 1",
            "smpquery -y 0x10 nodeinfo 1",
            "perfquery 2 3-1",
            "perfquery -X 2 1",
            "perfquery -S 2 1",
            "perfquery -D 2 1",
            "perfquery -E 2 1",
            "perfquery -T 2 1",
            "perfquery --oprcvcounters 2 1",
            "perfquery --vloppackets 2 1",
            "perfquery --slrcvfecn 2 1",
            "perfquery -c 2 1",
            "perfquery 99",
            "ibportstate 1 1",
            "ibportstate -D 0 1",
            "ibportstate -D 0,1 4",
            "ibportstate -D 0,1 2",
            "ibportstate 2 0",
            "ibportstate -K 1 1",
            "ibportstate -t 50 2 4",
            "ibportstate 2 3 speed 99",
            "ibportstate 2 3 bogus",
            "ibportstate 2 3 speed",
            "ibportstate 2 3 arm down",
            "ibportstate 2 3 mkey 1",
            "ibroute 2",
            "ibroute -n 2",
            "ibroute -a 2",
            "ibroute 2 3",
            "ibroute 2 3 6",
            "ibroute -M 2",
            "ibroute -M -n 2",
            "ibroute -M -a 2 0xc000 0xc005",
            "ibroute -M 2 1 0xc005",
            "ibroute -M -v 2",
            "ibroute 1",
            "ibroute 99",
            "ibroute -D 0,1",
            "ibroute -G 0x2c90300100000",
            "ibtracert 1 10",
            "ibtracert -n 1 10",
            "ibtracert 1 5",
            "ibtracert 5 1",
            "ibtracert 6 6",
            "ibtracert 6 1",
            "ibtracert -G 0x2c9030a000011 0x2c9030a000051",
            "ibtracert -m 0xc000 1 10",
            "ibtracert -m 0xc000 6 10",
            "ibtracert -m 0xc000 2 10",
            "ibtracert 1 99",
            "ibtracert 99 1",
            "ibtracert -v 1 10",
            "ibtracert -f 1 10",
            "vendstat 2",
            "vendstat -N 2",
            "vendstat -i 2 1",
            "vendstat -c 0,1 2 1",
            "vendstat -R 100 2",
            "vendstat -w 2",
            "ibsysstat -t 50 5 ping",
            "ibsysstat -t 50 5 host",
        ],
    ),
    (
        But::Usage,
        &[
            "smpquery -h",
            "perfquery -h",
            "ibportstate -h",
            "ibroute -h",
            "ibtracert -h",
            "ibping -h",
            "ibsysstat -h",
            "vendstat -h",
            "ibaddr -h",
            "sminfo -h",
            "smpdump -h",
            "ibstat -h",
            "ibstat -q",
            "sminfo --bogus",
            "smpdump 2",
            "smpquery nodeinfo",
            "ibportstate 2",
            "ibroute",
            "ibtracert 1",
            "ibping",
            "ibsysstat",
            "ibsysstat 5 bogus",
            "vendstat -c x 2",
        ],
    ),
    (
        But::Traffic,
        &[
            "perfquery",
            "perfquery 1",
            "perfquery 2 1",
            "perfquery -x 2 1",
            "perfquery -a 2",
            "perfquery -l 2",
            "perfquery -a -l 2",
            "perfquery -a 2 1-3",
            "perfquery -l 2 1-3",
            "perfquery -x -a 2 1,3",
            "perfquery 2 255",
            "perfquery -x -a 2",
            "perfquery -v 2 1",
            "perfquery -G 0x2c90300100000 1",
            "perfquery -R 2 1",
            "perfquery -r 2 2",
            "perfquery -R -a 2",
            "perfquery -r 2 2 0xf000",
            "perfquery -x -r 2 2",
        ],
    ),
    (But::Activity, &["sminfo", "sminfo 1", "sminfo -a 3 -p 2 -s 1 1 0"]),
    (But::Pointers, &["ibtracert -v -m 0xc000 1 10", "ibtracert -v -n -m 0xc000 6 7"]),
    (But::StaleErrno, &["ibstat ibsim0 7"]),
    (But::OutOfTable, &["ibtracert -m 1 1 10"]),
    (But::Time, &["ibping -c 2 -f 99", "ibping -c 1 -f -G 0x99"]),
];

#[test]
fn tools_print_what_the_originals_print() {
    if !have("tools_print_what_the_originals_print") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_fabric.net")).expect("a simulator");
    let _manager = sim.opensm(MANAGER, true).expect("a subnet manager");
    let mut table = Table::new("ib tools, beside the originals");
    for (but, lines) in LINES {
        for line in *lines {
            table.case(line, || {
                let words: Vec<&str> = line.split(' ').collect();
                same(&sim.run(HOST, &words)?, &sim.weft(HOST, &words)?, *but)
            });
        }
    }
    table.finish();
}

/// A command line with what it printed once, on the same fabric.
struct Kept {
    line: String,
    said: Said,
}

/// Reads outputs kept as `$ LINE`, what was printed, `--- stderr` and the rest, `--- exit N`.
fn kept(text: &str) -> Vec<Kept> {
    let one = |chunk: &str| {
        let (line, rest) = chunk.split_once('\n')?;
        let (body, code) = rest.rsplit_once("--- exit ")?;
        let (out, err) = body.split_once("--- stderr\n").unwrap_or((body, ""));
        let said = Said { out: out.to_owned(), err: err.to_owned(), code: code.trim().parse().ok() };
        Some(Kept { line: line.to_owned(), said })
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
    let text = std::fs::read_to_string(golden("ib_tools.txt")).expect("the outputs that were kept");
    let all = kept(&text);
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
            same(&kept.said, &ours, but)
        });
    }
    table.finish();
}

/// What is done to a port one after the other; each on a fabric that nobody else has touched.
const CHANGES: &[&str] = &[
    "ibportstate 2 3 disable",
    "ibportstate -t 50 2 3",
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
    let mut table = Table::new("ib tools, changes");
    for (line, (theirs, ours)) in CHANGES.iter().zip(theirs.iter().zip(&ours)) {
        let but = if line.starts_with("perfquery") { But::Traffic } else { But::Nothing };
        table.case(line, || same(theirs, ours, but));
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
                // The simulator goes on answering clients that were killed, so each case has its own.
                let sim = IbSim::start(&lab, &golden("ib_fabric.net"))?;
                sim.opensm(MANAGER, false)?;
                let words = if ours_serves { sim.weft_words(FAR, server)? } else { sim.words(FAR, server) };
                // Only a manager's host is handed what comes unasked.
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

/// Command lines on our own fabric; `HOST` and `SWITCH` stand for their LIDs.
const OWN_LINES: &[&str] = &[
    "ibstat",
    "ibstat -p",
    "ibstatus",
    "ibaddr",
    "ibaddr SWITCH",
    "smpdump SWITCH 0x15 1",
    "smpquery nodeinfo HOST",
    "smpquery nodedesc SWITCH",
    "smpquery portinfo HOST",
    "smpquery portinfo SWITCH 1",
    "smpquery -x portinfo SWITCH 1",
    "smpquery switchinfo SWITCH",
    "smpquery pkeys HOST",
    "smpquery pkeys SWITCH 1",
    "smpquery sl2vl SWITCH",
    "smpquery vlarb SWITCH 1",
    "smpquery guidinfo HOST",
    "smpquery -D nodeinfo 0,1",
    "smpquery -c nodeinfo SWITCH 0,1",
    "perfquery -x",
    "perfquery -a SWITCH",
    "perfquery -l -a SWITCH",
    "perfquery -E SWITCH 1",
    "perfquery -D SWITCH 1",
    "ibportstate HOST 1",
    "ibportstate SWITCH 1",
    "ibroute SWITCH",
    "ibroute -n SWITCH",
    "ibroute -M SWITCH",
    "ibtracert HOST SWITCH",
    "ibtracert -n SWITCH HOST",
    "ibtracert HOST MANAGER",
    "sminfo",
];

#[test]
fn tools_print_the_same_of_our_own_fabric() {
    if !have("tools_print_the_same_of_our_own_fabric") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let _manager = fabric.opensm("node1", "minhop").expect("a subnet manager");
    let weft = product::weft().expect("the product").display().to_string();
    let run = |words: &[&str]| -> Result<(Option<i32>, Vec<String>)> {
        let ended = fabric.run("node2", words)?;
        let lines = But::Activity.of(&But::Traffic.of(&ended.text));
        // Standard error comes when it is written, standard output at the end.
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
            let (theirs, ours) = (run(&words)?, run(&[&[weft.as_str()], &words[..]].concat())?);
            ensure!(theirs == ours, "theirs: {theirs:#?}\nours: {ours:#?}");
            ensure!(ours.0 == Some(0), "it failed: {ours:#?}");
            Ok(())
        });
    }
    table.finish();
}

/// A line without its process id, and without what our own question counts.
fn counted(line: &str) -> String {
    let grows = line.starts_with("PortUnicast") || line.starts_with("PortXmitWait");
    match (grows, line.split_once(':'), line.split_once("] ")) {
        (true, Some((name, _)), _) => format!("{name}:…"),
        (_, _, Some((_, text))) if line.starts_with("ibwarn: [") => text.to_owned(),
        _ => line.to_owned(),
    }
}
