//! Debian's simulator of an InfiniBand fabric, Debian's subnet manager on it, and programs on its hosts.
//!
//! A program on a simulated host runs under a preloaded library that stands in for the kernel. That library asks a
//! `libibumad.so.3` for the size of a datagram buffer's head, so programs that use Weft's must find Weft's first.
//!
//! The library passes on the first 224 of a datagram's 256 bytes, and what its heap holds in place of the others: a
//! program that reads the third PathRecord of a response there, as `ibqueryerrors` does, uses an arbitrary LID.

use crate::lab::{Lab, Side};
use crate::proc::Proc;
use crate::product;
use crate::user::Who;
use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Time limit of a program: some query each port of a large network.
const LIMIT_S: &str = "100";
/// Time limit of the simulator; it uses a whole processor once its input ends.
const LIFE_S: u32 = 1000;
/// Linux's in-memory file system.
const MEMORY: &str = "/dev/shm";
/// Time limit for the simulator and the subnet manager to be ready.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Starts of the subnet manager within that time.
const OPENSM_STARTS: u32 = 3;
/// Runs of a Debian program that dies of a segmentation fault: one in some hundred meets an end of a datagram that
/// kills it, so a program that dies each time has another reason.
const RUNS: u32 = 4;

/// A simulated fabric in a lab's namespace.
#[derive(Debug)]
pub struct IbSim<'a> {
    lab: &'a Lab,
    preload: PathBuf,
    /// Pipe for its commands.
    console: PathBuf,
    /// Working directory of programs, if not the lab's.
    scratch: Option<PathBuf>,
    _sim: Proc,
}

impl Drop for IbSim<'_> {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

/// Capacity of the simulator: it refuses a larger network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    nodes: usize,
    switches: usize,
    ports: usize,
}

impl Room {
    /// Computes the capacity for a network in ibsim's format, with a margin.
    fn of(net: &str) -> Room {
        let mut room = Room { nodes: 64, switches: 64, ports: 2048 };
        for line in net.lines() {
            let mut words = line.split_whitespace();
            let (kind, ports) = (words.next(), words.next().and_then(|word| word.parse::<usize>().ok()));
            let (Some(kind @ ("Switch" | "Ca" | "Rt")), Some(ports)) = (kind, ports) else { continue };
            room.nodes += 1;
            room.switches += usize::from(kind == "Switch");
            // A switch has a port 0, too.
            room.ports += ports + 1;
        }
        room
    }
}

/// Result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Standard output.
    pub out: String,
    /// Standard error, without the preloaded library's messages.
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

/// Replaces process ids in brackets with `[PID]`.
fn without_pid(line: &str) -> String {
    let Some((before, rest)) = line.split_once('[') else { return line.to_owned() };
    let (word, after) = rest.split_once(']').unwrap_or((rest, ""));
    let number = word.strip_prefix("pid ").unwrap_or(word);
    let is_pid = number.len() > 2 && number.bytes().all(|b| b.is_ascii_digit());
    if is_pid { format!("{before}[PID]{after}") } else { line.to_owned() }
}

/// Required programs.
pub const TOOLS: &[&str] = &["ip", "ibsim", "opensm", "timeout"];

impl<'a> IbSim<'a> {
    /// Starts the simulator with a network in the format of ibsim and ibnetdiscover.
    pub fn start(lab: &'a Lab, net: &Path) -> Result<IbSim<'a>> {
        IbSim::start_by(lab, net, <[String]>::to_vec)
    }

    /// Starts the simulator with a command line that `changed` derives from the usual one, to set its processor, say.
    pub fn start_by(lab: &'a Lab, net: &Path, changed: impl Fn(&[String]) -> Vec<String>) -> Result<IbSim<'a>> {
        let preload = preload().context("libumad2sim.so is not installed (package ibsim-utils)")?;
        let text = std::fs::read_to_string(net).with_context(|| format!("cannot read {}", net.display()))?;
        let Room { nodes, switches, ports } = Room::of(&text);
        let console = lab.file("ibsim.console");
        let pipe = console.display();
        // At the end of its input the simulator would spin; a pipe that it has open for writing itself never ends.
        let line = format!(
            "rm -f {pipe}; mkfifo {pipe} && exec timeout {LIFE_S} ibsim -s -N {nodes} -S {switches} -P {ports} {} <> {pipe}",
            net.display()
        );
        let words = changed(&lab.bare(lab.client(), Who::Root, &["sh", "-c", &line]));
        let mut sim = lab.start_line(&words, &[])?;
        ensure!(sim.wait_until(READY_WITHIN, |p| p.text().contains("simulator ready")), "{}", sim.kill().report());
        Ok(IbSim { lab, preload, console, scratch: None, _sim: sim })
    }

    /// Runs programs in a directory in memory, if the machine has one. The preloaded library creates some sixty files
    /// there before a program's first datagram, and a disk's file system would distort the measurement.
    pub fn in_memory(mut self) -> Result<IbSim<'a>> {
        let memory = Path::new(MEMORY);
        if memory.is_dir() {
            let scratch = memory.join(self.lab.file("").file_name().context("a lab has no name")?);
            std::fs::create_dir_all(&scratch)?;
            self.scratch = Some(scratch);
        }
        Ok(self)
    }

    /// Gives the simulator a console command: `Unlink "S-0002c90200000000"[19]`.
    pub fn command(&self, line: &str) -> Result<()> {
        // Does not wait for the simulator to read it.
        let mut pipe = std::fs::OpenOptions::new().read(true).write(true).open(&self.console)?;
        pipe.write_all(format!("{line}\n").as_bytes()).context("the simulator's console is gone")
    }

    fn side(&self) -> &Side {
        self.lab.client()
    }

    /// Returns the working directory of programs: the preloaded library makes a directory there for each, and a killed
    /// program leaves it behind.
    fn dir(&self) -> String {
        self.scratch.clone().unwrap_or_else(|| self.lab.file("")).display().to_string()
    }

    /// Returns the command line for `words` on a simulated host, selected by its NodeDescription.
    pub fn words(&self, host: &str, words: &[&str]) -> Vec<String> {
        let preload = format!("LD_PRELOAD={}", self.preload.display());
        let host = format!("SIM_HOST={host}");
        self.lab.bare(self.side(), Who::Root, &[&["env", "-C", &self.dir(), &host, &preload], words].concat())
    }

    /// Returns the command line for `weft WORDS` with the system's libibumad, as README describes.
    pub fn weft_beside_system(&self, host: &str, words: &[&str]) -> Result<Vec<String>> {
        let weft = product::weft()?.display().to_string();
        Ok(self.words(host, &[&[weft.as_str()], words].concat()))
    }

    /// Returns the command line for `weft WORDS` with Weft's own libibumad.
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

    /// Runs a Debian program to its end, again if what the preloaded library made up of a datagram's end killed it.
    pub fn run(&self, host: &str, words: &[&str]) -> Result<Said> {
        let line = self.words(host, words);
        for _ in 1..RUNS {
            let output = output(&line)?;
            if output.status.signal() != Some(libc::SIGSEGV) {
                return Ok(Said::of(&output));
            }
        }
        said(&line)
    }

    /// Runs `weft WORDS` to its end.
    pub fn weft(&self, host: &str, words: &[&str]) -> Result<Said> {
        said(&self.weft_words(host, words)?)
    }

    /// Starts a long-running program, with variables for it alone.
    pub fn stay(&self, words: &[String], env: &[(&str, &str)]) -> Result<Proc> {
        self.lab.start_line(words, env)
    }

    /// Lets Debian's subnet manager on a host bring up the fabric; it keeps running if `stays`.
    pub fn opensm(&self, host: &str, stays: bool) -> Result<Proc> {
        let file = |name: &str| self.lab.file(name).display().to_string();
        let (log, config) = (file("opensm.log"), file("opensm.conf"));
        let partitions = product::root().join("tests/interop/golden/ib_partitions.conf");
        let (dump, partitions) = (file(""), partitions.display());
        let lines = format!("dump_files_dir {dump}\npartition_config_file {partitions}\nforce_log_flush TRUE\n");
        std::fs::write(&config, lines)?;
        let words = ["opensm", "-F", &config, "-p", "14", "-f", &log];
        let mut words = self.words(host, &words);
        words.extend((!stays).then(|| "-o".to_owned()));
        let mut opensm = self.bring_up(&words, &log)?;
        if !stays {
            opensm.wait_until(READY_WITHIN, |_| false);
        }
        Ok(opensm)
    }

    /// Starts OpenSM until the subnet is up: on a busy machine it and the simulator at times miss each other's first
    /// message, and both wait.
    fn bring_up(&self, words: &[String], log: &str) -> Result<Proc> {
        let read = || std::fs::read_to_string(log).unwrap_or_default();
        let mut report = String::new();
        // A cache directory of its own: cached LIDs of another fabric with the same node names are wrong here.
        let cache = self.lab.file("").display().to_string();
        for _ in 0..OPENSM_STARTS {
            let _ = std::fs::remove_file(log);
            let mut opensm = self.stay(words, &[("OSM_CACHE_DIR", &cache)])?;
            if opensm.wait_until(READY_WITHIN / OPENSM_STARTS, |_| read().contains("SUBNET UP")) {
                return Ok(opensm);
            }
            report = opensm.kill().report();
        }
        let end = read().lines().rev().take(10).collect::<Vec<_>>().join("\n        ");
        bail!("no SUBNET UP: {report}\n      its log, the last line first:\n        {end}")
    }
}

/// Runs a command line with a time limit and returns its result.
fn said(line: &[String]) -> Result<Said> {
    Ok(Said::of(&output(line)?))
}

/// Runs a command line with a time limit.
fn output(line: &[String]) -> Result<Output> {
    let mut command = Command::new("timeout");
    command.arg("-k1").arg(LIMIT_S).args(line).stdin(Stdio::null());
    command.output().context("cannot run timeout (package coreutils)")
}

/// Returns the path of the preloaded library.
fn preload() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("umad2sim/libumad2sim.so")).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_for_what_the_network_has() {
        let none = Room::of("# nothing\n");
        let net =
            "Switch\t36 \"S-1\"\t\t# \"s\" enhanced port 0 lid 0 lmc 0\n[1]\t\"H-2\"[1](2)\nCa\t2 \"H-2\"\t\t# \"h\"\n";
        let room = Room::of(net);
        assert_eq!((room.nodes - none.nodes, room.switches - none.switches, room.ports - none.ports), (2, 1, 40));
    }
}
