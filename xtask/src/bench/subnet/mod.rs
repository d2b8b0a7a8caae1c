//! Subnet managers on Debian's ibsim: the time until the subnet is up, the time after a cable is cut, and the peak
//! memory. Each run has a fresh simulator of the same network; one run yields all three figures. The simulator has one
//! core, and the manager the other.

mod cases;
mod log;
mod tree;

use super::program::{Program, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use weft_interop::{IbSim, Proc};

pub use cases::ALL as CASES;
pub use tree::Tree;

/// Time limit for a manager to bring the subnet up.
const UP_WITHIN: Duration = Duration::from_secs(200);
/// Time limit after a cable is cut.
const AGAIN_WITHIN: Duration = Duration::from_secs(100);
/// Interval between reads of its log; the time in the log is the one that counts.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Silence of a manager before a cable is cut: the work after its first sweep is done.
const REST: Duration = Duration::from_secs(2);

/// A manager with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    Weft,
    /// OpenSM with a routing engine and this many SMPs outstanding.
    OpenSm(&'static str, u32),
}

/// One of a run's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// From the manager's start until it writes SUBNET UP.
    Up,
    /// From the cut until it writes that again.
    Again,
    /// Its peak memory.
    Peak,
}

/// A manager on a fat tree.
#[derive(Clone, Copy, Debug)]
pub struct Subnet {
    pub tree: Tree,
    pub manager: Manager,
    pub figure: Figure,
}

/// Figures of a run, in the order of [`Figure`].
type Run = [f64; 3];

/// Runs by network and manager. Each figure of a manager takes them in turn, so that three cases share the runs.
#[derive(Default)]
struct Runs {
    done: BTreeMap<(usize, Manager), Vec<Run>>,
    told: BTreeMap<(usize, Manager, Figure), usize>,
}

static RUNS: Mutex<Runs> = Mutex::new(Runs { done: BTreeMap::new(), told: BTreeMap::new() });

impl Program for Subnet {
    fn name(&self) -> String {
        match self.manager {
            Manager::Weft => "weft sm".to_owned(),
            Manager::OpenSm(engine, smps) => format!("OpenSM, {engine}, {smps} SMPs"),
        }
    }

    fn command(&self, _: u32) -> String {
        let words = self.manager.words(Path::new("LOG"), Path::new("CONF")).join(" ");
        let then = if self.figure == Figure::Again { format!("; ibsim: {}", self.tree.cut()) } else { String::new() };
        format!("ibsim -s NET; SIM_HOST={} LD_PRELOAD=libumad2sim.so {words}{then}", Tree::first_host())
    }

    fn unit(&self) -> Unit {
        if self.figure == Figure::Peak { Unit::Bytes } else { Unit::Seconds }
    }

    fn missing(&self) -> Option<&'static str> {
        let ibsim = unless_installed("ibsim", "ibsim-utils");
        ibsim.or(if self.manager == Manager::Weft { None } else { unless_installed("opensm", "opensm") })
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let hosts = self.tree.hosts();
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        let told = runs.told.entry((hosts, self.manager, self.figure)).or_default();
        let place = std::mem::replace(told, *told + 1);
        let done = runs.done.entry((hosts, self.manager)).or_default();
        if place >= done.len() {
            done.push(run(room, self.tree, self.manager)?);
        }
        Ok(done[place.min(done.len() - 1)][self.figure as usize])
    }
}

impl Manager {
    /// Returns its command line.
    fn words(self, log: &Path, config: &Path) -> Vec<String> {
        let (log, config) = (log.display(), config.display());
        let line = match self {
            Manager::Weft => format!("sm --no-config -f {log}"),
            Manager::OpenSm(..) => format!("opensm -F {config} -f {log}"),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    /// Returns the content of the file that its command line names.
    fn config(self, dir: &Path) -> String {
        let Manager::OpenSm(engine, smps) = self else { return String::new() };
        let dir = dir.display();
        format!(
            "routing_engine {engine}\nmax_wire_smps {smps}\nforce_log_flush TRUE\ndump_files_dir {dir}\n\
             partition_config_file {dir}/none\n"
        )
    }
}

/// Runs a manager on a fresh simulator, from its start to its end.
fn run(room: &Room, tree: Tree, manager: Manager) -> Result<Run> {
    let lab = room.lab()?;
    let net = lab.file(&format!("tree{}.net", tree.hosts()));
    if !net.exists() {
        std::fs::write(&net, tree.net())?;
    }
    let (log, config) = (lab.file("subnet.log"), lab.file("subnet.conf"));
    let _ = std::fs::remove_file(&log);
    std::fs::write(&config, manager.config(&lab.file("")))?;
    let sim = IbSim::start_by(lab, &net, |words| room.on_server_core(words))?.in_memory()?;
    let words = manager.words(&log, &config);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let host = Tree::first_host();
    let line = if manager == Manager::Weft { sim.weft_words(&host, &words)? } else { sim.words(&host, &words) };
    // OpenSM caches LIDs there, and each run must start without a cache.
    let cache = lab.file("subnet.cache");
    let _ = std::fs::remove_dir_all(&cache);
    std::fs::create_dir(&cache)?;
    let cache = cache.display().to_string();
    let began = SystemTime::now();
    let mut program = sim.stay(&room.on_client_core(&line), &[("TZ", "UTC"), ("OSM_CACHE_DIR", &cache)])?;
    let up = log::since(began, next_up(&mut program, &log, 0, UP_WITHIN)?);
    let ups = rest(&log)?;
    let cut = SystemTime::now();
    sim.command(&tree.cut())?;
    let again = log::since(cut, next_up(&mut program, &log, ups, AGAIN_WITHIN)?);
    rest(&log)?;
    let peak = peak(program.pid())?;
    Ok([up, again, peak])
}

/// Returns the time of day in the next line that reports the subnet up, after `after` earlier ones.
fn next_up(program: &mut Proc, log: &Path, after: usize, within: Duration) -> Result<f64> {
    let until = Instant::now() + within;
    loop {
        if let Some(up) = log::ups(&read(log)).nth(after) {
            return Ok(up);
        }
        ensure!(program.running(), "it ended: {}", program.text());
        ensure!(Instant::now() < until, "no SUBNET UP within {within:?}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the log is silent, and returns how often the subnet was up.
fn rest(log: &Path) -> Result<usize> {
    let len = || std::fs::metadata(log).map(|found| found.len());
    let (mut last, mut since) = (len()?, Instant::now());
    while since.elapsed() < REST {
        std::thread::sleep(LOOK_EVERY);
        let now = len()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(log::ups(&read(log)).count())
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

/// Returns the peak memory of a process, in bytes.
fn peak(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_what_the_case_says() {
        let words = Manager::Weft.words(Path::new("/l"), Path::new("/c")).join(" ");
        assert_eq!(words, "sm --no-config -f /l");
        let opensm = Manager::OpenSm("ftree", 64);
        assert_eq!(opensm.words(Path::new("/l"), Path::new("/c")).join(" "), "opensm -F /c -f /l");
        assert!(opensm.config(Path::new("/d")).contains("routing_engine ftree\nmax_wire_smps 64\n"));
        assert_eq!(Manager::Weft.config(Path::new("/d")), "");
    }

    #[test]
    fn the_peak_of_a_process_is_more_than_nothing() {
        assert!(peak(std::process::id()).expect("a figure") > 100_000.0);
    }
}
