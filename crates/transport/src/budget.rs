//! Memory budget that queue pairs share. Each queue pair limits what a peer can make it keep, but a process may have
//! thousands: this limits their sum.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes left, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Creates a budget of this many bytes.
    pub fn new(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes bytes; returns false if fewer are left.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Returns bytes to the budget.
    pub fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
