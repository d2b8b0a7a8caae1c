//! Operation of a subnet manager as a service: several on one host, signals, its console, unwritable files, users
//! without access to it, mistakes in its files.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::time::Duration;
use weft_interop::manager::{WITHIN, until};
use weft_interop::proc::Proc;
use weft_interop::user::ONE_USER;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

const TOOLS: &[&str] = &["ip", "ibstat", "sminfo", "saquery", "kill"];

/// One host on two subnets.
const TWO: &str = r#"
cables = ["node1/weft0 - a", "node2 - a", "node1/weft1 - b", "node3 - b"]
[[switch]]
name = "a"
ports = 8
[[switch]]
name = "b"
ports = 8
[[host]]
name = "node1"
adapters = 2
[[host]]
name = "node2"
[[host]]
name = "node3"
"#;

/// Starts Weft's manager on a host, with extra arguments and variables.
fn manager(fabric: &Fabric<'_>, lab: &Lab, host: &str, words: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    let words = [&[weft.as_str(), "sm"], words].concat();
    lab.start_line(&fabric.words(host, &words)?, env)
}

fn wait_for(proc: &mut Proc, words: &str) -> Result<()> {
    ensure!(proc.wait_until(WITHIN, |proc| proc.text().contains(words)), "no {words:?} in {}", proc.text());
    Ok(())
}

fn path(lab: &Lab, name: &str) -> String {
    lab.file(name).display().to_string()
}

fn file(lab: &Lab, name: &str, text: &str) -> Result<String> {
    std::fs::write(lab.file(name), text)?;
    Ok(path(lab, name))
}

fn status(fabric: &Fabric<'_>, guid: &str) -> Result<serde_json::Value> {
    Ok(serde_json::from_str(&fabric.weft(&["sm", "status", "--json", "-g", guid])?)?)
}

fn port_guids(fabric: &Fabric<'_>, host: &str) -> Result<Vec<String>> {
    Ok(fabric.run(host, &["ibstat", "-p"])?.success()?.text.split_whitespace().map(str::to_owned).collect())
}

fn signal(pid: u64, name: &str) -> Result<()> {
    let status = std::process::Command::new("kill").args([name, &pid.to_string()]).status()?;
    ensure!(status.success(), "kill {name} {pid}");
    Ok(())
}

#[test]
fn a_host_manages_two_subnets() {
    if !skip::have("a host manages two subnets", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let topology = file(&lab, "two.toml", TWO).expect("a file");
    let fabric = Fabric::up(&lab, &[&topology]).expect("a fabric");
    let mut table = Table::new("a host manages two subnets");
    let guids = port_guids(&fabric, "node1").expect("two ports");
    let log = path(&lab, "log");
    file(&lab, "opensm.conf", &format!("log_file {log}\ndump_files_dir {}\n", path(&lab, ""))).expect("a file");
    let ports = format!("GUIDS=\"{}\"\nPRIORITY=14\n", guids.join(" "));
    let ports = file(&lab, "ports", &ports).expect("a file");
    let all = file(&lab, "all", "PORTS=ALL\n").expect("a file");
    let (cache, directory) = (path(&lab, "cache"), path(&lab, ""));
    let instances = |sysconfig: &str, words: &[&str]| {
        let words = [&["instances", "--sysconfig", sysconfig, "--directory", &directory], words].concat();
        manager(&fabric, &lab, "node1", &words, &[("OSM_CACHE_DIR", &cache)])
    };
    table.case("GUIDS and PORTS=ALL name the same ports", || {
        let named = instances(&ports, &["--dry-run"])?.wait(WITHIN).success()?.text;
        let all = instances(&all, &["--dry-run"])?.wait(WITHIN).success()?.text;
        ensure!(all == named.replace(" --priority 14", "") && named.lines().count() == 2, "{named}{all}");
        Ok(())
    });
    let mut running = None;
    table.case("each port has a manager with a prefix and LIDs of its own", || {
        running = Some(instances(&ports, &[])?);
        let up =
            |guid: &String| Ok(status(&fabric, guid).is_ok_and(|now| now["is_up"] == true && now["priority"] == 14));
        until("both subnets are up", || {
            guids.iter().map(up).collect::<Result<Vec<_>>>().map(|all| !all.contains(&false))
        })?;
        for (number, host) in [(0, "node2"), (1, "node3")] {
            let said = fabric.run(host, &["ibaddr"])?.success()?.text;
            ensure!(said.contains("fe80::1:") == (number == 1), "{host}: {said}");
            let kept = std::fs::read_to_string(lab.file(&format!("cache/{number}/guid2lid")))?;
            ensure!(kept.lines().filter(|line| !line.is_empty()).count() == 3, "{kept}");
        }
        Ok(())
    });
    let pid = |guid: &str| -> Result<u64> { status(&fabric, guid)?["pid"].as_u64().context("a pid") };
    table.case("one that was killed is started again", || {
        let guid = &guids[0];
        let first = pid(guid)?;
        signal(first, "-KILL")?;
        until("another is there", || Ok(pid(guid).is_ok_and(|pid| pid != first)))?;
        until("its subnet is up", || Ok(status(&fabric, guid).is_ok_and(|now| now["is_up"] == true)))
    });
    table.case("signals reach all of them", || {
        let moved = format!("{log}.1");
        std::fs::rename(&log, &moved)?;
        file(&lab, "opensm.conf", &format!("log_file {log}\nsweep_interval 7\nlmcc 1\n"))?;
        for guid in &guids {
            signal(pid(guid)?, "-USR1")?;
            signal(pid(guid)?, "-HUP")?;
        }
        let text = || std::fs::read_to_string(&log).unwrap_or_default();
        for words in ["sweep_interval was 10 and is 7 now", "no option is called lmcc", "configuration read anew"] {
            until(words, || Ok(text().matches(words).count() == 2))?;
        }
        Ok(())
    });
    table.finish();
}

#[test]
fn a_manager_is_spoken_to() {
    if !skip::have("a manager is spoken to", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--star", "3"]).expect("a fabric");
    let mut table = Table::new("a manager is spoken to");
    let guid = port_guids(&fabric, "node1").expect("a port").remove(0);
    let cache = file(&lab, "cache", "a file where a directory is to be\n").expect("a file");
    let node = port_guids(&fabric, "node2").expect("a port").remove(0);
    let node = format!("0x{:016x}", u64::from_str_radix(&node[2..], 16).expect("a GUID"));
    let map = file(&lab, "names", &format!("{node} \"the second\"\n")).expect("a file");
    let text = format!(
        "log_file /dev/full\nconsole loopback\nconsole_port 18611\nnode_name_map_name {map}\nsweep_interval 1\n\
         perfmgr TRUE\nlmc 9\nrouting_engine upup\n"
    );
    let config = file(&lab, "opensm.conf", &text).expect("a file");
    let mut proc = manager(&fabric, &lab, "node1", &["-F", &config], &[("OSM_CACHE_DIR", &cache)]).expect("a manager");
    table.case("mistakes are said, and it manages all the same", || {
        wait_for(&mut proc, "Entering MASTER state")?;
        for words in [
            "opensm.conf:7: error: lmc cannot be 9: it is 0; write 0 to 7",
            "no routing engine is called upup",
            "perfmgr has no effect: there is no performance manager",
        ] {
            ensure!(proc.text().contains(words), "no {words:?} in {}", proc.text());
        }
        until("the subnet is up", || Ok(status(&fabric, &guid)?["is_up"] == true))
    });
    table.case("what cannot be written is said once, and written as soon as it can be", || {
        wait_for(&mut proc, "cannot keep the LIDs in")?;
        wait_for(&mut proc, "cannot write the log /dev/full")?;
        std::thread::sleep(Duration::from_millis(2500));
        let text = proc.text();
        for words in ["cannot keep the LIDs in", "cannot write the log /dev/full"] {
            ensure!(text.matches(words).count() == 1, "{text}");
        }
        std::fs::remove_file(&cache)?;
        until("LIDs are kept", || Ok(lab.file("cache/guid2lid").exists()))
    });
    table.case("OpenSM's console by TCP", || {
        let script = "exec 3<>/dev/tcp/127.0.0.1/18611; cat >&3; cat <&3";
        // The console listens on the loopback of the manager's host.
        let line = fabric.words("node1", &["timeout", "5", "bash", "-c", script])?;
        let mut child = std::process::Command::new(&line[0])
            .args(&line[1..])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let said = "querylid 2\npriority 7\npriority\nsweep off\nsweep\nsweep on\nswitchbalance verbose\nlidbalance\n\
                    dump_portguid second\nloglevel 0x7\nloglevel\nnonsense\nhelp priority\nquit\n";
        child.stdin.take().context("a pipe")?.write_all(said.as_bytes())?;
        let mut text = String::new();
        child.stdout.take().context("a pipe")?.read_to_string(&mut text)?;
        child.wait()?;
        for words in [
            "OpenSM $ Query results for LID 2",
            "Node Desc           : the second",
            "OpenSM $ 7\n",
            "OpenSM $ sweeping is off\nOpenSM $ sweeping is off\nOpenSM $ sweeping is on\n",
            "OpenSM $ Switch: 0x",
            "OpenSM $ 0x07\nOpenSM $ 0x07\n",
            "no command is called nonsense",
        ] {
            ensure!(text.contains(words), "no {words:?} in {text}");
        }
        Ok(())
    });
    let others = "other users are told whose it is";
    table.case(others, || {
        if !lab.has_two_users() {
            skip::skip(others, ONE_USER);
            return Ok(());
        }
        let said = lab.weft(lab.client(), Who::Ordinary, &[], &["sm", "status"])?;
        ensure!(!said.ok() && said.text.contains("speaks to that user and root alone"), "{}", said.report());
        Ok(())
    });
    table.case("a second one on the port is refused", || {
        let said = manager(&fabric, &lab, "node1", &["--no-config"], &[])?.wait(WITHIN);
        ensure!(!said.ok() && said.text.contains("weft sm"), "{}", said.report());
        Ok(())
    });
    table.case("one that is never to be master is none", || {
        let mut never = manager(&fabric, &lab, "node3", &["--no-config", "--never-master"], &[])?;
        wait_for(&mut never, "Entering STANDBY state")?;
        fabric.weft(&["sm", "console", "-g", &guid, "shutdown"])?;
        wait_for(&mut proc, "Exiting SM")?;
        std::thread::sleep(Duration::from_millis(300));
        ensure!(!never.text().contains("MASTER"), "{}", never.text());
        Ok(())
    });
    table.finish();
}
