//! Limits the cost of sharing. Moving a page into the arena and out again costs as much as several copies of it. This
//! pays for a region that stays, but not for one that is registered for a single transfer or hardly used. So the
//! process has a budget of bytes, which refills with time; regions beyond it stay private, and peers copy them through
//! the kernel. The budget counts bytes and not time, so that it does not depend on the machine's load.
//!
//! It is small because a small one keeps most of the gain: copies of shared memory take half to a quarter of the time
//! as long as the memory fits into the processor's caches, and hardly less beyond.

use weft_verbs::Instant;

/// The full budget. Moving this much into the arena and out again takes some 50 ms.
const BUDGET_BYTES: u64 = 32 << 20;
/// Refill rate of the budget: sharing takes at most one part in twenty of the time.
const REFILL_BYTES_PER_SECOND: u64 = 32 << 20;
/// A region takes at most the remaining budget divided by this: a large one leaves room for those that come after it.
const REGION_PART: u64 = 2;
/// Each region also costs a scan of the process's memory map, charged as this many bytes plus the process's memory
/// divided by `LOOK_PART`.
const LOOK_BYTES: u64 = 64 << 10;
const LOOK_PART: u64 = 128;
/// Memory that is shared without a copy, as it holds only zeros, costs this part of a copy.
const ZEROS_PART: u64 = 16;

/// The budget of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharingBudget {
    spent_bytes: u64,
    spent_at: Option<Instant>,
}

impl SharingBudget {
    /// Returns the most bytes that the next region may share.
    pub fn allowance_bytes(&mut self, now: Instant) -> u64 {
        self.refill(now);
        BUDGET_BYTES.saturating_sub(self.spent_bytes) / REGION_PART
    }

    /// Charges a region that shared `shared_bytes`, `copied_bytes` of them with a copy, in a process of
    /// `resident_bytes`.
    pub fn spend(&mut self, shared_bytes: u64, copied_bytes: u64, resident_bytes: u64, now: Instant) {
        self.refill(now);
        let look = LOOK_BYTES + resident_bytes / LOOK_PART;
        let zeros = shared_bytes.saturating_sub(copied_bytes) / ZEROS_PART;
        self.spent_bytes = [copied_bytes, zeros, look].into_iter().fold(self.spent_bytes, u64::saturating_add);
    }

    fn refill(&mut self, now: Instant) {
        const NS_PER_SECOND: u128 = 1_000_000_000;
        let since = self.spent_at.replace(now).map_or(0, |at| now.since(at).as_nanos());
        let refilled = since * u128::from(REFILL_BYTES_PER_SECOND) / NS_PER_SECOND;
        self.spent_bytes = self.spent_bytes.saturating_sub(u64::try_from(refilled).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const START: Instant = Instant(1 << 40);

    #[test]
    fn a_large_region_leaves_half_and_time_fills_it_up() {
        let mut budget = SharingBudget::default();
        assert_eq!(budget.allowance_bytes(START), BUDGET_BYTES / 2);
        let half = BUDGET_BYTES / 2 - LOOK_BYTES;
        budget.spend(half, half, 0, START);
        assert_eq!(budget.allowance_bytes(START), BUDGET_BYTES / 4);
        assert_eq!(budget.allowance_bytes(START + Duration::from_millis(250)), BUDGET_BYTES / 4 + (4 << 20));
        // Never more than the initial budget.
        assert_eq!(budget.allowance_bytes(START + Duration::from_secs(3600)), BUDGET_BYTES / 2);
    }

    #[test]
    fn the_budget_never_overflows_and_looks_cost_more_in_large_processes() {
        let mut budget = SharingBudget::default();
        budget.spend(0, 0, LOOK_PART << 20, START);
        assert_eq!(budget.allowance_bytes(START), (BUDGET_BYTES - LOOK_BYTES - (1 << 20)) / 2);
        budget.spend(u64::MAX, u64::MAX, u64::MAX, START);
        assert_eq!(budget.allowance_bytes(START), 0);
    }

    #[test]
    fn memory_that_is_only_checked_for_zeros_costs_little() {
        let mut budget = SharingBudget::default();
        budget.spend(ZEROS_PART << 20, 0, 0, START);
        assert_eq!(budget.allowance_bytes(START), (BUDGET_BYTES - LOOK_BYTES - (1 << 20)) / 2);
    }
}
