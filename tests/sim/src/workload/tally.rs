//! Counts of situations that runs met: a fault that never happens and an operation that is never tried prove nothing.

use std::collections::BTreeMap;

use weft_verbs::{AsyncEvent, Event};

use crate::world::{DEVICE, World};

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts something.
    pub fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    /// Adds another tally's counts.
    pub fn merge(&mut self, other: &Tally) {
        for (name, count) in &other.counts {
            self.add(name, *count);
        }
    }

    /// Returns how often something was met.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns all counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// Returns the counts of a world at rest.
    pub fn of(world: &World) -> Tally {
        let mut tally = Tally::default();
        let net = &world.net.stats;
        for (name, count) in [
            ("packets", net.sent),
            ("lost", net.lost),
            ("reordered", net.reordered),
            ("duplicated", net.duplicated),
            ("corrupted", net.corrupted),
        ] {
            tally.add(name, count);
        }
        if let Some(machine) = &world.machine {
            let stats = &machine.borrow().stats;
            for (name, count) in stats.frames.iter().chain(&stats.direct) {
                tally.add(name, *count);
            }
            for (name, count) in [
                ("ring_full", stats.full),
                ("direct_refused", stats.refused),
                ("direct_broke", stats.broke),
                ("fetched", stats.fetched),
                ("fetch_broke", stats.fetch_broke),
            ] {
                tally.add(name, count);
            }
        }
        for host in &world.hosts {
            for (name, count) in host.hca.counters(DEVICE).hw.values() {
                tally.add(name, count);
            }
            let drained = |e: &&Event| matches!(e, Event::Async { event: AsyncEvent::SqDrained, .. });
            tally.add("drained", host.events.iter().filter(drained).count() as u64);
        }
        tally
    }
}
