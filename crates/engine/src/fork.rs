//! Fork detection. A child has no background thread, and the parent's sockets, slot and objects are not its own:
//! devices that the parent opened are dead there, and the child opens them anew. The fork depth of a process tells the
//! engines apart.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of forks between this process and the first that used the engine.
#[inline]
pub fn depth() -> usize {
    DEPTH.load(Ordering::Relaxed)
}

/// Starts counting forks.
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
