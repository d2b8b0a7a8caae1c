//! The rings of ports that programs have open. A program calls the daemon by its socket once; from then on the daemon
//! looks into the ring by itself, between its other work, until nothing has come for a while. It looks on for longer than
//! a moment only where requests come so densely that sleep would cost more than it saves: who asks now and then, or not at
//! all, costs no processor time. And it does not where others want the processor: the daemon would use up the time that it
//! needs when there is a request. The program itself is the first of them, so the daemon keeps off its processor while it
//! looks ([`Placement`]).

use std::time::{Duration, Instant};

use super::Server;
use super::placement::Placement;

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

/// How long answers lie in a ring whose program neither takes some nor asks more, before they go by the socket.
const UNSEEN_AFTER: Duration = Duration::from_micros(10);

/// Rings that are looked into.
#[derive(Debug)]
pub(super) struct Rings {
    /// By their ports' handles.
    attended: Vec<u32>,
    /// Where answers lie.
    unread: Vec<Unread>,
    /// When there was a request last.
    last: Instant,
    /// When the last ring was left to itself.
    slept: Instant,
    dense: bool,
    /// Until when the processor is left to others.
    modest_until: Instant,
    placement: Placement,
}

/// A ring with answers.
#[derive(Debug)]
struct Unread {
    handle: u32,
    /// What its program had done,
    activity: u64,
    /// and since when it does nothing more.
    since: Instant,
}

impl Rings {
    pub(super) fn new(now: Instant) -> Rings {
        Rings {
            attended: Vec::new(),
            unread: Vec::new(),
            last: now,
            slept: now,
            dense: false,
            modest_until: now,
            placement: Placement::default(),
        }
    }

    /// Whether answers lie somewhere.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The daemon runs wherever it may.
    pub(super) fn go_anywhere(&mut self) {
        self.placement.go_anywhere();
    }

    fn patience(&self, now: Instant) -> Duration {
        let looks = self.dense && now >= self.modest_until && self.placement.is_apart();
        if looks { PATIENCE } else { Duration::ZERO }
    }

    /// Somebody else had the processor between two looks.
    fn be_modest(&mut self, now: Instant) {
        self.modest_until = now + MODEST;
        self.placement.on_disturbed(now);
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
            self.rings.placement.go_anywhere();
            return false;
        }
        let begin = Instant::now();
        self.keep_off_programs(begin);
        let mut before = begin;
        loop {
            let now = Instant::now();
            if now.saturating_duration_since(before) >= TAKEN {
                self.rings.be_modest(now);
            }
            let worked = self.take_requests(now) > 0;
            // What the work itself took nobody else had, and no answer has lain there for so long.
            let now = if worked { Instant::now() } else { now };
            if worked {
                self.rings.last = now;
            }
            let sent = self.leave_unseen_for_long(now);
            before = if sent { Instant::now() } else { now };
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

    /// Where programs ask densely the daemon runs elsewhere than the one that it looks at first.
    fn keep_off_programs(&mut self, now: Instant) {
        let Some(&handle) = self.rings.attended.first() else { return };
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        match self.rings.dense && now >= self.rings.modest_until {
            true => self.rings.placement.keep_off(now, ring.processor()),
            false => self.rings.placement.go_anywhere(),
        }
        for &handle in &self.rings.attended {
            if let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) {
                ring.note_processor();
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

    /// Something lies in the ring of this port, perhaps: it goes by the socket if the program does not come for it.
    pub(super) fn note_answers(&mut self, handle: u32) {
        let Some(ring) = self.broker.umad().outbox(handle).and_then(|outbox| outbox.ring()) else { return };
        if ring.has_answers() && !self.rings.unread.iter().any(|unread| unread.handle == handle) {
            let (activity, since) = (ring.activity(), Instant::now());
            self.rings.unread.push(Unread { handle, activity, since });
        }
    }

    /// Sends by the socket what programs do not come for; whether there was something.
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

    /// What lies in a ring that its program does not look at goes by the socket.
    fn leave_unseen(&mut self, now: Instant, handle: u32) {
        if self.broker.umad().outbox(handle).is_some_and(|outbox| outbox.leave_unseen()) {
            self.flush_umad(now, handle);
        }
    }

    /// Leaves rings to themselves: who sends has to call from now on, and so has who stops looking and finds answers. True:
    /// there were requests after all.
    fn leave_rings(&mut self, now: Instant) -> bool {
        let mut stay = Vec::new();
        for handle in std::mem::take(&mut self.rings.attended) {
            let Some(outbox) = self.broker.umad().outbox(handle) else { continue };
            let asleep = outbox.ring().is_none_or(|ring| ring.sleep());
            // Who does not read its answers is looked after when it has.
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
        if self.rings.dense && now.saturating_duration_since(self.rings.last) > PATIENCE {
            self.rings.dense = false;
        }
        self.rings.slept = now;
        false
    }
}
