//! Parallel work for engines, with results in deterministic order.

use std::sync::OnceLock;

use crate::parallel::Parallel;

/// Results of `work` for every number below `count`, in order.
pub fn map<T: Send + Sync>(parallel: &dyn Parallel, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let slots: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    parallel.each(count, &|at| {
        let _ = slots[at].set(work(at));
    });
    slots.into_iter().filter_map(OnceLock::into_inner).collect()
}
