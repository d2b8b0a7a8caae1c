//! Load of every cable: rates from two readings of its ports' counters.

use weft_fabric::topology::CableTraffic;

/// Smallest time between two readings that gives a rate, in milliseconds.
const STEP_MS_MIN: u64 = 50;

/// Load of a cable.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Bytes per second that each end sends.
    pub bytes: [f64; 2],
    /// Packets per second that each end sends.
    pub packets: [f64; 2],
    /// Errors per second at both ends.
    pub errors: f64,
    /// Errors so far at both ends.
    pub errors_total: u64,
    /// Times that the link went down so far.
    pub downed_total: u64,
}

/// Loads of all cables, by index.
#[derive(Debug, Default)]
pub struct Loads {
    at_ms: Option<u64>,
    counters: Vec<Option<CableTraffic>>,
    loads: Vec<Load>,
}

impl Loads {
    /// Takes counters of a fabric with this many cables. Returns the loads that changed, and where errors began.
    pub fn count(&mut self, at_ms: u64, traffic: &[CableTraffic], cables: usize) -> (Vec<(u32, Load)>, Vec<u32>) {
        let passed_ms = self.at_ms.map(|before| at_ms.saturating_sub(before));
        if passed_ms.is_some_and(|ms| ms < STEP_MS_MIN) {
            return Default::default();
        }
        self.at_ms = Some(at_ms);
        let mut counters = vec![None; cables];
        for row in traffic {
            if let Some(slot) = counters.get_mut(row.cable as usize) {
                *slot = Some(*row);
            }
        }
        self.loads.resize(cables, Load::default());
        self.counters.resize(cables, None);
        let (mut changed, mut began) = (Vec::new(), Vec::new());
        for (at, now) in (0u32..).zip(&counters) {
            let place = at as usize;
            let load = now.map_or(Load::default(), |now| load(self.counters[place].as_ref(), &now, passed_ms));
            let before = std::mem::replace(&mut self.loads[place], load);
            if load.errors > 0.0 && before.errors == 0.0 {
                began.push(at);
            }
            if load != before {
                changed.push((at, load));
            }
        }
        self.counters = counters;
        (changed, began)
    }

    /// Returns the sums of bytes, packets and errors per second.
    pub fn total(&self) -> (f64, f64, f64) {
        let add = |sum: (f64, f64, f64), load: &Load| {
            (sum.0 + load.bytes[0] + load.bytes[1], sum.1 + load.packets[0] + load.packets[1], sum.2 + load.errors)
        };
        self.loads.iter().fold((0.0, 0.0, 0.0), add)
    }

    /// Returns the loads that are not zero.
    pub fn all(&self) -> impl Iterator<Item = (u32, Load)> + '_ {
        (0u32..).zip(self.loads.iter().copied()).filter(|(_, load)| *load != Load::default())
    }
}

fn load(before: Option<&CableTraffic>, now: &CableTraffic, passed_ms: Option<u64>) -> Load {
    let totals = Load {
        errors_total: now.errors[0].saturating_add(now.errors[1]),
        downed_total: now.downed[0].max(now.downed[1]),
        ..Load::default()
    };
    let (Some(before), Some(ms)) = (before, passed_ms) else { return totals };
    let seconds = ms as f64 / 1000.0;
    // A counter that fell was cleared with its node's power.
    let rate = |now: u64, before: u64| now.checked_sub(before).map_or(0.0, |more| more as f64 / seconds);
    let both = |now: [u64; 2], before: [u64; 2]| [rate(now[0], before[0]), rate(now[1], before[1])];
    let errors = both(now.errors, before.errors);
    Load {
        bytes: both(now.bytes, before.bytes),
        packets: both(now.packets, before.packets),
        errors: errors[0] + errors[1],
        ..totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cable: u32, bytes: u64, errors: u64) -> CableTraffic {
        CableTraffic { cable, bytes: [bytes, 0], errors: [errors, 0], ..CableTraffic::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let mut loads = Loads::default();
        let (changed, began) = loads.count(1000, &[row(0, 500, 0), row(2, 0, 7)], 3);
        assert_eq!(changed.len(), 1, "errors of the past are a total, not a rate: {changed:?}");
        assert!(began.is_empty() && loads.total() == (0.0, 0.0, 0.0));
        let (changed, began) = loads.count(3000, &[row(0, 2500, 0), row(2, 0, 17)], 3);
        assert_eq!(changed[0].1.bytes, [1000.0, 0.0]);
        assert_eq!((began, loads.total()), (vec![2], (1000.0, 0.0, 5.0)));
        let (_, began) = loads.count(4000, &[row(0, 2500, 0), row(2, 0, 27)], 3);
        assert!(began.is_empty(), "they go on");
        // The cable is cut, the node loses power: no rate, and none below zero.
        let (changed, _) = loads.count(5000, &[row(2, 0, 1)], 3);
        assert!(changed.iter().all(|(_, load)| load.errors == 0.0 && load.bytes == [0.0; 2]), "{changed:?}");
        assert_eq!(loads.all().count(), 1);
    }

    #[test]
    fn readings_too_close_or_of_no_cable_change_nothing() {
        let mut loads = Loads::default();
        loads.count(1000, &[row(0, 0, 0)], 1);
        assert_eq!(loads.count(1010, &[row(0, 9999, 0)], 1), Default::default());
        assert!(loads.count(2000, &[row(7, 9999, 0)], 1).0.is_empty());
    }
}
