//! The machine that a figure was measured on, when, of which commit, and how quiet it was.

use serde::Serialize;
use std::process::Command;

/// A busier machine than that before the first case measures itself, too.
const LOAD_MAX: f64 = 0.5;
/// So much of the processors' time may be taken by whoever else is on the real machine.
const STOLEN_MAX: f64 = 1.0;

/// Where and when.
#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    pub date: String,
    pub commit: String,
    /// The package of the guest's kernel, where there was a guest.
    pub guest: Option<String>,
    /// The load average when the run began.
    pub load: f64,
    /// The share of the processors' time that the hypervisor gave to others during the run, in percent.
    pub stolen: f64,
    #[serde(skip)]
    times_at_start: Times,
}

/// Ticks of all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    all: u64,
    stolen: u64,
}

impl Machine {
    /// As the run begins.
    pub fn look() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            processor: model.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            date: output("date", &["-u", "+%Y-%m-%d"]),
            commit: output("git", &["describe", "--always", "--dirty"]),
            guest: None,
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            stolen: 0.0,
            times_at_start: Times::read(&read("/proc/stat")),
        }
    }

    /// As the run ends.
    pub fn look_again(&mut self) {
        self.stolen = Times::read(&read("/proc/stat")).stolen_since(self.times_at_start);
    }

    /// Processor, cores, kernel, date and commit in a line.
    pub fn describe(&self) -> String {
        let Machine { processor, cores, kernel, date, commit, guest, .. } = self;
        let guest = guest.as_ref().map(|package| format!(", guest {package}")).unwrap_or_default();
        format!("{processor}, {cores} cores, Linux {kernel}{guest}, {date}, commit {commit}")
    }

    /// What makes the figures doubtful.
    pub fn noise(&self) -> Vec<String> {
        let mut noise = Vec::new();
        if self.load > LOAD_MAX {
            noise.push(format!("a load of {:.1} before the run: other programs used the cores", self.load));
        }
        if self.stolen > STOLEN_MAX {
            noise.push(format!("{:.1}% of the processors' time went to other machines", self.stolen));
        }
        noise
    }
}

impl Times {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, ...
    fn read(stat: &str) -> Times {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Times { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    fn stolen_since(self, before: Times) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 * 100.0 / all as f64
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
    fn time_that_others_took_is_told() {
        let before = Times::read("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\n");
        let after = Times::read("cpu  200 0 200 1400 0 0 0 200 50 0\n");
        assert_eq!(before, Times { all: 1000, stolen: 100 });
        assert_eq!(after.stolen_since(before), 10.0);
        assert_eq!(Times::read("").stolen_since(Times::default()), 0.0);
    }

    #[test]
    fn a_quiet_machine_makes_no_noise() {
        let mut machine = Machine { load: 0.1, ..Machine::look() };
        machine.stolen = 0.2;
        assert!(machine.noise().is_empty());
        (machine.load, machine.stolen) = (2.0, 5.0);
        assert_eq!(machine.noise().len(), 2);
    }
}
