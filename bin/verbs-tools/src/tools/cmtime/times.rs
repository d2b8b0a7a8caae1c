//! Start and end times of each step, per connection and overall, and their table.

use std::fmt::Write;
use std::time::Instant;

/// The steps, in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    CreateId,
    Bind,
    ResolveAddr,
    ResolveRoute,
    CreateQp,
    Connect,
    Disconnect,
    Destroy,
}

const STEPS: [(Step, &str); 8] = [
    (Step::CreateId, "create id"),
    (Step::Bind, "bind addr"),
    (Step::ResolveAddr, "resolve addr"),
    (Step::ResolveRoute, "resolve route"),
    (Step::CreateQp, "create qp"),
    (Step::Connect, "connect"),
    (Step::Disconnect, "disconnect"),
    (Step::Destroy, "destroy"),
];

/// Placeholder minimum if no connection has a time.
const NEVER_US: f32 = 999_999_999.;

/// Start and end of each step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times([(Option<Instant>, Option<Instant>); STEPS.len()]);

impl Times {
    /// Records the start of a step.
    pub fn start(&mut self, step: Step) {
        self.0[step as usize].0 = Some(Instant::now());
    }

    /// Records the end of a step.
    pub fn end(&mut self, step: Step) {
        self.0[step as usize].1 = Some(Instant::now());
    }

    /// The duration of a step in microseconds.
    fn us(&self, step: Step) -> Option<f32> {
        let (start, end) = self.0[step as usize];
        Some(end?.saturating_duration_since(start?).as_micros() as f32)
    }
}

/// The table: total, slowest, fastest and average time per step.
pub fn table(all: &Times, each: &[Times], bound: bool) -> String {
    let mut out = "step              total ms     max ms     min us  us / conn\n".to_owned();
    for (step, name) in STEPS.into_iter().filter(|(step, _)| bound || *step != Step::Bind) {
        let of_each = || each.iter().filter_map(|times| times.us(step));
        let (max, min) = (of_each().fold(0., f32::max), of_each().fold(NEVER_US, f32::min));
        let total = all.us(step).unwrap_or(0.);
        let average = total / each.len() as f32;
        let _ = writeln!(out, "{name:<13}: {:11.2}{:11.2}{min:11.2}{average:11.2}", total / 1000., max / 1000.);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_table_has_the_originals_columns() {
        let start = Instant::now();
        let times = |us| {
            let mut times = Times::default();
            times.0[Step::Connect as usize] = (Some(start), Some(start + Duration::from_micros(us)));
            times
        };
        let table = table(&times(3000), &[times(1000), times(2500)], false);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[5], "connect      :        3.00       2.50    1000.00    1500.00");
        assert!(!table.contains("bind addr"));
    }
}
