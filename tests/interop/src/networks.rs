//! Network namespaces of hosts, as links below /proc name them (`net:[4026532000]`), and the processes that use them.

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits until no process is in one of the networks, or has one or one of its sockets open.
pub fn wait_until_unused(networks: &BTreeSet<String>, limit: Duration) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        let holders = holders(networks);
        if holders.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "processes still hold {networks:?}: {holders:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Daemons that run in one of the networks, with their command lines.
pub fn daemons_in(networks: &BTreeSet<String>) -> Vec<String> {
    holders(networks).into_iter().filter(|line| line.ends_with("weft daemon ")).collect()
}

/// Returns the process of Weft's daemon, or of one that it started, that has been in the network for the longest time.
pub fn oldest_daemon_in(network: &str) -> Result<Pid> {
    let is_there = |process: &Path| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let is_daemon = line.split(|byte| *byte == 0).nth(1) == Some(b"daemon");
        is_daemon && std::fs::read_link(process.join("ns/net")).is_ok_and(|link| link.as_os_str() == network)
    };
    // The 22nd field of /proc/PID/stat; the second one ends with the last parenthesis.
    let started = |process: &Path| {
        let stat = std::fs::read_to_string(process.join("stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse::<u64>().ok()
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let oldest = processes.filter(|process| is_there(process)).min_by_key(|process| started(process));
    let number = oldest.as_ref().and_then(|process| process.file_name()?.to_str()?.parse().ok());
    number.and_then(Pid::from_raw).with_context(|| format!("no daemon runs in {network}"))
}

/// Processes that are in one of the networks, or have it or one of its sockets open, with their command lines.
fn holders(networks: &BTreeSet<String>) -> Vec<String> {
    let is_held = |process: &Path| {
        let links = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut links = links.chain([process.join("ns/net")]).filter_map(|link| std::fs::read_link(link).ok());
        links.any(|target| networks.contains(&target.display().to_string()))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let held = processes.filter(|process| is_held(process));
    held.map(|process| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        format!("{}: {}", process.display(), String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}
