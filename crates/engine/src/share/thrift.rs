//! Whether sharing pays. To put a page into the arena and to take it out again costs as much as some copies of it, which
//! a region that stays is worth, and one that is registered for a single transfer is not. So what sharing costs may be a
//! small part of the process's time; when it gets more, new regions are left private for a while, and copied across by
//! the kernel.

use std::time::Duration;

use weft_verbs::Instant;

/// What may be spent at once: some gibibytes.
const CREDIT: Duration = Duration::from_secs(5);
/// What may be spent in the long run: one part in so many of the time.
const SHARE: u32 = 20;

/// What was spent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thrift {
    spent: Duration,
    since: Option<Instant>,
}

impl Thrift {
    /// Something took this long, until now.
    pub fn spend(&mut self, took: Duration, now: Instant) {
        self.since.get_or_insert(now);
        self.spent = self.spent.saturating_add(took);
    }

    /// Whether more may be spent.
    pub fn allows(&self, now: Instant) -> bool {
        let Some(since) = self.since else { return true };
        self.spent <= CREDIT.saturating_add(now.since(since) / SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_first_and_a_part_of_the_time_in_the_long_run() {
        let start = Instant(1 << 40);
        let mut thrift = Thrift::default();
        assert!(thrift.allows(start));
        thrift.spend(CREDIT, start);
        assert!(thrift.allows(start));
        thrift.spend(Duration::from_secs(1), start);
        assert!(!thrift.allows(start));
        assert!(!thrift.allows(start + Duration::from_secs(19)));
        assert!(thrift.allows(start + Duration::from_secs(20)));
    }
}
