//! Work on several processors, if whoever runs the manager has some to give: the library itself starts no threads.

/// Runs pieces of work, in whatever order, several at once or one after another.
pub trait Parallel: Sync {
    /// Calls `work` with every number below `count`, each once, and returns when all are done.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// How many pieces run at once: how finely work is worth cutting.
    fn width(&self) -> usize;
}

/// One after another.
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
