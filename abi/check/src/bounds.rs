//! Bounds of registered memory: calls that take other memory away cost nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state;

static LOWEST: AtomicU64 = AtomicU64::new(u64::MAX);
static HIGHEST: AtomicU64 = AtomicU64::new(0);

/// Reads the bounds after a registration or deregistration.
pub fn regions_changed() {
    let (low, high) = state::with(|state| state.model.registered_bounds()).unwrap_or((u64::MAX, 0));
    LOWEST.store(low, Ordering::Relaxed);
    HIGHEST.store(high, Ordering::Relaxed);
}

/// Whether a region may have a byte in this range.
pub fn may_be_registered(address: u64, length: u64) -> bool {
    address < HIGHEST.load(Ordering::Relaxed) && LOWEST.load(Ordering::Relaxed) < address.saturating_add(length)
}
