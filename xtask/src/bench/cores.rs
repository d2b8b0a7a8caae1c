//! The cores for the programs of a case: one core for each side, the same for ours and every peer.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The cores of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    pub server: usize,
    pub client: usize,
}

impl Cores {
    /// Chooses two physical cores of this machine, the last ones: interrupts prefer the first.
    pub fn choose() -> Option<Cores> {
        let allowed = sched_getaffinity(None).ok()?;
        let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        pair(&allowed, |cpu| (topology(cpu, "physical_package_id"), topology(cpu, "core_id")))
    }
}

/// Returns the last two processors that are different cores of one package, or of two packages if necessary.
fn pair(allowed: &[usize], core_of: impl Fn(usize) -> (i64, i64)) -> Option<Cores> {
    let (&server, others) = allowed.split_last()?;
    let mine = core_of(server);
    let others = || others.iter().rev().copied();
    let near = others().find(|&cpu| core_of(cpu).0 == mine.0 && core_of(cpu) != mine);
    let client = near.or_else(|| others().find(|&cpu| core_of(cpu) != mine))?;
    Some(Cores { server, client })
}

fn topology(cpu: usize, name: &str) -> i64 {
    let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
    // If the kernel does not report the topology, every processor counts as a core of one package.
    let unknown = if name == "core_id" { cpu as i64 } else { 0 };
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(unknown)
}

/// Returns the command prefix that pins a program to `core`.
pub fn pinned(core: Option<usize>, words: &[String]) -> Vec<String> {
    let before = core.map(|core| ["taskset".to_owned(), "-c".to_owned(), core.to_string()]);
    before.into_iter().flatten().chain(words.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_of_one_core_are_not_two_cores() {
        // Processors 0 and 2 are one core, 1 and 3 the other.
        let chosen = pair(&[0, 1, 2, 3], |cpu| (0, (cpu % 2) as i64));
        assert_eq!(chosen, Some(Cores { server: 3, client: 2 }));
        let siblings = pair(&[0, 1, 2, 3], |cpu| (0, (cpu / 2) as i64));
        assert_eq!(siblings, Some(Cores { server: 3, client: 1 }));
    }

    #[test]
    fn one_package_is_preferred_and_one_core_is_too_few() {
        assert_eq!(pair(&[0, 1, 2], |cpu| ((cpu % 2) as i64, cpu as i64)), Some(Cores { server: 2, client: 0 }));
        assert_eq!(pair(&[4, 9], |cpu| (cpu as i64, 0)), Some(Cores { server: 9, client: 4 }));
        assert_eq!(pair(&[5], |_| (0, 0)), None);
        assert_eq!(pair(&[5, 6], |_| (0, 0)), None);
    }

    #[test]
    fn pinning_is_three_words() {
        let words = ["qperf".to_owned()];
        assert_eq!(pinned(Some(1), &words), ["taskset", "-c", "1", "qperf"]);
        assert_eq!(pinned(None, &words), ["qperf"]);
    }
}
