//! Schedule of the process's ledger, and the counters that only the ledger needs.

use weft_ipc::stat::{CountersPage, ObjectsPage};
use weft_verbs::{Duration, Instant};

use crate::driver::Tally;

/// Maximum age of the ledger while there is activity: a killed process loses the counts of at most this time.
const INTERVAL: Duration = Duration::from_millis(50);

/// Pages for the ledger.
#[derive(Debug)]
pub struct LedgerUpdate {
    /// Counters.
    pub counters: CountersPage,
    /// Objects, if requested.
    pub objects: Option<ObjectsPage>,
}

/// Schedule of the ledger, and counters that only it needs.
#[derive(Debug, Default)]
pub struct Instruments {
    /// Wake-ups of the background thread.
    pub wakeups: u64,
    /// Wake-ups requested of completion channels.
    pub channel_wakeups: u64,
    /// Wake-ups of a waiting thread of the program that received something.
    pub stand_ins: u64,
    /// Turns of the pump that brought something.
    pub arrivals: u64,
    pub(crate) polls: u64,
    pub(crate) turns: u64,
    pub(crate) posts: u64,
    last: Tally,
    /// Activity at the last write to the ledger.
    written: u64,
    /// There was activity since.
    pending: bool,
    next_at: Instant,
    /// When the first post or arrival since the last write must be in the ledger. A sleeping background thread learns of it by
    /// its alarm: programs that exchange messages within the host set no other.
    write_by: Option<Instant>,
}

impl Instruments {
    /// Whether the ledger is due now.
    pub(crate) fn is_due(&mut self, now: Instant, tally: Tally, sent: u64, asked: bool) -> bool {
        self.take_in(tally);
        let happened = (self.polls + self.posts + self.arrivals).wrapping_add(sent);
        self.pending = happened != self.written;
        if !(asked || self.pending && now >= self.next_at) {
            return false;
        }
        (self.written, self.pending, self.next_at) = (happened, false, now + INTERVAL);
        self.write_by = None;
        true
    }

    /// Records a post.
    #[inline]
    pub fn on_post(&mut self, now: Instant) {
        self.write_by.get_or_insert(now + INTERVAL);
    }

    /// Records a turn of the pump, and whether it brought something.
    #[inline]
    pub fn on_turn(&mut self, now: Instant, came: bool) {
        if came {
            self.arrivals += 1;
            self.write_by.get_or_insert(now + INTERVAL);
        }
    }

    /// Returns when the ledger will be due without further activity, even if the background thread sleeps.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.then_some(self.next_at).into_iter().chain(self.write_by).min()
    }

    /// Adds up the hand-over's counters, which are narrow and wrap.
    fn take_in(&mut self, tally: Tally) {
        let since = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let (calls, polls) = (since(tally.calls, self.last.calls), since(tally.polls, self.last.polls));
        self.polls += polls;
        self.posts += calls.saturating_sub(polls);
        self.turns += since(tally.turns, self.last.turns);
        self.last = tally;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(calls: u32, polls: u32) -> Tally {
        Tally { calls, polls, turns: 0 }
    }

    #[test]
    fn the_ledger_is_written_when_something_happened_and_not_too_often() {
        let mut own = Instruments::default();
        let (mut now, mut sent) = (Instant(1_000_000_000), 0);
        assert!(!own.is_due(now, tally(0, 0), sent, false), "nothing happened");
        assert!(own.is_due(now, tally(0, 0), sent, true), "somebody asks");
        now = now + INTERVAL;
        sent += 1;
        assert!(own.is_due(now, tally(0, 0), sent, false));
        sent += 1;
        assert!(!own.is_due(now, tally(0, 0), sent, false), "written just now");
        assert_eq!(own.poll_timeout(), Some(now + INTERVAL));
        assert!(own.is_due(now + INTERVAL, tally(0, 0), sent, false));
        assert_eq!(own.poll_timeout(), None, "an idle process sleeps");
    }

    #[test]
    fn the_first_message_since_the_last_write_sets_the_time_of_the_next() {
        let mut own = Instruments::default();
        let now = Instant(1_000_000_000);
        own.on_turn(now, false);
        assert_eq!((own.poll_timeout(), own.arrivals), (None, 0));
        own.on_post(now);
        own.on_turn(now + INTERVAL / 2, true);
        assert_eq!((own.poll_timeout(), own.arrivals), (Some(now + INTERVAL), 1));
        assert!(own.is_due(now + INTERVAL, tally(1, 0), 0, false));
        assert_eq!(own.poll_timeout(), None);
    }

    #[test]
    fn counters_that_begin_anew_are_added_up() {
        let mut own = Instruments { last: tally(u32::MAX, u32::MAX - 2), ..Instruments::default() };
        own.take_in(tally(4, 1));
        assert_eq!((own.polls, own.posts), (4, 1));
    }
}
