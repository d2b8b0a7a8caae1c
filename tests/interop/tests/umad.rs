//! Weft's libibumad and a virtual host's view of /sys under Debian's unmodified programs: management datagrams of every
//! class, multi-packet responses, several agents and processes at once, IsSM, the contents of files while the fabric
//! changes.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::user::ONE_USER;
use weft_interop::{Ended, Fabric, Lab, Shape, Table, Who, skip};

const TOOLS: &[&str] = &["ip", "opensm", "ibstat", "saquery", "ibping", "ibsysstat", "timeout"];

fn have(what: &str) -> bool {
    skip::have(what, TOOLS)
}

/// Query programs, on the second host, and their output. The first host has LID 1; a fat tree with four leaves.
const ASKED: &[(&[&str], &[&str])] = &[
    (&["ibstat"], &["CA 'weft0'", "State: Active", "Physical state: LinkUp", "Link layer: InfiniBand", "SM lid: 1"]),
    (&["ibstat", "-p"], &["0x"]),
    (&["ibstatus"], &["'weft0' port 1", "4: ACTIVE", "5: LinkUp", "InfiniBand"]),
    (&["ibaddr"], &["LID start"]),
    (&["sminfo"], &["sm lid 1", "SMINFO_MASTER"]),
    (&["smpquery", "nodedesc", "1"], &["node1"]),
    (&["smpquery", "-D", "nodeinfo", "0"], &["Channel Adapter"]),
    (&["smpquery", "portinfo", "1", "1"], &["Active"]),
    (&["smpquery", "pkeys", "1"], &["0xffff"]),
    (&["smpquery", "sl2vl", "1"], &["SL"]),
    (&["smpquery", "vlarb", "1"], &["Low", "High"]),
    (&["smpquery", "guidinfo", "1"], &["0x"]),
    (&["smpdump", "1", "0x11"], &["0101"]),
    (&["ibhosts"], &["node1", "node8"]),
    (&["ibswitches"], &["leaf1"]),
    (&["iblinkinfo"], &["Active/  LinkUp", "leaf1"]),
    (&["ibnetdiscover"], &["Switch", "Ca"]),
    (&["ibroute", "-D", "0,1"], &["valid lids dumped"]),
    (&["ibportstate", "1", "1"], &["LinkState:.......................Active"]),
    (&["perfquery"], &["PortXmitPkts"]),
    (&["perfquery", "-x"], &["PortUnicastXmitPkts"]),
    (&["perfquery", "-X"], &["XmtDataSL0", "XmtDataSL15"]),
    (&["perfquery", "-S"], &["RcvDataSL0"]),
    (&["perfquery", "-c"], &["CounterWidth:....................4", "SampleStatus:....................0"]),
    (&["ibqueryerrors"], &["0 bad nodes found"]),
    (&["ibqueryerrors", "--counters"], &["PortXmitData"]),
    (&["ibtracert", "1", "2"], &["From ca"]),
    (&["dump_lfts"], &["Unicast lids"]),
    (&["dump_mfts"], &["Multicast mlids"]),
    (&["saquery"], &["NodeRecord dump", "node8"]),
    (&["saquery", "-p"], &["PathRecord dump"]),
    (&["saquery", "-g"], &["MCMemberRecord group dump"]),
    (&["saquery", "-s"], &["IsSM ports"]),
    (&["saquery", "-c"], &["SA ClassPortInfo"]),
    (&["saquery", "PIR"], &["PortInfoRecord dump"]),
    (&["saquery", "SWIR"], &["SwitchInfoRecord dump"]),
    (&["saquery", "LFTR"], &["LFT Record dump"]),
    (&["saquery", "SL2VL"], &["SL2VLTableRecord dump"]),
    (&["saquery", "VLAR"], &["VLArbTableRecord dump"]),
    (&["saquery", "LR"], &["LinkRecord dump"]),
    (&["saquery", "MCMR"], &["MCMember Record dump"]),
    (&["saquery", "SMIR"], &["SMInfoRecord dump"]),
    (&["saquery", "GIR"], &["GUIDInfo Record dump"]),
    (&["saquery", "--smkey", "1", "PKTR"], &["PKeyTableRecord dump"]),
    (&["saquery", "MFTR"], &[]),
    (&["saquery", "IIR"], &[]),
    (&["saquery", "SR"], &[]),
];

fn says(ended: Ended, expected: &[&str]) -> Result<()> {
    let ended = ended.success()?;
    for words in expected {
        ensure!(ended.text.contains(words), "no {words:?} in:\n{}", ended.text);
    }
    Ok(())
}

#[test]
fn diagnostics_of_others_ask_a_virtual_host() {
    if !have("infiniband-diags on our fabric") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let _opensm = fabric.opensm("node1", "minhop").expect("a subnet manager");
    let mut table = Table::new("umad");
    for (words, expected) in ASKED {
        table.case(&words.join(" "), || says(fabric.run("node2", words)?, expected));
    }
    for server in ["ibping", "ibsysstat"] {
        for (at, from) in [("node3", "node8"), ("node8", "node3")] {
            table.case(&format!("{server}: {from} asks {at}"), || answered(&lab, &fabric, server, at, from));
        }
    }
    table.case("a second subnet manager stands by", || standby(&lab, &fabric));
    table.case("files say what is so", || files(&lab, &fabric));
    table.finish();
}

/// Returns the LID of a host's port.
fn lid(fabric: &Fabric<'_>, host: &str) -> Result<String> {
    let file = "/sys/class/infiniband/weft0/ports/1/lid";
    let text = fabric.run(host, &["cat", file])?.success()?.text;
    let number = text.trim().strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    Ok(number.with_context(|| format!("{file} says {text:?}"))?.to_string())
}

/// A server on one host answers a client on another, and is gone with its process.
fn answered(lab: &Lab, fabric: &Fabric<'_>, tool: &str, at: &str, from: &str) -> Result<()> {
    let to = lid(fabric, at)?;
    let server = lab.start_line(&fabric.words(at, &[tool, "-S"])?, &[])?;
    let words: &[&str] = if tool == "ibping" { &["ibping", "-c", "3", "-f", "-L"] } else { &["ibsysstat", "-L"] };
    let asked = [words, &[&to]].concat();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let ended = fabric.run(from, &asked)?;
        let good = ended.ok() && (ended.text.contains("3 received") || ended.text.contains("succeeded"));
        if good {
            break;
        }
        ensure!(Instant::now() < until, "no answer:\n{}", ended.report());
    }
    server.kill();
    // ibsysstat takes any response for success, even that no agent exists.
    if tool == "ibping" {
        let late = fabric.run(from, &asked)?;
        ensure!(!late.ok() || late.text.contains("0 received"), "the agent outlives its process:\n{}", late.report());
    }
    Ok(())
}

/// A subnet manager sets IsSM on its port as long as it runs; a second one finds the first.
fn standby(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let capabilities = || -> Result<u32> {
        let text = fabric.run("node4", &["cat", "/sys/class/infiniband/weft0/ports/1/cap_mask"])?.success()?.text;
        Ok(u32::from_str_radix(text.trim().trim_start_matches("0x"), 16)?)
    };
    const IS_SM: u32 = 2;
    ensure!(capabilities()? & IS_SM == 0, "before: {:#x}", capabilities()?);
    let log = lab.file("standby.log");
    let words = ["opensm", "-f", &log.display().to_string()];
    let cache = lab.file("").display().to_string();
    let mut second = lab.start_line(&fabric.words("node4", &words)?, &[("OSM_CACHE_DIR", &cache)])?;
    let stands_by = |_: &weft_interop::Proc| {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("Entering STANDBY state"))
    };
    ensure!(second.wait_until(Duration::from_secs(15), stands_by), "it does not stand by:\n{}", second.text());
    ensure!(capabilities()? & IS_SM != 0, "while it runs: {:#x}", capabilities()?);
    second.kill();
    let until = Instant::now() + Duration::from_secs(5);
    while capabilities()? & IS_SM != 0 {
        ensure!(Instant::now() < until, "IsSM outlives the manager");
    }
    Ok(())
}

/// Files change while a program reads them.
fn files(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let script =
        "cd /sys/class/infiniband/weft0/ports/1; cat phys_state state; read go; sleep 0.5; cat phys_state state";
    let pipe = lab.file("go");
    let _ = std::fs::remove_file(&pipe);
    let shell = format!("mkfifo {0}; ({script}) < {0}", pipe.display());
    let mut reader = lab.start_line(&fabric.words("node7", &["sh", "-c", &shell])?, &[])?;
    ensure!(
        reader.wait_until(Duration::from_secs(10), |proc| pipe.exists() || !proc.text().is_empty()),
        "no pipe:\n{}",
        reader.text()
    );
    // Opening the pipe starts the script.
    let mut go = std::fs::OpenOptions::new().write(true).open(&pipe)?;
    ensure!(reader.wait_until(Duration::from_secs(10), |proc| proc.text().contains("4: ACTIVE")), "{}", reader.text());
    fabric.weft(&["cable", "cut", "node7:1"])?;
    std::io::Write::write_all(&mut go, b"go\n")?;
    let ended = reader.wait(Duration::from_secs(10)).success()?;
    fabric.weft(&["cable", "join", "node7:1"])?;
    ensure!(ended.text.contains("1: DOWN") && ended.text.contains("2: Polling"), "{}", ended.text);
    Ok(())
}

/// Permission to manage a fabric: root and the fabric's owner.
#[test]
fn an_ordinary_user_manages_a_fabric_of_his_own_alone() {
    if !have("an ordinary user's fabric") {
        return;
    }
    let mut table = Table::new("umad rights");
    let run = |lab: &Lab, who, words: &[&str]| {
        lab.weft(lab.client(), who, &[], &[&["run", "--host", "node1", "--"], words].concat())
    };
    table.case("root's fabric", || {
        let lab = Lab::new(Shape::Loopback)?;
        if !lab.has_two_users() {
            skip::skip("root's fabric", ONE_USER);
            return Ok(());
        }
        let _fabric = Fabric::up(&lab, &["--pair"])?;
        says(run(&lab, Who::Ordinary, &["ibstat"])?, &["State: Initializing"])?;
        let refused = run(&lab, Who::Ordinary, &["smpquery", "-D", "nodeinfo", "0"])?;
        let told = "may not send management datagrams";
        ensure!(!refused.ok() && refused.text.contains(told), "{}", refused.report());
        Ok(())
    });
    table.case("his own", || {
        let lab = Lab::new(Shape::Loopback)?;
        lab.weft(lab.client(), Who::Ordinary, &[], &["up", "--no-sm", "--pair"])?.success()?;
        says(run(&lab, Who::Ordinary, &["smpquery", "-D", "nodedesc", "0,1"])?, &["node2"])?;
        says(run(&lab, Who::Ordinary, &["ibnetdiscover"])?, &["node2"])?;
        says(run(&lab, Who::Ordinary, &["ibstatus"])?, &["2: INIT"])?;
        lab.weft(lab.client(), Who::Ordinary, &[], &["down"])?.success()?;
        Ok(())
    });
    table.finish();
}

const EDGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/umad/edges.c");

/// Edge cases of the calls, and their errors when the daemon or the fabric is gone.
#[test]
fn calls_keep_their_promises_at_the_edges() {
    if !skip::have("edges of libibumad", &["ip", "cc", "/usr/include/infiniband/umad.h", "ibv_asyncwatch"]) {
        return;
    }
    let mut table = Table::new("umad edges");
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let edges = compile(&lab).expect("the edges");
    table.case("calls", || {
        let fabric = Fabric::up(&lab, &["--star", "2"])?;
        says(fabric.run("node1", &[&edges, "calls"])?, &["all is well"])
    });
    table.case("the fabric is taken down", || {
        let fabric = Fabric::up(&lab, &["--star", "2"])?;
        bereft(&lab, &fabric, &edges, || {
            let told = fabric.weft(&["down"])?;
            ensure!(told.contains("have lost their adapters: node1 (") && told.contains("node2 ("), "{told}");
            Ok(())
        })
    });
    table.case("the daemon leaves when nobody needs it any more", || {
        let until = Instant::now() + Duration::from_secs(5);
        while lab.daemon(lab.client()).is_some() {
            ensure!(Instant::now() < until, "it stays, though its fabric was taken down");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    table.case("the daemon is killed", || {
        let fabric = Fabric::up(&lab, &["--star", "2"])?;
        bereft(&lab, &fabric, &edges, || {
            let daemon = lab.daemon(lab.client()).context("no daemon")?;
            Ok(kill_process(Pid::from_raw(daemon.cast_signed()).context("its number")?, Signal::KILL)?)
        })
    });
    table.finish();
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("edges");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).args([EDGES, "-libumad"]);
    ensure!(cc.status().context("cc runs")?.success(), "edges.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

/// Programs with an open port and with an open adapter, whose fabric ends: each learns of it at once.
fn bereft(lab: &Lab, fabric: &Fabric<'_>, edges: &str, end: impl FnOnce() -> Result<()>) -> Result<()> {
    let within = Duration::from_secs(10);
    let mut asks = lab.start_line(&fabric.words("node1", &[edges, "end"])?, &[])?;
    let mut watches =
        lab.start_line(&fabric.words("node2", &["stdbuf", "-oL", "ibv_asyncwatch", "-d", "weft0"])?, &[])?;
    ensure!(asks.wait_until(within, |proc| proc.text().contains("waits")), "no port:\n{}", asks.text());
    ensure!(watches.wait_until(within, |proc| proc.text().contains("FD")), "no adapter:\n{}", watches.text());
    end()?;
    says(asks.wait(within), &["all is well"])?;
    let fatal = watches.wait_until(within, |proc| proc.text().to_lowercase().contains("fatal"));
    ensure!(fatal, "no event of the adapter's end:\n{}", watches.text());
    watches.kill();
    Ok(())
}
