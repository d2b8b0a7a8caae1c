//! Losses of the connection, the attempts to repair them, and the end of the initiator.

use std::time::Duration;

use super::action::{InitiatorAction, InitiatorEvent};
use super::failure::{LostReason, RequestFailure};
use super::session::{Initiator, Loss, Phase};
use super::setup::Setup;

impl Initiator {
    /// Gives the connection up, and logs in again later.
    pub(super) fn lose(&mut self, now: Duration, reason: LostReason) {
        match self.phase {
            Phase::Ended | Phase::Waiting { .. } => return,
            Phase::Draining { .. } => return self.end(LostReason::Shutdown),
            Phase::Setup { .. } if self.disks.is_none() => return self.end(reason),
            Phase::Setup { .. } | Phase::Ready => {}
        }
        self.close(now);
        let loss =
            self.loss.get_or_insert_with(|| Loss { since: now, attempts: 0, is_failing: false, reason: String::new() });
        loss.reason = reason.to_string();
        let delay = self.config.loss.delay(loss.attempts);
        self.phase = Phase::Waiting { reconnect_at: delay.map(|delay| now + delay) };
        self.actions.push_back(InitiatorAction::Log(InitiatorEvent::Lost(reason)));
    }

    /// Begins the next attempt.
    pub(super) fn log_in_again(&mut self, now: Duration) {
        if let Some(loss) = &mut self.loss {
            loss.attempts += 1;
        }
        self.setup = Setup::new();
        self.step(now);
    }

    /// Returns the times at which requests fail, and at which the initiator ends.
    pub(super) fn loss_times(&self) -> [Option<Duration>; 2] {
        let Some(loss) = &self.loss else { return [None; 2] };
        let times = &self.config.loss;
        let fails_at = times.fast_io_fail.filter(|_| !loss.is_failing);
        [fails_at, times.dev_loss].map(|time| time.map(|time| loss.since + time))
    }

    /// Fails requests, or ends the initiator, if the connection is lost for too long.
    pub(super) fn check_loss(&mut self, now: Duration) {
        let [fails, ends] = self.loss_times().map(|at| at.is_some_and(|at| at <= now));
        let Some(loss) = &mut self.loss else { return };
        if ends {
            let time = self.config.loss.dev_loss.unwrap_or_default();
            let reason = LostReason::DeviceLoss(time, std::mem::take(&mut loss.reason));
            self.end(reason);
        } else if fails {
            loss.is_failing = true;
            self.backlog.end_all(RequestFailure::NoConnection);
            self.actions.push_back(InitiatorAction::Log(InitiatorEvent::FailingFast));
        }
    }

    /// Ends the connection; commands in progress will be sent again.
    fn close(&mut self, now: Duration) {
        self.awaits_page = false;
        self.rescue = None;
        self.had_aborts = false;
        for piece in self.channel.take().into_iter().flat_map(|channel| channel.into_pieces()) {
            self.backlog.lost(now, piece);
        }
        self.actions.push_back(InitiatorAction::Close);
    }

    pub(super) fn end(&mut self, reason: LostReason) {
        if self.phase == Phase::Ended {
            return;
        }
        self.close(Duration::ZERO);
        self.phase = Phase::Ended;
        self.loss = None;
        self.backlog.end_all(RequestFailure::Ended);
        self.report();
        self.actions.push_back(InitiatorAction::Ended(reason));
    }
}
