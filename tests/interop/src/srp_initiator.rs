//! `weft srp connect` and its relatives on one side of a lab.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};

use crate::nbd_host::{LIMIT, NbdHost};
use crate::proc::Ended;
use crate::{Lab, Side, Who};

/// Initiator's commands on one side of a lab.
#[derive(Clone, Copy, Debug)]
pub struct SrpInitiator<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The side.
    pub side: &'a Side,
    /// User of the commands.
    pub who: Who,
}

impl NbdHost for SrpInitiator<'_> {
    fn place(&self) -> (&Lab, &Side, Who) {
        (self.lab, self.side, self.who)
    }

    fn uri(&self) -> Result<String> {
        Ok(self.disk()?["nbd_uri"].as_str().context("no URI")?.to_owned())
    }
}

impl SrpInitiator<'_> {
    /// Runs `weft srp WORDS` to its end.
    pub fn srp(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Ended> {
        self.weft(&[&["srp"], words].concat(), env)
    }

    /// Logs in: the device is the first one.
    pub fn connect(&self, login: &str, options: &[&str], env: &[(&str, &str)]) -> Result<()> {
        self.make_runtime()?;
        let text = self.srp(&[&["connect", login], options].concat(), env)?.success()?.text;
        ensure!(text == "device: srp0\n", "{text}");
        Ok(())
    }

    /// Logs out: nothing is left.
    pub fn disconnect(&self) -> Result<()> {
        let text = self.srp(&["disconnect", "srp0"], &[])?.success()?.text;
        ensure!(text == "srp0 disconnected\n", "{text}");
        let left = self.srp(&["list", "--json"], &[])?.success()?.text;
        ensure!(!left.contains("srp0"), "{left}");
        let places = std::fs::read_dir(self.runtime().join("weft-srp"))?.count();
        ensure!(places == 0, "{places} directories are left");
        Ok(())
    }

    /// Returns the disks of `weft srp list --json`.
    pub fn disks(&self) -> Result<Vec<Value>> {
        let text = self.srp(&["list", "--json"], &[])?.success()?.text;
        let root: Value = serde_json::from_str(&text)?;
        Ok(root["disks"].as_array().with_context(|| text)?.clone())
    }

    /// Returns the first disk.
    pub fn disk(&self) -> Result<Value> {
        self.disks()?.into_iter().next().context("no disk is connected")
    }

    /// Returns the number of the process in the background.
    pub fn process(&self) -> Result<String> {
        Ok(self.disk()?["process"].to_string())
    }

    /// Waits until the login is `live` or `connecting`.
    pub fn wait_for(&self, state: &str) -> Result<()> {
        let until = Instant::now() + LIMIT;
        loop {
            let disk = self.disk()?;
            if disk["state"] == state {
                return Ok(());
            }
            ensure!(Instant::now() < until, "not {state}: {disk}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
