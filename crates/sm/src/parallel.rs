//! Work on several processors, if the caller provides them: the library itself starts no threads.

/// Runs pieces of work in any order, several at once or one after another.
pub trait Parallel: Sync {
    /// Calls `work` with every number below `count`, each once, and returns when all are done.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// Returns how many pieces run at once, so that callers know how finely to split the work.
    fn width(&self) -> usize;
}

/// Runs the pieces one after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Parallel for Sequential {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    fn width(&self) -> usize {
        1
    }
}
