//! Conditions of a measurement: the machine, the time, the commit, and the load by others.

use crate::times::Times;
use serde::Serialize;
use std::process::Command;
use std::time::Duration;

/// Time for which the load is watched before the first case.
const WATCH: Duration = Duration::from_millis(500);
/// Load by other processes, in percent, above which figures are doubtful.
const BUSY_MAX: f64 = 5.0;
/// Share of processor time taken by other guests of the hypervisor, in percent, above which figures are doubtful.
const STOLEN_MAX: f64 = 1.0;

/// Machine and time of a run.
#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    pub date: String,
    /// Commit of the build; unknown if the run built nothing.
    pub commit: Option<String>,
    /// Package of the guest's kernel, if there was a guest.
    pub guest: Option<String>,
    /// Share of processor time that other processes used just before the run, in percent.
    pub busy: f64,
    /// Share of processor time that the hypervisor gave to others during the run, in percent.
    pub stolen: f64,
    #[serde(skip)]
    times_at_start: Times,
}

impl Machine {
    /// Reads the state at the start of a run; `built` means that the product matches the sources.
    pub fn look(built: bool) -> Machine {
        let before = Times::now();
        std::thread::sleep(WATCH);
        Machine::between(before, Times::now(), built)
    }

    fn between(before: Times, now: Times, built: bool) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            processor: model.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            date: output("date", &["-u", "+%Y-%m-%d"]),
            commit: built.then(|| output("git", &["describe", "--always", "--dirty"])),
            guest: None,
            busy: now.busy_since(before),
            stolen: 0.0,
            times_at_start: now,
        }
    }

    /// Reads the state at the end of a run.
    pub fn look_again(&mut self) {
        self.stolen = Times::now().stolen_since(self.times_at_start);
    }

    /// Returns processor, cores, kernel, date and commit in one line.
    pub fn describe(&self) -> String {
        let Machine { processor, cores, kernel, date, commit, guest, .. } = self;
        let guest = guest.as_ref().map(|package| format!(", guest {package}")).unwrap_or_default();
        let commit = commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        format!("{processor}, {cores} cores, Linux {kernel}{guest}, {date}{commit}")
    }

    /// Returns the reasons to doubt the figures.
    pub fn noise(&self) -> Vec<String> {
        let mut noise = Vec::new();
        if self.busy > BUSY_MAX {
            noise.push(format!("other programs used {:.0}% of the processors' time before the run", self.busy));
        }
        if self.stolen > STOLEN_MAX {
            noise.push(format!("{:.1}% of the processors' time went to other machines", self.stolen));
        }
        noise
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn output(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).current_dir(crate::cargo::root()).output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_machine_makes_no_noise() {
        let quiet = Machine { busy: 1.0, stolen: 0.2, ..Machine::between(Times::default(), Times::default(), false) };
        assert!(quiet.noise().is_empty() && quiet.commit.is_none());
        let noisy = Machine { busy: 60.0, stolen: 5.0, ..quiet };
        assert_eq!(noisy.noise().len(), 2);
    }
}
