//! The loop of a replay: posts, polls, and waits.

use std::time::{Duration, Instant};

use weft_client::verbs::Qp;
use weft_replay::{Action, Outcome, Plan, Replay, Report, Speed};

use super::objects::{Objects, seen};
use crate::errln;
use crate::spin::Spin;

/// A wait longer than this sleeps.
const SLEEPS_FROM: u64 = 2_000_000;

/// A plan and the way to replay it.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its pace.
    pub speed: Speed,
    /// Longest wait for the connection, and for a completion.
    pub patience: Duration,
    /// Seed of the payload.
    pub seed: u64,
}

impl<'a> Driver<'a> {
    /// Posts the receives that the program had posted before the connection, and returns the replay.
    pub fn prepare(&self, objects: &Objects, qp: &Qp) -> Result<Replay<'a>, String> {
        let mut replay = Replay::new(self.plan, self.speed, self.patience.as_nanos() as u64);
        for step in replay.take_early() {
            let request = &self.plan.steps[step].request;
            let posted = objects.post(qp, step as u64, self.plan, request);
            posted.map_err(|e| format!("ibv_post_recv: {}", crate::errno::text(&e)))?;
        }
        Ok(replay)
    }

    /// Replays everything after the connection.
    pub fn run(&self, mut replay: Replay<'a>, objects: &Objects, qp: &Qp) -> Result<Report, String> {
        let start = Instant::now();
        let now = || start.elapsed().as_nanos() as u64;
        let mut spin = Spin::default();
        let outcome = loop {
            let at = now();
            if objects.poll(|wc| replay.on_completion(wc.wr_id(), seen(at, wc)))? > 0 {
                spin.hit();
            }
            match replay.next(now()) {
                Action::Post(step) => self.post(&mut replay, step, now(), objects, qp),
                Action::Poll { until } => wait(&mut spin, now(), until),
                Action::End(outcome) => break outcome,
            }
        };
        if outcome == Outcome::Stalled {
            errln!("weft replay: no completion for {} s", self.patience.as_secs());
        }
        Ok(Report::new(&replay, outcome))
    }

    fn post(&self, replay: &mut Replay<'a>, step: usize, now: u64, objects: &Objects, qp: &Qp) {
        match objects.post(qp, step as u64, self.plan, &self.plan.steps[step].request) {
            Ok(()) => replay.on_posted(now),
            Err(error) => {
                errln!("weft replay: request {}: {}", step + 1, crate::errno::text(&error));
                replay.on_refused();
            }
        }
    }
}

/// Lets other processes run while nothing comes: a poller must not keep the peer from answering.
fn wait(spin: &mut Spin, now: u64, until: u64) {
    if spin.empty() && until.saturating_sub(now) > SLEEPS_FROM {
        std::thread::sleep(Duration::from_micros(50));
    }
}
