//! The run of a plan. The caller carries out [`Action`]s, and reports completions with the time since the connection.
//!
//! ```text
//!            connected, all steps posted            all completions
//!  Posting ──────────────────────────────▶ Draining ───────────────▶ Finished
//!     │                                       │
//!     └──── no completion for too long ───────┴──▶ Stalled
//!     └──── a post was refused ──────────────────▶ Refused
//! ```

use std::collections::VecDeque;

use crate::plan::{Expected, Plan, Queue};

/// Pace of a replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Speed {
    /// As the recorded program, times this factor.
    Times(f64),
    /// As fast as the completions come.
    Max,
}

impl Speed {
    /// Returns the time at which a request is due that was posted at a recorded time.
    fn due(self, recorded: u64) -> u64 {
        match self {
            Speed::Times(factor) => (recorded as f64 / factor) as u64,
            Speed::Max => 0,
        }
    }
}

/// The caller's next deed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Post the request of this step, with its index as wr_id.
    Post(usize),
    /// Poll until a completion comes, or this time.
    Poll {
        /// Nanoseconds since the connection.
        until: u64,
    },
    /// Nothing more.
    End(Outcome),
}

/// The end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All requests were posted, and as many completions came as recorded.
    Finished,
    /// Too few completions came.
    Stalled,
    /// The adapter refused the request of this step.
    Refused(usize),
}

/// A completion of the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Index of the step whose request completed.
    pub step: usize,
    /// The completion, with the time since the connection.
    pub completion: Expected,
}

/// A running replay.
#[derive(Debug)]
pub struct Replay<'a> {
    plan: &'a Plan,
    speed: Speed,
    /// Longest time without a completion while one is awaited.
    patience: u64,
    /// Index of the next step.
    next: usize,
    /// Times of the posts.
    posted_at: Vec<u64>,
    /// Completions of each queue.
    seen: [Vec<Seen>; 2],
    /// Time of the last progress.
    progress_at: u64,
    refused: Option<usize>,
}

impl<'a> Replay<'a> {
    /// Starts a replay; `patience` is the longest time in nanoseconds to wait for a completion.
    pub fn new(plan: &'a Plan, speed: Speed, patience: u64) -> Replay<'a> {
        let posted_at = Vec::with_capacity(plan.steps.len());
        let seen = [Vec::new(), Vec::new()];
        Replay { plan, speed, patience, next: 0, posted_at, seen, progress_at: 0, refused: None }
    }

    /// Returns the receives to post before the connection, and takes them as posted.
    pub fn take_early(&mut self) -> std::ops::Range<usize> {
        let early = self.next..self.plan.early.min(self.plan.steps.len());
        self.posted_at.resize(early.end, 0);
        self.next = early.end;
        early
    }

    /// Returns the next deed.
    pub fn next(&mut self, now: u64) -> Action {
        if let Some(step) = self.refused {
            return Action::End(Outcome::Refused(step));
        }
        let awaited = match self.plan.steps.get(self.next) {
            Some(step) => step.after,
            None => self.plan.expected.each_ref().map(Vec::len),
        };
        if Queue::ALL.iter().any(|queue| self.seen[*queue as usize].len() < awaited[*queue as usize]) {
            let until = self.progress_at.saturating_add(self.patience);
            return if now < until { Action::Poll { until } } else { Action::End(Outcome::Stalled) };
        }
        let Some(step) = self.plan.steps.get(self.next) else { return Action::End(Outcome::Finished) };
        let due = self.speed.due(step.at);
        if now < due {
            // A long pause of the recorded program is no lack of completions.
            self.progress_at = now;
            return Action::Poll { until: due };
        }
        Action::Post(self.next)
    }

    /// Takes note that the request was accepted.
    pub fn on_posted(&mut self, now: u64) {
        self.posted_at.push(now);
        self.progress_at = now;
        self.next += 1;
    }

    /// Takes note that the adapter refused the request.
    pub fn on_refused(&mut self) {
        self.refused = Some(self.next);
    }

    /// Takes a completion; its wr_id is the index of the step. One of an unknown request is ignored.
    pub fn on_completion(&mut self, wr_id: u64, completion: Expected) {
        let Some(step) = usize::try_from(wr_id).ok().filter(|step| *step < self.posted_at.len()) else { return };
        let queue = Queue::of(self.plan.steps[step].request.operation);
        self.seen[queue as usize].push(Seen { step, completion });
        self.progress_at = completion.at;
    }

    /// Returns the completions of a queue.
    pub fn seen(&self, queue: Queue) -> &[Seen] {
        &self.seen[queue as usize]
    }

    /// Returns the times of the posts, by step.
    pub fn posted_at(&self) -> &[u64] {
        &self.posted_at
    }

    /// Returns the times from post to completion of the sends in the record.
    pub(crate) fn recorded_latencies(&self) -> Vec<u64> {
        let signaled = |step: &&crate::plan::Step| {
            Queue::of(step.request.operation) == Queue::Send && self.plan.is_signaled(&step.request)
        };
        let mut posts: VecDeque<u64> = self.plan.steps.iter().filter(signaled).map(|step| step.at).collect();
        let completions = self.plan.expected[Queue::Send as usize].iter().take_while(|wc| wc.status == 0);
        completions.filter_map(|wc| Some(wc.at.saturating_sub(posts.pop_front()?))).collect()
    }

    /// Returns the times from post to completion of the sends in the replay.
    pub(crate) fn latencies(&self) -> Vec<u64> {
        let successes = self.seen(Queue::Send).iter().filter(|seen| seen.completion.status == 0);
        successes.map(|seen| seen.completion.at.saturating_sub(self.posted_at[seen.step])).collect()
    }

    pub(crate) fn plan(&self) -> &Plan {
        self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, request};
    use weft_explain::stories;
    use weft_record::Operation;

    const PATIENCE: u64 = 1000;

    /// A receive before the connection; a SEND at 10, and another 100 after both completed.
    fn plan() -> Plan {
        let script = Script::connected()
            .posted(50, request(Operation::RECEIVE, 64))
            .posted(110, request(Operation::SEND, 64))
            .completed(120, 0, 0, 0)
            .completed(130, 0x80, 0, 32)
            .posted(230, request(Operation::SEND, 8))
            .completed(240, 0, 0, 0);
        let recordings = [script.recording()];
        Plan::new(&stories(&recordings)[0], &recordings[0], None).unwrap()
    }

    fn success(at: u64) -> Expected {
        Expected { at, status: 0, opcode: 0, bytes: 0, imm: None }
    }

    #[test]
    fn a_replay_keeps_order_and_times() {
        let plan = plan();
        let mut replay = Replay::new(&plan, Speed::Times(1.0), PATIENCE);
        assert_eq!(replay.take_early(), 0..1);
        assert_eq!(replay.next(3), Action::Poll { until: 10 });
        assert_eq!(replay.next(12), Action::Post(1));
        replay.on_posted(12);
        assert_eq!(replay.next(13), Action::Poll { until: 12 + PATIENCE });
        replay.on_completion(1, success(20));
        assert_eq!(replay.next(21), Action::Poll { until: 20 + PATIENCE }, "the receive has not completed");
        replay.on_completion(0, success(25));
        assert_eq!(replay.next(26), Action::Poll { until: 130 });
        assert_eq!(replay.next(130), Action::Post(2));
        replay.on_posted(130);
        replay.on_completion(2, success(150));
        assert_eq!(replay.next(150), Action::End(Outcome::Finished));
        assert_eq!((replay.latencies(), replay.recorded_latencies()), (vec![8, 20], vec![10, 10]));
        assert_eq!(replay.posted_at(), [0, 12, 130]);
    }

    #[test]
    fn the_highest_speed_waits_for_completions_alone() {
        let plan = plan();
        let mut replay = Replay::new(&plan, Speed::Max, PATIENCE);
        replay.take_early();
        assert_eq!(replay.next(0), Action::Post(1));
        replay.on_posted(0);
        replay.on_completion(1, success(1));
        replay.on_completion(0, success(2));
        assert_eq!(replay.next(3), Action::Post(2));
        assert_eq!(Speed::Times(2.0).due(100), 50);
    }

    #[test]
    fn a_replay_ends_without_completions() {
        let plan = plan();
        let mut replay = Replay::new(&plan, Speed::Max, PATIENCE);
        replay.take_early();
        replay.on_posted(5);
        assert_eq!(replay.next(5 + PATIENCE), Action::End(Outcome::Stalled));
        replay.on_completion(77, success(6));
        assert!(replay.seen(Queue::Send).is_empty(), "of an unknown request");
        let mut replay = Replay::new(&plan, Speed::Times(0.001), PATIENCE);
        replay.take_early();
        assert_eq!(replay.next(9 * PATIENCE), Action::Poll { until: 10_000 }, "a pause is no stall");
        replay.on_refused();
        assert_eq!(replay.next(10_000), Action::End(Outcome::Refused(1)));
    }
}
