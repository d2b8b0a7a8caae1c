//! Ticks of the machine's processors: how much of their time was used, and by whom.

/// Ticks of all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Times {
    /// Returns the ticks so far.
    pub fn now() -> Times {
        Times::read(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, ...
    fn read(stat: &str) -> Times {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let tick = |at: usize| ticks.get(at).copied().unwrap_or(0);
        Times { all: ticks.iter().sum(), idle: tick(3) + tick(4), stolen: tick(7) }
    }

    /// Returns the percentage of the time since `before` that the hypervisor gave to other machines.
    pub fn stolen_since(self, before: Times) -> f64 {
        self.share(self.stolen.saturating_sub(before.stolen), before)
    }

    /// Returns the percentage of the time since `before` in which a processor was not idle.
    pub fn busy_since(self, before: Times) -> f64 {
        let all = self.all.saturating_sub(before.all);
        self.share(all.saturating_sub(self.idle.saturating_sub(before.idle)), before)
    }

    /// Returns the percentage of the ticks since `before`.
    fn share(self, ticks: u64, before: Times) -> f64 {
        ticks as f64 * 100.0 / self.all.saturating_sub(before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_others_took_is_told() {
        let before = Times::read("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\n");
        let after = Times::read("cpu  200 0 200 1300 100 0 0 200 50 0\n");
        assert_eq!(before, Times { all: 1000, idle: 700, stolen: 100 });
        assert_eq!((after.stolen_since(before), after.busy_since(before)), (10.0, 30.0));
        let nothing = Times::read("");
        assert_eq!((nothing.stolen_since(before), nothing.busy_since(before)), (0.0, 0.0));
    }
}
