//! `weft nvme connect` and its relatives on one side of a lab.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};

use crate::nbd_host::{LIMIT, NbdHost};
use crate::proc::Ended;
use crate::{Lab, Side, Who};

/// Subsystem of the tests.
pub const DISK: &str = "nqn.2026-01.io.weft:disk";
/// Name of the host.
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// Host's commands on one side of a lab.
#[derive(Clone, Copy, Debug)]
pub struct NvmeHost<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The side.
    pub side: &'a Side,
    /// User of the commands.
    pub who: Who,
}

impl NbdHost for NvmeHost<'_> {
    fn place(&self) -> (&Lab, &Side, Who) {
        (self.lab, self.side, self.who)
    }

    fn uri(&self) -> Result<String> {
        Ok(self.namespace()?["NbdUri"].as_str().context("no URI")?.to_owned())
    }
}

impl NvmeHost<'_> {
    /// Runs `weft nvme WORDS` to its end.
    pub fn nvme(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Ended> {
        self.weft(&[&["nvme"], words].concat(), env)
    }

    /// Connects: the device is the first one.
    pub fn connect(&self, address: &str, options: &[&str], env: &[(&str, &str)]) -> Result<()> {
        self.make_runtime()?;
        let words = ["connect", "-t", "rdma", "-a", address, "-s", "4420", "-n", DISK, "-q", HOST];
        let text = self.nvme(&[&words, options].concat(), env)?.success()?.text;
        ensure!(text == "device: nvme0\n", "{text}");
        Ok(())
    }

    /// Disconnects: nothing is left.
    pub fn disconnect(&self) -> Result<()> {
        let text = self.nvme(&["disconnect", "-n", DISK], &[])?.success()?.text;
        ensure!(text == format!("NQN:{DISK} disconnected 1 controller(s)\n"), "{text}");
        let left = self.nvme(&["list", "-o", "json"], &[])?.success()?.text;
        ensure!(!left.contains("nvme0"), "{left}");
        let places = std::fs::read_dir(self.runtime().join("weft-nvme"))?.count();
        ensure!(places == 0, "{places} directories are left");
        Ok(())
    }

    /// Returns the first namespace of `weft nvme list -o json`.
    pub fn namespace(&self) -> Result<Value> {
        let text = self.nvme(&["list", "-o", "json"], &[])?.success()?.text;
        let root: Value = serde_json::from_str(&text)?;
        ensure!(root["Devices"][0]["NameSpace"] == 1, "{text}");
        Ok(root["Devices"][0].clone())
    }

    /// Returns the number of the process in the background.
    pub fn process(&self) -> Result<String> {
        Ok(self.namespace()?["Process"].to_string())
    }

    /// Waits until the controller is `live` or `connecting`.
    pub fn wait_for(&self, state: &str) -> Result<()> {
        let until = Instant::now() + LIMIT;
        loop {
            let namespace = self.namespace()?;
            if namespace["State"] == state {
                return Ok(());
            }
            ensure!(Instant::now() < until, "not {state}: {namespace}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
