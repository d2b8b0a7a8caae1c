//! Network namespaces of hosts, as links below /proc name them (`net:[4026532000]`), and the processes that use them.

use anyhow::{Result, ensure};
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
