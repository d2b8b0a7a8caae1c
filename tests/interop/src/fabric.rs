//! An InfiniBand fabric in a lab's namespace, brought up by `weft up`, and Debian's subnet manager on one of its hosts.

use crate::lab::Lab;
use crate::proc::{Ended, Proc};
use crate::product;
use crate::user::Who;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit of a subnet manager for fabrics of these sizes.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for a program to notice a change.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// A running fabric; dropping it takes it down.
#[derive(Debug)]
pub struct Fabric<'a> {
    lab: &'a Lab,
    who: Who,
}

/// Debian's subnet manager, running.
#[derive(Debug)]
pub struct OpenSm {
    /// The process.
    pub proc: Proc,
    log: PathBuf,
}

impl<'a> Fabric<'a> {
    /// Brings up a fabric with these arguments of `weft up`.
    pub fn up(lab: &'a Lab, words: &[&str]) -> Result<Fabric<'a>> {
        Ok(Fabric::up_by(lab, Who::Root, words)?.0)
    }

    /// Brings up a fabric with the subnet manager of `weft up`, and waits until the subnet is up.
    pub fn managed(lab: &'a Lab, words: &[&str]) -> Result<Fabric<'a>> {
        Ok(Fabric::managed_by(lab, Who::Root, words)?.0)
    }

    /// The same for a user, who also runs the fabric's programs. Returns the output of `weft up`, too.
    pub fn managed_by(lab: &'a Lab, who: Who, words: &[&str]) -> Result<(Fabric<'a>, String)> {
        let said = lab.weft(lab.client(), who, &[], &[&["up"], words].concat())?.success()?.text;
        Ok((Fabric { lab, who }, said))
    }

    /// Brings up a fabric of a user, who also runs its programs. Returns the output of `weft up`, too.
    pub fn up_by(lab: &'a Lab, who: Who, words: &[&str]) -> Result<(Fabric<'a>, String)> {
        let said = lab.weft(lab.client(), who, &[], &[&["up", "--no-sm"], words].concat())?.success()?.text;
        Ok((Fabric { lab, who }, said))
    }

    /// Brings up a fabric where every packet of its programs goes hop by hop.
    pub fn hop_by_hop(lab: &'a Lab, words: &[&str]) -> Result<Fabric<'a>> {
        Fabric::up(lab, &[&["--packets"], words].concat())
    }

    /// Runs `weft WORDS` to success; returns its output.
    pub fn weft(&self, words: &[&str]) -> Result<String> {
        Ok(self.lab.weft(self.lab.client(), self.who, &[], words)?.success()?.text)
    }

    /// Runs `weft WORDS` to its end, whatever that is.
    pub fn try_weft(&self, words: &[&str]) -> Result<Ended> {
        self.lab.weft(self.lab.client(), self.who, &[], words)
    }

    /// Returns the command line that runs a program as one of the hosts.
    pub fn words(&self, host: &str, words: &[&str]) -> Result<Vec<String>> {
        self.words_with(&["--host", host, "--"], words)
    }

    fn words_with(&self, options: &[&str], words: &[&str]) -> Result<Vec<String>> {
        let weft = product::weft()?;
        let weft = weft.to_str().context("the product's path is not UTF-8")?;
        Ok(self.lab.bare(self.lab.client(), self.who, &[&[weft, "run"], options, words].concat()))
    }

    /// Returns the command line that runs a program with the adapters of a host, which gets no IPoIB interface by it.
    pub fn words_without_ib0(&self, host: &str, words: &[&str]) -> Result<Vec<String>> {
        self.words_with(&["--host", host, "--machine-network", "--"], words)
    }

    /// Runs such a program to its end.
    pub fn run_without_ib0(&self, host: &str, words: &[&str]) -> Result<Ended> {
        Ok(self.lab.start_line(&self.words_without_ib0(host, words)?, &[])?.wait(Duration::from_secs(60)))
    }

    /// Runs a program to its end as a host.
    pub fn run(&self, host: &str, words: &[&str]) -> Result<Ended> {
        Ok(self.lab.start_line(&self.words(host, words)?, &[])?.wait(Duration::from_secs(60)))
    }

    /// Returns the fabric's part of `weft status --json`.
    pub fn status(&self) -> Result<serde_json::Value> {
        let all: serde_json::Value = serde_json::from_str(&self.weft(&["status", "--json"])?)?;
        Ok(all["fabric"].clone())
    }

    /// Starts Debian's subnet manager on a host with a routing engine, and waits until the subnet is up.
    pub fn opensm(&self, host: &str, engine: &str) -> Result<OpenSm> {
        let file = |name: &str| self.lab.file(name).display().to_string();
        let (log, config, cache) = (self.lab.file("opensm.log"), file("opensm.conf"), file("opensm.cache"));
        let _ = std::fs::remove_file(&log);
        // OpenSM would complain about state cached from another fabric.
        let _ = std::fs::remove_dir_all(&cache);
        std::fs::create_dir(&cache)?;
        let text = format!("dump_files_dir {}\nforce_log_flush TRUE\nno_fallback TRUE\n", file(""));
        std::fs::write(&config, text + "use_ucast_cache FALSE\nsweep_interval 0\n")?;
        let words = ["opensm", "-F", &config, "-R", engine, "-f", &log.display().to_string()];
        let proc = self.lab.start_line(&self.words_without_ib0(host, &words)?, &[("OSM_CACHE_DIR", &cache)])?;
        let mut opensm = OpenSm { proc, log };
        opensm.wait_for("SUBNET UP", 1, READY_WITHIN)?;
        Ok(opensm)
    }

    /// Waits until a condition on the fabric's status holds.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&serde_json::Value) -> bool) -> Result<()> {
        let until = Instant::now() + NOTICED_WITHIN;
        loop {
            let status = self.status()?;
            if holds(&status) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "not within {NOTICED_WITHIN:?}: {what}; the fabric: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Fabric<'_> {
    fn drop(&mut self) {
        let _ = self.lab.weft(self.lab.client(), self.who, &[], &["down"]);
    }
}

impl OpenSm {
    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Counts these words in the log.
    pub fn count(&self, words: &str) -> usize {
        self.log().matches(words).count()
    }

    /// Waits until the log has these words that many times.
    pub fn wait_for(&mut self, words: &str, times: usize, limit: Duration) -> Result<()> {
        let log = self.log.clone();
        let said = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.matches(words).count() >= times);
        if self.proc.wait_until(limit, said) {
            return Ok(());
        }
        let text = self.log();
        let tail: Vec<&str> = text.lines().rev().take(20).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        anyhow::bail!("{words:?} not {times} times within {limit:?}:\n{}\n{tail}", self.proc.text())
    }

    /// Waits for the next sweep after `before` sweeps.
    pub fn wait_sweep(&mut self, before: usize) -> Result<()> {
        self.wait_for("SUBNET UP", before + 1, NOTICED_WITHIN)
    }
}
