//! The rings of ports that programs have open. A program calls the daemon by its socket once; from then on the daemon
//! looks into the ring by itself, between its other work, until nothing has come for a while. It looks on for longer than
//! a moment only where requests come so densely that sleep would cost more than it saves: who asks now and then, or not at
//! all, costs no processor time. And it does not where others want the processor: the daemon would use up the time that it
//! needs when there is a request.

use std::time::{Duration, Instant};

use super::Server;

/// Requests taken from one ring before the others get a turn.
const REQUESTS_PER_TURN: usize = 64;

/// How long rings are looked into before everything else gets a turn.
const TURN: Duration = Duration::from_micros(50);

/// How long the daemon looks on after the last request, where they come densely.
const PATIENCE: Duration = Duration::from_micros(50);

/// Who is called after no more sleep than this was called too soon: requests come densely.
const DENSE: Duration = Duration::from_micros(150);

/// After so much of its patience the daemon lets others run on its processor: the program that it serves may be one of them.
const POLITE_AFTER: Duration = Duration::from_micros(1);

/// So long between two looks somebody else had the processor.
const TAKEN: Duration = Duration::from_micros(100);

/// For so long it is left to the others then.
const MODEST: Duration = Duration::from_millis(20);

/// How long answers lie in a ring before a program that does not sleep is rung.
const RING_AFTER: Duration = Duration::from_micros(4);

/// Rings that are looked into.
#[derive(Debug)]
pub(super) struct Rings {
    /// By their ports' handles.
    attended: Vec<u32>,
    /// Where answers lie, and since when nobody was rung for them.
    unread: Vec<(u32, Instant)>,
    /// When there was a request last.
    last: Instant,
    /// When the last ring was left to itself.
    slept: Instant,
    dense: bool,
    /// Until when the processor is left to others.
    modest_until: Instant,
    /// There is another processor on which programs run meanwhile.
    may_spin: bool,
}

impl Rings {
    pub(super) fn new(now: Instant) -> Rings {
        let may_spin = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Rings {
            attended: Vec::new(),
            unread: Vec::new(),
            last: now,
            slept: now,
            dense: false,
            modest_until: now,
            may_spin,
        }
    }

    /// Whether answers lie somewhere that perhaps nobody was rung for.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    fn patience(&self, now: Instant) -> Duration {
        if self.dense && self.may_spin && now >= self.modest_until { PATIENCE } else { Duration::ZERO }
    }
}

impl Server {
    /// A program called: look into its ring from now on.
    pub(super) fn attend_ring(&mut self, now: Instant, handle: u32) {
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        ring.attend();
        if self.rings.attended.contains(&handle) {
            return;
        }
        if self.rings.attended.is_empty() {
            self.rings.dense = now.saturating_duration_since(self.rings.slept) < DENSE;
            self.rings.last = now;
        }
        self.rings.attended.push(handle);
    }

    /// Looks into the rings for a turn. True: go on after the others' turn; false: all were left to themselves.
    pub(super) fn serve_rings(&mut self) -> bool {
        if self.rings.attended.is_empty() && self.rings.unread.is_empty() {
            return false;
        }
        let begin = Instant::now();
        let mut before = begin;
        loop {
            let now = Instant::now();
            if now.saturating_duration_since(before) >= TAKEN {
                self.rings.modest_until = now + MODEST;
            }
            before = now;
            if self.take_requests(now) > 0 {
                self.rings.last = now;
            }
            self.ring_bells(now);
            let (quiet, patience) = (now.saturating_duration_since(self.rings.last), self.rings.patience(now));
            if quiet > patience || patience.is_zero() {
                return self.leave_rings(now);
            }
            if now.saturating_duration_since(begin) >= TURN {
                return true;
            }
            match quiet {
                Duration::ZERO => {}
                _ if quiet < POLITE_AFTER => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Takes requests out of all rings, and hands out what came of them: how many there were.
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

    /// Something lies in the ring of this port, perhaps: its program is rung now if it sleeps, later if it does not come.
    pub(super) fn note_answers(&mut self, now: Instant, handle: u32) {
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        if ring.take_sleeper() {
            self.ring(handle);
        } else if !ring.is_taken() && !self.rings.unread.iter().any(|(other, _)| *other == handle) {
            self.rings.unread.push((handle, now));
        }
    }

    /// Rings the program of a port.
    pub(super) fn ring(&mut self, handle: u32) {
        let Some(socket) = self.host.umad.get(handle) else { return };
        if let Some(outbox) = self.broker.umad().outbox(handle) {
            outbox.ring_bell(&socket.fd);
        }
    }

    /// Rings for what has lain there for long. A program may take the bell away and leave an answer, so it is looked after
    /// until it has taken all.
    fn ring_bells(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(&(handle, since)) = self.rings.unread.get(index) {
            if self.has_taken_all(handle) {
                self.rings.unread.swap_remove(index);
                continue;
            }
            if now.saturating_duration_since(since) >= RING_AFTER {
                self.ring_once(handle);
                self.rings.unread[index].1 = now;
            }
            index += 1;
        }
    }

    fn has_taken_all(&mut self, handle: u32) -> bool {
        let ring = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring());
        ring.is_none_or(|ring| ring.is_taken())
    }

    /// Rings a program that has answers to take, unless it was rung already.
    fn ring_once(&mut self, handle: u32) {
        let ring = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring());
        if ring.is_some_and(|ring| ring.take_unrung()) {
            self.ring(handle);
        }
    }

    /// Leaves rings to themselves: who sends has to call from now on, and who has answers there is rung. True: there were
    /// requests after all.
    fn leave_rings(&mut self, now: Instant) -> bool {
        let mut stay = Vec::new();
        for handle in std::mem::take(&mut self.rings.attended) {
            let Some(outbox) = self.broker.umad().outbox(handle) else { continue };
            let asleep = outbox.ring().is_none_or(|ring| ring.sleep());
            // Who does not read its answers is looked after when it has.
            if !asleep && !outbox.is_crowded() {
                stay.push(handle);
            }
            self.ring_once(handle);
        }
        for (handle, _) in std::mem::take(&mut self.rings.unread) {
            self.ring_once(handle);
        }
        if !stay.is_empty() {
            stay.into_iter().for_each(|handle| self.attend_ring(now, handle));
            return true;
        }
        if self.rings.dense && now.saturating_duration_since(self.rings.last) > PATIENCE {
            self.rings.dense = false;
        }
        self.rings.slept = now;
        false
    }
}
