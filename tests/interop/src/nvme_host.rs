//! `weft nvme connect` and its relatives on one side of a lab, and Debian's NBD clients on the disk.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::proc::{Ended, Proc};
use crate::{Lab, Side, Who, product};

/// Programs that the steps use.
pub const TOOLS: &[&str] = &["nbdinfo", "nbdcopy", "qemu-img", "qemu-io", "fio", "ip"];
/// Subsystem of the tests.
pub const DISK: &str = "nqn.2026-01.io.weft:disk";
/// Name of the host.
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
/// Time limit of one step.
pub const LIMIT: Duration = Duration::from_secs(300);
/// Time limit of a command.
pub const STARTS_WITHIN: Duration = Duration::from_secs(60);

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

impl NvmeHost<'_> {
    /// Directory of connections: each user has one.
    pub fn runtime(&self) -> PathBuf {
        self.lab.file(&format!("run-{:?}", self.who))
    }

    fn start(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
        let runtime = self.runtime().display().to_string();
        let line = self.lab.bare(self.side, self.who, words);
        self.lab.start_line(&line, &[&[("XDG_RUNTIME_DIR", &runtime[..])], env].concat())
    }

    /// Runs `weft nvme WORDS` to its end.
    pub fn nvme(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Ended> {
        let weft = product::weft()?.display().to_string();
        Ok(self.start(&[&[&weft[..], "nvme"], words].concat(), env)?.wait(STARTS_WITHIN))
    }

    /// Runs a shell script to success; `$U` is the URI of namespace 1, `$W` is `weft`.
    pub fn script(&self, script: &str) -> Result<String> {
        Ok(self.start_script(script)?.wait(LIMIT).success()?.text)
    }

    /// Starts such a script.
    pub fn start_script(&self, script: &str) -> Result<Proc> {
        let (weft, uri) = (product::weft()?.display().to_string(), self.uri()?);
        let directory = self.runtime();
        let whole = format!("W='{weft}'; U='{uri}'; cd {}; {script}", directory.display());
        self.start(&["bash", "-ec", &whole], &[])
    }

    /// Connects: the device is the first one.
    pub fn connect(&self, address: &str, options: &[&str], env: &[(&str, &str)]) -> Result<()> {
        let runtime = self.runtime();
        self.start(&["mkdir", "-p", &runtime.display().to_string()], &[])?.wait(STARTS_WITHIN).success()?;
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

    /// Returns the URI of the first namespace.
    pub fn uri(&self) -> Result<String> {
        Ok(self.namespace()?["NbdUri"].as_str().context("no URI")?.to_owned())
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

    /// fio writes, reads and verifies in the first bytes of the disk.
    pub fn fio(&self, size: &str) -> Result<()> {
        let text = self.script(&format!(
            "fio --name=verify --ioengine=nbd --uri=\"$U\" --rw=randrw --bsrange=4k-256k --size={size} --iodepth=16 \
             --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting"
        ))?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    /// Copies some mebibytes to the disk and back, by several connections, and compares.
    pub fn copies(&self, mebibytes: u64) -> Result<()> {
        self.script(&format!(
            "head -c {} /dev/urandom > data; nbdcopy --connections=4 --requests=16 data \"$U\" 
             nbdcopy \"$U\" back; cmp -n {0} data back; nbdcopy --connections=2 --flush \"$U\" back; cmp -n {0} data back; rm back",
            mebibytes << 20
        ))
        .map(drop)
    }
}
