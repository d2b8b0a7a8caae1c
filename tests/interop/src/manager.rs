//! Helpers of subnet manager tests, for any manager.

use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

use crate::fabric::Fabric;
use crate::proc::Proc;

/// Time limit of a manager for any step.
pub const WITHIN: Duration = Duration::from_secs(10);

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let limit = Instant::now() + WITHIN;
    while !holds()? {
        ensure!(Instant::now() < limit, "not within {WITHIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits until a started manager is the master or stands by: Weft and OpenSM report it in the same words.
pub fn settled(mut proc: Proc) -> Result<Proc> {
    let stands = |proc: &Proc| proc.text().contains("Entering MASTER") || proc.text().contains("Entering STANDBY");
    ensure!(proc.wait_until(WITHIN, stands), "{}", proc.kill().report());
    Ok(proc)
}

impl Fabric<'_> {
    /// Returns the LID of the master as a host's program finds it.
    pub fn master(&self, host: &str) -> Result<Option<u64>> {
        let said = self.run(host, &["sminfo"])?;
        let master = said.text.contains("SMINFO_MASTER");
        let lid = said.text.split("sm lid ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        Ok(lid.filter(|_| master))
    }

    /// Returns the base LIDs of all hosts' first ports and of switches, by name.
    pub fn lids(&self) -> Result<Vec<(String, u64)>> {
        let picture: serde_json::Value = serde_json::from_str(&self.weft(&["topology", "--format", "json"])?)?;
        let nodes = picture["nodes"].as_array().context("nodes")?;
        let one = |node: &serde_json::Value| Some((node["name"].as_str()?.to_owned(), node["lids"][0].as_u64()?));
        Ok(nodes.iter().filter_map(one).collect())
    }
}
