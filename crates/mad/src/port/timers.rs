//! Timers of a port's requests and transfers, and what the port does when they expire.

use std::collections::BTreeSet;

use weft_verbs::Instant;
use weft_wire::mad::rmpp::{RmppHeader, RmppStatus};

use super::{Peer, Port};
use crate::rmpp::set_header;

/// Owner of an expired deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKey {
    Request(usize),
    /// Incoming transfer by its number.
    Incoming(u32),
}

/// Deadlines in order.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, TimerKey)>);

impl Timers {
    pub fn cancel(&mut self, at: Instant, key: TimerKey) {
        self.0.remove(&(at, key));
    }

    pub fn move_to(&mut self, from: Instant, to: Instant, key: TimerKey) {
        self.0.remove(&(from, key));
        self.0.insert((to, key));
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    fn due(&mut self, now: Instant) -> Option<TimerKey> {
        let (at, key) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.remove(&(at, key));
            key
        })
    }
}

impl<P: Peer> Port<P> {
    /// Handles the deadlines up to `now`: retransmits unanswered requests, and gives up those without tries left.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(key) = self.timers.due(now) {
            match key {
                TimerKey::Request(key) => self.request_due(now, key),
                TimerKey::Incoming(number) => self.incoming_due(number),
            }
        }
    }

    fn request_due(&mut self, now: Instant, key: usize) {
        let Some(request) = self.requests.get_mut(key) else { return };
        if request.try_again() {
            self.begin(now, key);
            return;
        }
        let Some(request) = self.finish(key) else { return };
        if request.sender.as_ref().is_some_and(|sender| !sender.is_done()) {
            let mut abort = request.mad;
            set_header(&mut abort, RmppHeader::end(RmppStatus::TOO_MANY_RETRIES));
            self.transmit.push_back((request.peer.clone(), abort));
        }
        self.give_up(request);
    }

    /// Handles an expired incoming transfer: its sender is silent for too long, or it is complete and need not be
    /// remembered.
    fn incoming_due(&mut self, number: u32) {
        let Some(at) = self.incoming.iter().position(|transfer| transfer.number == number) else { return };
        let transfer = self.incoming.swap_remove(at);
        if !transfer.receiver.is_complete() {
            self.reject(&transfer.first, transfer.peer, RmppStatus::TOTAL_TIME_TOO_LONG);
        }
    }
}
