//! Debian's simulator of an InfiniBand fabric, Debian's subnet manager on it, and programs on its hosts.
//!
//! A program on a simulated host runs under a preloaded library that answers what a kernel would. That library asks a
//! `libibumad.so.3` how long the head of a datagram's buffer is, so programs that use Weft's must find Weft's first.

use crate::lab::{Lab, Side};
use crate::proc::Proc;
use crate::product;
use crate::user::Who;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a program may run.
const LIMIT_S: &str = "20";
/// How long the simulator and the subnet manager may take to stand.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A simulated fabric in a lab's namespace.
#[derive(Debug)]
pub struct IbSim<'a> {
    lab: &'a Lab,
    preload: PathBuf,
    _sim: Proc,
}

/// What a program said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Standard output.
    pub out: String,
    /// Standard error, without what the preloaded library says.
    pub err: String,
    /// Exit code.
    pub code: Option<i32>,
}

impl Said {
    fn of(output: &std::process::Output) -> Said {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let lines = text.lines().filter(|line| !line.contains("] sim_connect: "));
            lines.map(|line| without_pid(line) + "\n").collect::<String>()
        };
        Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
    }
}

/// Process ids in brackets, as `[PID]`.
fn without_pid(line: &str) -> String {
    let Some((before, rest)) = line.split_once('[') else { return line.to_owned() };
    let (word, after) = rest.split_once(']').unwrap_or((rest, ""));
    let number = word.strip_prefix("pid ").unwrap_or(word);
    let is_pid = number.len() > 2 && number.bytes().all(|b| b.is_ascii_digit());
    if is_pid { format!("{before}[PID]{after}") } else { line.to_owned() }
}

/// What must be installed.
pub const TOOLS: &[&str] = &["ip", "ibsim", "opensm", "timeout"];

impl<'a> IbSim<'a> {
    /// Starts the simulator with a network as ibsim and ibnetdiscover write them.
    pub fn start(lab: &'a Lab, net: &Path) -> Result<IbSim<'a>> {
        let preload = preload().context("libumad2sim.so is not installed (package ibsim-utils)")?;
        // At the end of its input the simulator would spin.
        let line = format!("sleep 1000 | exec ibsim -s -N 64 -S 64 -P 2048 {}", net.display());
        let mut sim = lab.start_bare(lab.client(), Who::Root, &["sh", "-c", &line])?;
        ensure!(sim.wait_until(READY_WITHIN, |p| p.text().contains("simulator ready")), "{}", sim.kill().report());
        Ok(IbSim { lab, preload, _sim: sim })
    }

    fn side(&self) -> &Side {
        self.lab.client()
    }

    /// Where programs run: the preloaded library makes a directory there for each, and one that is killed leaves it.
    fn dir(&self) -> String {
        self.lab.file("").display().to_string()
    }

    /// The words that run `words` on a simulated host, found as its NodeDescription.
    pub fn words(&self, host: &str, words: &[&str]) -> Vec<String> {
        let preload = format!("LD_PRELOAD={}", self.preload.display());
        let host = format!("SIM_HOST={host}");
        self.lab.bare(self.side(), Who::Root, &[&["env", "-C", &self.dir(), &host, &preload], words].concat())
    }

    /// The same for `weft WORDS`.
    pub fn weft_words(&self, host: &str, words: &[&str]) -> Result<Vec<String>> {
        let weft = product::weft()?;
        let libraries = weft.parent().context("the command has no directory")?.join("rdma");
        let preload = format!("LD_PRELOAD={}", self.preload.display());
        let (host, path) = (format!("SIM_HOST={host}"), format!("LD_LIBRARY_PATH={}", libraries.display()));
        let weft = weft.display().to_string();
        let dir = self.dir();
        let start = ["env", "-C", &dir, &host, &path, &preload, &weft];
        Ok(self.lab.bare(self.side(), Who::Root, &[&start[..], words].concat()))
    }

    /// Runs Debian's program to its end.
    pub fn run(&self, host: &str, words: &[&str]) -> Result<Said> {
        said(&self.words(host, words))
    }

    /// Runs `weft WORDS` to its end.
    pub fn weft(&self, host: &str, words: &[&str]) -> Result<Said> {
        said(&self.weft_words(host, words)?)
    }

    /// Starts a program that stays, with variables for it alone.
    pub fn stay(&self, words: &[String], env: &[(&str, &str)]) -> Result<Proc> {
        self.lab.start_line(words, env)
    }

    /// Has Debian's subnet manager on a host bring the fabric up; it stays, if it is to.
    pub fn opensm(&self, host: &str, stays: bool) -> Result<Proc> {
        let file = |name: &str| self.lab.file(name).display().to_string();
        let (log, config) = (file("opensm.log"), file("opensm.conf"));
        let _ = std::fs::remove_file(&log);
        let partitions = product::root().join("tests/interop/golden/ib_partitions.conf");
        let (dump, partitions) = (file(""), partitions.display());
        let lines = format!("dump_files_dir {dump}\npartition_config_file {partitions}\nforce_log_flush TRUE\n");
        std::fs::write(&config, lines)?;
        let words = ["opensm", "-F", &config, "-p", "14", "-f", &log];
        let mut words = self.words(host, &words);
        words.extend((!stays).then(|| "-o".to_owned()));
        let mut opensm = self.stay(&words, &[])?;
        let is_up = |_: &Proc| std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SUBNET UP"));
        if !opensm.wait_until(READY_WITHIN, is_up) {
            bail!("no SUBNET UP: {}", opensm.kill().report());
        }
        if !stays {
            opensm.wait_until(READY_WITHIN, |_| false);
        }
        Ok(opensm)
    }
}

/// What a line of words says, in limited time.
fn said(line: &[String]) -> Result<Said> {
    let mut command = Command::new("timeout");
    command.arg("-k1").arg(LIMIT_S).args(line).stdin(Stdio::null());
    Ok(Said::of(&command.output().context("cannot run timeout (package coreutils)")?))
}

/// Where the preloaded library is.
fn preload() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("umad2sim/libumad2sim.so")).find(|path| path.is_file())
}
