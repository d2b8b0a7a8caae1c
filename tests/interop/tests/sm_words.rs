//! Weft's subnet manager in the place of Debian's on Debian's simulator: OpenSM's options on the command line, signals,
//! and files that become invalid while it runs.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use weft_interop::manager::{WITHIN, until};
use weft_interop::{IbSim, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "ibsim", "timeout", "smpquery", "opensm", "kill"];

const HOST: &str = "h00001 HCA-1";
const OTHER: &str = "h00002 HCA-1";

/// OpenSM's options, from its manual, and Weft's message about each, if any.
const WORDS: &[(&str, &str)] = &[
    ("-A -z -W -N -x -v -vv", "use_ucast_cache has no effect"),
    ("-V -d 2", ""),
    ("--subnet_prefix 0xfe80000000000001 --sm_sl 1 -n 8 -Z in -y", "exit_on_fatal has no effect"),
    ("-R lash,no_fallback --do_mesh_analysis --lash_start_vl 1 -Q", "do_mesh_analysis has no effect"),
    ("--nue_max_num_vls 2 --port-shifting --scatter-ports 7 -H 1 --consolidate_ipv6_snm_req", ""),
    ("-q off -C 11000 --log_prefix rail0 --perfmgr", "perfmgr has no effect"),
    ("-a /nonexistent -R updn", "/nonexistent: error: cannot be read"),
    ("-P /nonexistent", "/nonexistent: error: cannot be read"),
    ("-l 9", "the command line: error: lmc cannot be 9"),
    ("-R upup", "the command line: error: no routing engine is called upup"),
    ("-g 0", ""),
];

fn net() -> std::path::PathBuf {
    product::root().join("tests/interop/golden/ib_fabric.net")
}

fn write(path: &Path, text: &str) -> Result<String> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

#[test]
fn opensms_words_are_understood() {
    if !skip::have("opensm's words", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("opensm's words");
    let sim = IbSim::start(&lab, &net()).expect("ibsim");
    for (line, wanted) in WORDS {
        table.case(line, || {
            let words = ["sm", "--no-config", "-o"].into_iter().chain(line.split(' ')).collect::<Vec<_>>();
            let said = sim.weft(HOST, &words)?;
            ensure!(said.code == Some(0) && said.out.contains("Entering MASTER"), "{said:?}");
            ensure!(said.err.contains(wanted) && (said.err.is_empty() || !wanted.is_empty()), "{said:?}");
            Ok(())
        });
    }
    table.case("in the background, from the directory of its files", || {
        write(&lab.file("bg.conf"), &format!("log_file {}\n", lab.file("bg.log").display()))?;
        let words = ["sm", "-F", "bg.conf", "-oB", "--pidfile", "bg.pid", "-f", "bg.log"];
        let said = sim.weft(HOST, &words)?;
        ensure!(said.code == Some(0), "{said:?}");
        until("it ended", || {
            Ok(std::fs::read_to_string(lab.file("bg.log")).is_ok_and(|log| log.contains("Exiting SM")))
        })?;
        let number = std::fs::read_to_string(lab.file("bg.pid"))?;
        ensure!(number.trim().parse::<u32>().is_ok_and(|number| number > 1), "{number:?}");
        Ok(())
    });
    table.case("what keeps it from the background is said before", || {
        let said = sim.weft(HOST, &["sm", "--no-config", "-B", "-f", "/nonexistent/log"])?;
        ensure!(said.code == Some(1) && said.err.contains("cannot write the log /nonexistent/log"), "{said:?}");
        Ok(())
    });
    table.finish();
}

#[test]
fn broken_files_change_nothing() {
    if !skip::have("files broken while a manager runs", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("files broken while a manager runs");
    let sim = IbSim::start(&lab, &net()).expect("ibsim");
    let good = "Default=0x7fff : ALL=full ;\nX=0x5 : ALL=full ;\n";
    let partitions = write(&lab.file("partitions"), good).expect("a file");
    let log = lab.file("log").display().to_string();
    let dumps = lab.file("dumps");
    let text = format!(
        "log_file {log}\nlog_flags 0x43\ndump_files_dir {}\npartition_config_file {partitions}\nforce_link_width 1\n",
        dumps.display()
    );
    let config = write(&lab.file("conf"), &text).expect("a file");
    let cache = lab.file("cache").display().to_string();
    let words = sim.weft_words(HOST, &["sm", "-F", &config]).expect("words");
    let mut manager = sim.stay(&words, &[("OSM_CACHE_DIR", &cache)]).expect("a manager");
    let log = || std::fs::read_to_string(&log).unwrap_or_default();
    let signal = |name: &str| -> Result<()> {
        let said = sim.weft(HOST, &["sm", "status", "--json"])?;
        let status: serde_json::Value = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
        let pid = status["pid"].as_u64().context("a pid")?.to_string();
        ensure!(std::process::Command::new("kill").args([name, &pid]).status()?.success(), "kill {name} {pid}");
        Ok(())
    };
    let has_key = |key: &str| Ok(sim.run(OTHER, &["smpquery", "-D", "pkeys", "0"])?.out.contains(key));
    table.case("the subnet is up", || {
        ensure!(manager.wait_until(WITHIN, |proc| proc.text().contains("Entering MASTER")), "{}", manager.text());
        until("the P_Key is there", || has_key("0x8005"))
    });
    table.case("ports that take no width with their new state have it all the same", || {
        until("one lane is enabled", || {
            let said = sim.run(OTHER, &["smpquery", "-D", "portinfo", "0"])?;
            Ok(said.out.lines().any(|line| line == "LinkWidthEnabled:................1X"))
        })
    });
    table.case("the flag of routing dumps OpenSM's files", || {
        let files =
            [("opensm-lfts.dump", "Unicast lids"), ("opensm.fdbs", "Switch 0x"), ("opensm-subnet.lst", "h00001")];
        for (name, words) in files {
            until(name, || Ok(std::fs::read_to_string(dumps.join(name)).is_ok_and(|text| text.contains(words))))?;
        }
        Ok(())
    });
    table.case("a broken file is named in the log, and its partitions stay", || {
        write(&lab.file("partitions"), &format!("{good}Y=zz : ALL=full ;\n"))?;
        signal("-HUP")?;
        until("HUP is told", || Ok(log().contains("configuration read anew")))?;
        for words in ["partitions:3:3: error: P_Key: zz is not a number", "partitions stay as they were"] {
            ensure!(log().contains(words), "no {words:?} in {}", log());
        }
        ensure!(has_key("0x8005")?, "the P_Key is gone");
        Ok(())
    });
    table.case("a mended file counts", || {
        write(&lab.file("partitions"), &format!("{good}Y=0x6 : ALL=full ;\n"))?;
        signal("-HUP")?;
        until("the new P_Key is there", || has_key("0x8006"))
    });
    table.case("it goes on where the log was moved away", || {
        std::fs::rename(lab.file("log"), lab.file("log.1"))?;
        signal("-USR1")?;
        until("there is a log again", || Ok(lab.file("log").exists()))
    });
    table.case("TERM ends it in order", || {
        signal("-TERM")?;
        ensure!(manager.wait_until(WITHIN, |proc| proc.text().contains("Exiting SM")), "{}", manager.text());
        Ok(())
    });
    table.finish();
}
