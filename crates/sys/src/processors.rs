//! Which processors a thread may run on, and on which it does.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processor that the calling thread runs on; a moment later it may be another.
pub fn current() -> Option<usize> {
    // SAFETY: sched_getcpu takes nothing and touches no memory of ours.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// A set of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(CpuSet);

impl Processors {
    /// Those that the calling thread may run on.
    ///
    /// # Errors
    /// The machine has more of them than can be told.
    pub fn allowed() -> io::Result<Processors> {
        Ok(Processors(sched_getaffinity(None)?))
    }

    /// The same without one; `None` if it was not among them, or nothing is left.
    pub fn without(&self, processor: usize) -> Option<Processors> {
        if processor >= CpuSet::MAX_CPU || !self.0.is_set(processor) || self.0.count() < 2 {
            return None;
        }
        let mut rest = self.0;
        rest.unset(processor);
        Some(Processors(rest))
    }

    /// From now on the calling thread, and what it starts, runs on these only.
    ///
    /// # Errors
    /// None of them is to be had.
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
