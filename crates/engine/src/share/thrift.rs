//! How much sharing pays. To put a page into the arena and to take it out again costs as much as some copies of it, which
//! a region that stays is worth, and one that is registered for a single transfer, or hardly used, is not. So the process
//! has a budget of bytes, which fills up again with time; what goes beyond it stays private, and peers copy it through the
//! kernel. The budget counts bytes and not time, so that it does not depend on how busy the machine is.

use weft_verbs::Instant;

/// The full budget. To share this much and to restore it takes some 50 ms.
const BUDGET_BYTES: u64 = 64 << 20;
/// How fast the budget fills up again: one part in twenty of the time, or less.
const REFILL_BYTES_PER_SECOND: u64 = 32 << 20;
/// A region takes one part in so many of what is left: a large one leaves room for those that come after it.
const REGION_PART: u64 = 2;
/// Each region costs a look at the tables of the process as well: so many bytes, and one part in so many of its memory.
const LOOK_BYTES: u64 = 64 << 10;
const LOOK_PART: u64 = 128;

/// The budget of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thrift {
    spent_bytes: u64,
    spent_at: Option<Instant>,
}

impl Thrift {
    /// The most bytes that the next region may share.
    pub fn allowance_bytes(&mut self, now: Instant) -> u64 {
        self.refill(now);
        BUDGET_BYTES.saturating_sub(self.spent_bytes) / REGION_PART
    }

    /// A region of a process with so much memory shared so many bytes.
    pub fn spend(&mut self, shared_bytes: u64, resident_bytes: u64, now: Instant) {
        self.refill(now);
        let look = LOOK_BYTES + resident_bytes / LOOK_PART;
        self.spent_bytes = self.spent_bytes.saturating_add(shared_bytes).saturating_add(look);
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
        let mut thrift = Thrift::default();
        assert_eq!(thrift.allowance_bytes(START), BUDGET_BYTES / 2);
        thrift.spend(BUDGET_BYTES / 2 - LOOK_BYTES, 0, START);
        assert_eq!(thrift.allowance_bytes(START), BUDGET_BYTES / 4);
        assert_eq!(thrift.allowance_bytes(START + Duration::from_millis(500)), BUDGET_BYTES / 4 + (8 << 20));
        // Never more than there was at first.
        assert_eq!(thrift.allowance_bytes(START + Duration::from_secs(3600)), BUDGET_BYTES / 2);
    }

    #[test]
    fn the_budget_never_overflows_and_looks_cost_more_in_large_processes() {
        let mut thrift = Thrift::default();
        thrift.spend(0, LOOK_PART << 20, START);
        assert_eq!(thrift.allowance_bytes(START), (BUDGET_BYTES - LOOK_BYTES - (1 << 20)) / 2);
        thrift.spend(u64::MAX, u64::MAX, START);
        assert_eq!(thrift.allowance_bytes(START), 0);
    }
}
