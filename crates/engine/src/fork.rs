//! Forks. A child has no background thread, and the parent's sockets, slot and objects are not its own: what the parent
//! opened is dead there, and the child opens anew. How deep in forks a process is tells the engines apart.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Forks between this process and the first that used the engine.
#[inline]
pub fn depth() -> usize {
    DEPTH.load(Ordering::Relaxed)
}

/// From now on forks are noticed.
pub fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        if let Err(error) = weft_sys::fork::at_fork_in_child(in_child) {
            crate::log::note(&format!("forks will not be noticed: {error}"));
        }
    });
}

/// Runs in the child: atomics only.
fn in_child() {
    DEPTH.fetch_add(1, Ordering::Relaxed);
    crate::trace::stop();
}
