//! A fabric of an ordinary user, by verdicts and hop by hop: no part of it needs root. Debian's subnet manager starts
//! as `weft up` says, and Debian's programs exchange data.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::{Fabric, Lab, Proc, Shape, Table, Who, skip};

const TOOLS: &[&str] = &["ip", "opensm", "ibping", "ibv_rc_pingpong", "ib_write_bw", "rping", "perfquery"];

const SERVER: &str = "node1";
const CLIENT: &str = "node2";

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn nothing_of_it_needs_root() {
    if !skip::have("an ordinary user's fabric", TOOLS) {
        return;
    }
    let mut table = Table::new("an ordinary user's fabric");
    for mode in [&[][..], &["--packets"]] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let label = |what: &str| mode.iter().chain(&[what]).copied().collect::<Vec<_>>().join(" ");
        let words = [mode, &["--star", "2"]].concat();
        let (fabric, said) = Fabric::up_by(&lab, Who::Ordinary, &words).expect("a fabric");
        let mut opensm = None;
        table.case(&label("opensm as `weft up` says"), || {
            opensm = Some(start_opensm(&lab, &said)?);
            fabric.wait("all links active", |state| state["links"]["active"] == 2)
        });
        for line in ["ibv_rc_pingpong -n 100 -c", "ibv_ud_pingpong -n 100 -g 0 -c", "ib_write_bw -d weft0 -F -n 200"] {
            table.case(&label(line), || exchange(&lab, &fabric, line));
        }
        table.case(&label("rping"), || {
            let serve = ["rping", "-s", "-a", "10.0.0.1", "-C", "3"];
            let server = lab.start_line(&fabric.words(SERVER, &serve)?, &[])?;
            std::thread::sleep(Duration::from_millis(500));
            fabric.run(CLIENT, &["rping", "-c", "-a", "10.0.0.1", "-C", "3"])?.success()?;
            server.wait(LIMIT).success().map(drop)
        });
        table.case(&label("ibping"), || {
            let _server = lab.start_line(&fabric.words(SERVER, &["ibping", "-S"])?, &[])?;
            std::thread::sleep(Duration::from_millis(500));
            fabric.run(CLIENT, &["ibping", "-c", "3", "1"])?.success().map(drop)
        });
        table.case(&label("perfquery"), || fabric.run(CLIENT, &["perfquery"])?.success().map(drop));
    }
    table.finish();
}

/// Runs the OpenSM command from the output of `weft up`: that shows the line of Weft's manager, and OpenSM's after `#
/// or`.
fn start_opensm(lab: &Lab, said: &str) -> Result<Proc> {
    let line =
        said.lines().find(|line| line.contains("weft run --host")).with_context(|| format!("no hint: {said}"))?;
    let (ours, theirs) = line.split_once("# or ").with_context(|| format!("no other manager: {line}"))?;
    let (run, _) = ours.split_once("weft sm").with_context(|| format!("not our manager: {line}"))?;
    let arguments = run.trim_start().strip_prefix("weft").context("not our command")?;
    let line = format!("exec {}{arguments}{theirs}", weft_interop::product::weft()?.display());
    let words = lab.bare(lab.client(), Who::Ordinary, &["sh", "-c", &line]);
    let mut opensm = lab.start_line(&words, &[])?;
    let up = opensm.wait_until(LIMIT, |proc| proc.text().contains("SUBNET UP"));
    ensure!(up, "no subnet:\n{}", opensm.kill().report());
    Ok(opensm)
}

/// Runs a Debian program at both hosts.
fn exchange(lab: &Lab, fabric: &Fabric<'_>, line: &str) -> Result<()> {
    let mut words: Vec<_> = line.split_whitespace().collect();
    let mut server = lab.start_line(&fabric.words(SERVER, &words)?, &[])?;
    ensure!(server.wait_listening(18515, LIMIT), "the server does not listen:\n{}", server.text());
    words.push(SERVER);
    fabric.run(CLIENT, &words)?.success()?;
    server.wait(LIMIT).success().map(drop)
}
