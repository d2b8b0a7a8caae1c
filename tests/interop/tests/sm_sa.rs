//! Weft's subnet administrator, judged by third-party programs: OpenSM's own test of a manager, every query of Debian's
//! saquery, compared with OpenSM's answers, and a hostile client over libibumad.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "cc", "opensm", "osmtest", "saquery", "/usr/include/infiniband/umad.h"];

/// Time limit of a manager for any step.
const WITHIN: Duration = Duration::from_secs(15);

/// osmtest considers a rate above 300 Gb/s invalid.
const FABRIC: &[&str] = &["--fat-tree", "4,2", "--speed", "HDR"];

/// Configuration of both managers.
const CONF: &str = "sm_priority 14\nrouting_engine minhop\nhonor_guid2lid_file TRUE\n";

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sm_sa/sa_client.c");

/// Command lines of saquery: every record, every way to name an end, every component.
const QUESTIONS: &str = include_str!("sm_sa/questions.txt");

/// Allowed differences from OpenSM's answers, with reasons: lines with these words are not compared.
const DIFFERENT: &[&str] = &[
    // Weft tells the switches that the last multicast LID is used, as `use_mfttop` says; OpenSM tells only those that
    // say they use it.
    "MulticastFDBTop",
    // In network order, as IBA specifies; OpenSM writes it in its machine's order, and saquery prints it unconverted.
    "Block..",
    // A counter of the manager's activity.
    "ActCount",
];

/// OpenSM's test, flow by flow; the default of `-M` is its short flow.
const FLOWS: &[(&str, &[&str])] = &[
    ("inventory made", &["-f", "c"]),
    ("inventory validated", &["-f", "v"]),
    ("inventory validated, with a GRH", &["-f", "v", "-G"]),
    ("inventory validated by all paths at once", &["-f", "v", "-d", "4"]),
    ("events forwarded", &["-f", "e"]),
    ("multicast, alone", &["-f", "m", "-M", "1"]),
    ("multicast, with others", &["-f", "m", "-M", "2"]),
    ("lanes", &["-f", "q"]),
    ("traps", &["-f", "t", "-w", "1"]),
    ("flood of tables", &["-f", "f", "-s", "2"]),
    ("flood of paths", &["-f", "f", "-s", "3"]),
    // This one waits for leases of seconds.
    ("services", &["-f", "s"]),
];

fn have(what: &str) -> bool {
    skip::have(what, TOOLS)
}

/// Starts Weft's manager on the first host, with its state in the lab's directory.
fn manager(lab: &Lab, fabric: &Fabric<'_>, more: &str) -> Result<Proc> {
    let (weft, dir, config) = (product::weft()?, lab.file("cache"), lab.file("weft.conf"));
    std::fs::create_dir_all(&dir)?;
    std::fs::write(&config, format!("{CONF}dump_files_dir {}\n{more}", dir.display()))?;
    let log = lab.file("weft-sm.log");
    let words =
        [&weft.display().to_string(), "sm", "-F", &config.display().to_string(), "-f", &log.display().to_string()];
    let words = fabric.words_without_ib0("node1", &words)?;
    let mut proc = lab.start_line(&words, &[("OSM_CACHE_DIR", &dir.display().to_string())])?;
    ensure!(proc.wait_until(WITHIN, |proc| proc.text().contains("Entering MASTER")), "{}", proc.kill().report());
    fabric.wait("all links are active", |status| {
        status["links"]["init"] == 0 && status["links"]["armed"] == 0 && status["links"]["active"] != 0
    })?;
    Ok(proc)
}

/// Starts OpenSM there, with the same LIDs.
fn opensm(lab: &Lab, fabric: &Fabric<'_>) -> Result<Proc> {
    let (dir, config, log) = (lab.file("cache"), lab.file("opensm.conf"), lab.file("opensm.log"));
    std::fs::write(&config, format!("{CONF}dump_files_dir {}\nforce_log_flush TRUE\n", dir.display()))?;
    let words = ["opensm", "-F", &config.display().to_string(), "-f", &log.display().to_string()];
    let words = fabric.words_without_ib0("node1", &words)?;
    let mut proc = lab.start_line(&words, &[("OSM_CACHE_DIR", &dir.display().to_string())])?;
    let up = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SUBNET UP"));
    ensure!(proc.wait_until(WITHIN, up), "{}", proc.kill().report());
    Ok(proc)
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("sa_client");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O2", "-o"]).arg(&program).args([CLIENT, "-libumad"]);
    ensure!(cc.status().context("cc runs")?.success(), "sa_client.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

#[test]
fn the_test_of_a_manager_passes() {
    if !have("osmtest") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, FABRIC).expect("a fabric");
    let _manager = manager(&lab, &fabric, "").expect("a manager");
    let mut table = Table::new("osmtest");
    let dir = lab.file("").display().to_string();
    let (inventory, log) = (lab.file("osmtest.dat").display().to_string(), lab.file("osmtest.log"));
    for (name, words) in FLOWS {
        table.case(name, || {
            let _ = std::fs::remove_file(&log);
            // It writes into its working directory.
            let common = ["env", "-C", &dir, "osmtest", "-i", &inventory, "-l", &log.display().to_string()];
            let ended = fabric.run("node2", &[&common[..], words].concat())?;
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            let tail = || said().lines().rev().take(12).map(str::to_owned).collect::<Vec<_>>();
            ensure!(
                ended.ok() && ended.text.contains("PASS"),
                "{}\nits log, last line first: {:#?}",
                ended.report(),
                tail()
            );
            Ok(())
        });
    }
    table.finish();
}

/// Returns the output of saquery for every command line: lines in order, and the exit status.
fn answers(lab: &Lab, fabric: &Fabric<'_>) -> Result<BTreeMap<String, Vec<String>>> {
    let script = lab.file("questions.sh");
    let line = |words: &str| format!("echo '### '\"saquery {words}\"\nsaquery {words} 2>&1\necho \"exit $?\"\n");
    std::fs::write(&script, QUESTIONS.lines().map(line).collect::<String>())?;
    let words = fabric.words_without_ib0("node2", &["sh", &script.display().to_string()])?;
    let said = lab.start_line(&words, &[])?.wait(Duration::from_secs(60));
    let mut answers = BTreeMap::new();
    for part in said.text.split("### ").skip(1) {
        let (words, answer) = part.split_once('\n').unwrap_or((part, ""));
        let mut lines: Vec<String> = answer.lines().filter_map(|line| comparable(words, line)).collect();
        lines.sort_unstable();
        answers.insert(words.to_owned(), lines);
    }
    ensure!(answers.len() == QUESTIONS.lines().count(), "{} answers:\n{}", answers.len(), said.text);
    Ok(answers)
}

/// Returns a line without the parts that may differ.
fn comparable(words: &str, line: &str) -> Option<String> {
    if line.is_empty() || line.starts_with("ibwarn") || DIFFERENT.iter().any(|words| line.contains(words)) {
        return None;
    }
    // A switch reports the port that received the query, and several paths may be equally short.
    if line.trim_start().starts_with("LocalPort:") {
        return line.split_once(':').map(|(label, _)| label.to_owned());
    }
    // Either manager may choose any of several equally good ports.
    let entry = words.starts_with("saquery LFTR") && line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let line = if entry { line.trim_start().split('\t').next()? } else { line };
    Some(line.to_owned())
}

#[test]
fn every_question_is_answered_as_by_opensm() {
    if !have("saquery beside OpenSM") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let _ = std::fs::remove_dir_all(lab.file("cache"));
    let ours = {
        let fabric = Fabric::up(&lab, FABRIC).expect("a fabric");
        let _manager = manager(&lab, &fabric, "").expect("a manager");
        answers(&lab, &fabric).expect("answers")
    };
    let fabric = Fabric::up(&lab, FABRIC).expect("a fabric");
    let _opensm = opensm(&lab, &fabric).expect("OpenSM");
    let theirs = answers(&lab, &fabric).expect("answers");
    let mut table = Table::new("saquery beside OpenSM");
    for (words, theirs) in &theirs {
        table.case(words, || {
            let ours = ours.get(words).context("no answer")?;
            let more: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
            let less: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
            ensure!(
                ours == theirs,
                "of {} lines and {}: only ours {more:#?}, only OpenSM's {less:#?}",
                ours.len(),
                theirs.len()
            );
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn who_means_no_good_does_no_harm() {
    if !have("an administrator under attack") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, FABRIC).expect("a fabric");
    let client = compile(&lab).expect("the client");
    let keeps = format!("sa_db_dump TRUE\nsa_db_file {}\n", lab.file("cache/opensm-sa.dump").display());
    let mut held = Some(manager(&lab, &fabric, &keeps).expect("a manager"));
    let mut table = Table::new("an administrator under attack");
    let start =
        |host: &str, words: &[&str]| lab.start_line(&fabric.words(host, &[&[client.as_str()], words].concat())?, &[]);
    table.case("datagrams that nobody should send", || {
        let before = memory_kib(held.as_ref().context("a manager")?)?;
        let seeds = ["1", "2", "3"];
        let hosts = ["node2", "node3", "node4"];
        let clients: Vec<Proc> =
            hosts.iter().zip(seeds).map(|(host, seed)| start(host, &["bad", "100000", seed])).collect::<Result<_>>()?;
        for client in clients {
            let ended = client.wait(Duration::from_secs(60)).success()?;
            ensure!(ended.text.contains("all is well"), "{}", ended.report());
        }
        let after = memory_kib(held.as_ref().context("a manager")?)?;
        ensure!(after < before + MEMORY_GROWTH_KIB, "{before} KiB before, {after} KiB after");
        Ok(())
    });
    table.case("a flood for every path does not keep another from his", || {
        let floods = [start("node5", &["flood", "3", "64"])?, start("node5", &["flood", "3", "64"])?];
        let waits = start("node6", &["worst", "2", "1"])?.wait(WITHIN).success()?;
        let longest: f64 = waits.text.split(' ').next().and_then(|word| word.parse().ok()).context("no figure")?;
        // The flooding clients get answers, too; a lost query is repeated after a tenth of a second.
        ensure!(longest < 2000.0, "{}", waits.text);
        floods.into_iter().try_for_each(|flood| flood.wait(WITHIN).success().map(drop))
    });
    table.case("who subscribed is told, also by a manager that was started anew", || {
        let mut told = start("node3", &["told", "60", "100"])?;
        ensure!(told.wait_until(WITHIN, |told| told.text().contains("subscribed")), "{}", told.kill().report());
        fabric.weft(&["cable", "cut", "node7:1"])?;
        ensure!(told.wait_until(WITHIN, |told| told.text().contains("trap 65 of")), "{}", told.kill().report());
        fabric.weft(&["cable", "join", "node7:1"])?;
        ensure!(told.wait_until(WITHIN, |told| told.text().contains("trap 64 of")), "{}", told.kill().report());
        // Changes are saved within a second.
        let dump = lab.file("cache/opensm-sa.dump");
        let kept = |_: &Proc| std::fs::read_to_string(&dump).is_ok_and(|text| text.contains("InformInfo Record"));
        ensure!(told.wait_until(WITHIN, kept), "no subscription is kept in {}", dump.display());
        held.take().context("a manager")?.kill();
        held = Some(manager(&lab, &fabric, &keeps)?);
        fabric.weft(&["cable", "cut", "node7:1"])?;
        let again = |told: &Proc| told.text().matches("trap 65 of").count() == 2;
        ensure!(told.wait_until(WITHIN, again), "{}", told.kill().report());
        fabric.weft(&["cable", "join", "node7:1"])?;
        told.kill();
        Ok(())
    });
    table.finish();
}

/// Maximum growth of a manager's memory, whatever clients send: the bounds of its records for so few hosts.
const MEMORY_GROWTH_KIB: u64 = 96 << 10;

/// Returns the memory of a manager, which is this process or its child.
fn memory_kib(of: &Proc) -> Result<u64> {
    let mut path = PathBuf::from(format!("/proc/{}", of.pid()));
    while let Ok(children) =
        std::fs::read_to_string(path.join("task").join(path.file_name().context("a number")?).join("children"))
    {
        let Some(child) = children.split_whitespace().next() else { break };
        path = PathBuf::from(format!("/proc/{child}"));
    }
    let status = std::fs::read_to_string(path.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
