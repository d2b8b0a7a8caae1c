//! Memory that queue pairs share. Each of them has a bound of its own on what a peer can make it keep, but a process may
//! have thousands: what they keep together is bounded by this.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are left, seen alike by everybody who has a clone.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// So many bytes.
    pub fn new(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Take some; false if there are not so many.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Give some back.
    pub fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is left.
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
