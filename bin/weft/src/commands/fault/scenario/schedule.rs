//! When a scenario's steps happen. Times count from its begin.

use std::collections::BTreeSet;

use weft_verbs::Duration;

use super::file::{Action, Step, Trigger};

/// Time between two looks at the strikes of a fault, if a step waits for its first one.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// A step, by its place.
    Step(usize),
    /// The end of the fault of a step.
    End(usize),
}

/// Progress of a scenario.
#[derive(Debug)]
pub(super) struct Schedule<'a> {
    steps: &'a [Step],
    /// When each step happened.
    done: Vec<Option<Duration>>,
    /// When each step's fault was seen to have struck.
    struck: Vec<Option<Duration>>,
    /// When the event came that each step waits for.
    seen: Vec<Option<Duration>>,
    ends: BTreeSet<(Duration, usize)>,
}

impl<'a> Schedule<'a> {
    pub fn new(steps: &'a [Step]) -> Schedule<'a> {
        let never = vec![None; steps.len()];
        Schedule { steps, done: never.clone(), struck: never.clone(), seen: never, ends: BTreeSet::new() }
    }

    /// Returns when a step is due, as far as that is known.
    fn time_of(&self, place: usize) -> Option<Duration> {
        let step = self.steps.get(place)?;
        let from = match &step.trigger {
            Trigger::Begin => Some(Duration::ZERO),
            Trigger::Step(other) => *self.done.get(*other)?,
            Trigger::Strike(other) => *self.struck.get(*other)?,
            Trigger::Seen(_) => *self.seen.get(place)?,
        };
        Some(from? + step.delay)
    }

    fn waiting(&self) -> impl Iterator<Item = usize> {
        (0..self.steps.len()).filter(|place| self.done.get(*place).is_some_and(Option::is_none))
    }

    /// Returns the steps whose first strike others wait for.
    pub fn watched(&self) -> Vec<usize> {
        let watched = self.waiting().filter_map(|place| match self.steps.get(place)?.trigger {
            Trigger::Strike(other) => self.struck.get(other)?.is_none().then_some(other),
            _ => None,
        });
        watched.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Notes that a step's fault has struck.
    pub fn on_strike(&mut self, place: usize, now: Duration) {
        if let Some(struck) = self.struck.get_mut(place) {
            struck.get_or_insert(now);
        }
    }

    /// Notes that the event has come that a step waits for.
    pub fn on_seen(&mut self, place: usize, now: Duration) {
        if let Some(seen) = self.seen.get_mut(place) {
            seen.get_or_insert(now);
        }
    }

    /// Takes the next thing that is due by `now`, oldest first.
    pub fn take(&mut self, now: Duration) -> Option<Due> {
        let step = self.waiting().filter_map(|place| Some((self.time_of(place)?, place))).min();
        let end = self.ends.first().copied();
        let is_end = end.is_some_and(|(at, _)| step.is_none_or(|(due, _)| at <= due));
        let (at, place) = if is_end { end? } else { step? };
        if at > now {
            return None;
        }
        if is_end {
            self.ends.pop_first();
            return Some(Due::End(place));
        }
        if let Some(done) = self.done.get_mut(place) {
            *done = Some(now);
        }
        if let Some(Action::Add { lasting: Some(lasting), .. }) = self.steps.get(place).map(|step| &step.action) {
            self.ends.insert((now + *lasting, place));
        }
        Some(Due::Step(place))
    }

    /// Returns when to look again; `None` once nothing is left but steps that wait for events.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let steps = self.waiting().filter_map(|place| self.time_of(place));
        let ends = self.ends.first().map(|(at, _)| *at);
        let look = (!self.watched().is_empty()).then_some(now + LOOK_INTERVAL);
        steps.chain(ends).chain(look).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn parse(text: &str) -> Result<Vec<Step>, String> {
        file::parse(text, &Default::default()).map(|scenario| scenario.steps)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn take_all(schedule: &mut Schedule<'_>, now: u64) -> Vec<Due> {
        std::iter::from_fn(|| schedule.take(seconds(now))).collect()
    }

    #[test]
    fn steps_happen_in_their_order_and_faults_end() {
        let steps = parse(
            "[[step]]\nname = \"b\"\nat = \"3s\"\nfault = \"loss=1%\"\nfor = \"2s\"\n[[step]]\nat = \"1s\"\noff = \"n\"\n\
             [[step]]\nafter = \"b\"\nat = \"2s\"\non = \"n\"",
        )
        .unwrap();
        let mut schedule = Schedule::new(&steps);
        assert_eq!(schedule.poll_timeout(Duration::ZERO), Some(seconds(1)));
        assert_eq!(take_all(&mut schedule, 0), []);
        assert_eq!(take_all(&mut schedule, 3), [Due::Step(1), Due::Step(0)]);
        assert_eq!(schedule.poll_timeout(seconds(3)), Some(seconds(5)));
        assert_eq!(take_all(&mut schedule, 5), [Due::End(0), Due::Step(2)]);
        assert_eq!(schedule.poll_timeout(seconds(5)), None);
    }

    #[test]
    fn a_step_waits_for_an_event_and_its_time_counts_from_there() {
        let steps = parse(
            "[[step]]\nname = \"a\"\nseen = \"to=Rts\"\nat = \"2s\"\nfault = \"loss=1%\"\n[[step]]\nafter = \"a\"\non = \"n\"",
        )
        .unwrap();
        let mut schedule = Schedule::new(&steps);
        assert_eq!(schedule.poll_timeout(seconds(9)), None);
        assert_eq!(take_all(&mut schedule, 9), []);
        schedule.on_seen(0, seconds(10));
        schedule.on_seen(0, seconds(11));
        assert_eq!(schedule.poll_timeout(seconds(11)), Some(seconds(12)));
        assert_eq!(take_all(&mut schedule, 11), []);
        assert_eq!(take_all(&mut schedule, 12), [Due::Step(0), Due::Step(1)]);
        assert_eq!(schedule.poll_timeout(seconds(12)), None);
    }

    #[test]
    fn a_step_waits_for_a_strike() {
        let steps =
            parse("[[step]]\nname = \"a\"\nfault = \"loss=1%\"\n[[step]]\nstruck = \"a\"\nat = \"1s\"\nremove = \"a\"")
                .unwrap();
        let mut schedule = Schedule::new(&steps);
        assert_eq!(take_all(&mut schedule, 0), [Due::Step(0)]);
        assert_eq!(schedule.watched(), [0]);
        assert_eq!(schedule.poll_timeout(seconds(9)), Some(seconds(9) + LOOK_INTERVAL));
        assert_eq!(take_all(&mut schedule, 9), []);
        schedule.on_strike(0, seconds(10));
        schedule.on_strike(0, seconds(11));
        assert!(schedule.watched().is_empty());
        assert_eq!(take_all(&mut schedule, 10), []);
        assert_eq!(take_all(&mut schedule, 11), [Due::Step(1)]);
        assert_eq!(schedule.poll_timeout(seconds(11)), None);
    }
}
