//! Expiry of a port's deadlines: retransmissions, and the end of requests and transfers.

use weft_verbs::Instant;
use weft_wire::mad::rmpp::{RmppHeader, RmppStatus};

use super::timers::TimerKey;
use super::{Peer, Port};
use crate::rmpp::set_header;

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
