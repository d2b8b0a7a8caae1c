//! CPU affinity: the processors that a thread may use, and the one that it is on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the processor that the calling thread is on; it may move at any time.
pub fn current() -> Option<usize> {
    // SAFETY: sched_getcpu takes nothing and touches no memory of ours.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// A set of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(CpuSet);

impl Processors {
    /// Returns the processors that the calling thread may use.
    ///
    /// # Errors
    /// The machine has more processors than the set can hold.
    pub fn allowed() -> io::Result<Processors> {
        Ok(Processors(sched_getaffinity(None)?))
    }

    /// Returns the set without one processor; `None` if the set lacks it, or would become empty.
    pub fn without(&self, processor: usize) -> Option<Processors> {
        if processor >= CpuSet::MAX_CPU || !self.0.is_set(processor) || self.0.count() < 2 {
            return None;
        }
        let mut rest = self.0;
        rest.unset(processor);
        Some(Processors(rest))
    }

    /// Restricts the calling thread, and the threads and processes that it starts later, to these processors.
    ///
    /// # Errors
    /// None of them is available.
    pub fn confine(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_processor_and_comes_back() {
        std::thread::spawn(|| {
            let all = Processors::allowed().unwrap();
            let here = current().unwrap();
            assert!(all.without(CpuSet::MAX_CPU).is_none());
            let Some(rest) = all.without(here) else { return };
            rest.confine().unwrap();
            assert_eq!(Processors::allowed().unwrap(), rest);
            assert!(rest.without(here).is_none());
            all.confine().unwrap();
            assert_eq!(Processors::allowed().unwrap(), all);
        })
        .join()
        .unwrap();
    }
}
