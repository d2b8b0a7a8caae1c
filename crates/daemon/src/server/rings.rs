//! The rings of ports that programs have open. A program calls the daemon over its socket once; then the daemon polls
//! the ring between its other work, until nothing has arrived for a while. It polls for longer than a moment only if
//! requests are so frequent that sleeping would cost more than it saves: a program that sends rarely, or not at all,
//! costs no processor time. It also stops if other processes want the processor, since it would use up the scheduler
//! time that it needs for the next request. The program itself is the first of them, so the daemon avoids its processor
//! while it polls (`placement.rs`).

use std::time::{Duration, Instant};

use weft_shm::Next;

use super::Server;
use super::polled_rings::Unread;

/// Requests taken from one ring before the others get a turn.
const REQUESTS_PER_TURN: usize = 64;

/// How long the daemon polls rings before everything else gets a turn.
const TURN: Duration = Duration::from_micros(50);

/// How long answers stay in a ring whose program neither takes any nor sends more requests; then they take the socket.
const UNSEEN_AFTER: Duration = Duration::from_micros(10);

impl Server {
    /// Polls a ring from now on, after its program called.
    pub(super) fn attend_ring(&mut self, now: Instant, handle: u32) {
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        ring.attend();
        if self.rings.attended.contains(&handle) {
            return;
        }
        if self.rings.attended.is_empty() {
            self.rings.busy_poll.on_gap(now.saturating_duration_since(self.rings.slept));
            self.rings.last = now;
        }
        self.rings.attended.push(handle);
    }

    /// Polls the rings for one turn. Returns true to continue after the others' turn, false if it stopped polling all
    /// of them.
    pub(super) fn serve_rings(&mut self) -> bool {
        if self.rings.attended.is_empty() && self.rings.unread.is_empty() {
            self.rings.placement.go_anywhere();
            return false;
        }
        let begin = Instant::now();
        self.keep_off_programs(begin);
        let mut before = begin;
        loop {
            let now = Instant::now();
            self.rings.on_away(before, now);
            let worked = self.take_requests(now) > 0;
            // The daemon's own work took this time, not another process, and the answers are that much younger.
            let now = if worked { Instant::now() } else { now };
            if worked {
                self.rings.last = now;
            }
            let sent = self.leave_unseen_for_long(now);
            before = if sent { Instant::now() } else { now };
            let next = self.rings.next(now);
            if next == Next::Sleep {
                return self.leave_rings(now);
            }
            if now.saturating_duration_since(begin) >= TURN {
                return true;
            }
            match next {
                Next::Yield => std::thread::yield_now(),
                _ if worked => {}
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// If requests are frequent, moves the daemon off the processor of the first program that it polls.
    fn keep_off_programs(&mut self, now: Instant) {
        let Some(&handle) = self.rings.attended.first() else { return };
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        match self.rings.busy_poll.is_worthwhile(now) {
            true => self.rings.placement.keep_off(now, ring.processor()),
            false => self.rings.placement.go_anywhere(),
        }
        for &handle in &self.rings.attended {
            if let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) {
                ring.note_processor();
            }
        }
    }

    /// Takes requests out of all rings and delivers the results; returns how many there were.
    fn take_requests(&mut self, now: Instant) -> usize {
        let mut taken = 0;
        for index in 0..self.rings.attended.len() {
            if let Some(&handle) = self.rings.attended.get(index) {
                taken += self.broker.handle_umad_ring(now, handle, REQUESTS_PER_TURN);
            }
        }
        while let Some(handle) = self.broker.umad().poll_ready() {
            self.flush_umad(now, handle);
        }
        taken
    }

    /// Notes that a port's ring may hold answers: they take the socket if the program does not take them.
    pub(super) fn note_answers(&mut self, handle: u32) {
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        if ring.has_answers() && !self.rings.unread.iter().any(|unread| unread.handle == handle) {
            let (activity, since) = (ring.activity(), Instant::now());
            self.rings.unread.push(Unread { handle, activity, since });
        }
    }

    /// Sends answers that programs have left in their rings over the socket; returns whether there were any.
    fn leave_unseen_for_long(&mut self, now: Instant) -> bool {
        let (mut index, mut some) = (0, false);
        while let Some(&Unread { handle, activity, since }) = self.rings.unread.get(index) {
            let ring = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring());
            let Some(ring) = ring.filter(|ring| ring.has_answers()) else {
                self.rings.unread.swap_remove(index);
                continue;
            };
            if ring.activity() != activity {
                let activity = ring.activity();
                self.rings.unread[index] = Unread { handle, activity, since: now };
            } else if now.saturating_duration_since(since) >= UNSEEN_AFTER {
                self.rings.unread[index].since = now;
                self.leave_unseen(now, handle);
                some = true;
            }
            index += 1;
        }
        some
    }

    /// Sends the answers in a ring over the socket, unless its program polls it.
    fn leave_unseen(&mut self, now: Instant, handle: u32) {
        if self.broker.umad().outbox(handle).is_some_and(|outbox| outbox.leave_unseen()) {
            self.flush_umad(now, handle);
        }
    }

    /// Stops polling the rings: a program that sends, or that stops polling and finds answers, has to call from now on.
    /// Returns true if requests arrived meanwhile.
    fn leave_rings(&mut self, now: Instant) -> bool {
        let mut stay = Vec::new();
        for handle in std::mem::take(&mut self.rings.attended) {
            let Some(outbox) = self.broker.umad().outbox(handle) else { continue };
            let asleep = outbox.ring().is_none_or(|ring| ring.sleep());
            // A program that does not read its answers gets attention once it has read them.
            if !asleep && !outbox.is_crowded() {
                stay.push(handle);
            }
            self.leave_unseen(now, handle);
        }
        for Unread { handle, .. } in std::mem::take(&mut self.rings.unread) {
            self.leave_unseen(now, handle);
        }
        if !stay.is_empty() {
            stay.into_iter().for_each(|handle| self.attend_ring(now, handle));
            return true;
        }
        self.rings.slept = now;
        false
    }
}
