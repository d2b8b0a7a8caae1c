//! What stands under the engine's lock: the process's slice of the adapters, the links, and the room that packets and
//! events pass through. One turn of the pump receives, looks at timers, transmits.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use weft_hca::{Hca, HcaConfig, HcaUsage};
use weft_link::{NULL_MEMORY, Stack, StackConfig};
use weft_transport::TxBatch;
use weft_verbs::{Duration, Event, Instant};

use crate::busy_poll::BusyPoll;
use crate::clock;
use crate::gather::Gather;
use crate::instruments::Instruments;
use crate::looks::Looks;
use crate::memory::HostMemory;
use crate::memory_wait::MemoryWait;
use crate::trace;

/// Batches sent in one turn at most; what is left is sent in the next, after a look at what came in.
const BATCHES_MAX: usize = 4;

/// Looks at the lanes alone between two whole turns at most: some microseconds.
const BRIEF_TURNS_MAX: u32 = 64;

/// Polls in vain from one look at the clock to the next, where packets alone are awaited.
const CLOCK_PERIOD: u32 = 4;

/// What a pump is made of.
#[derive(Debug)]
pub struct PumpConfig {
    /// Slot of our queue pair numbers.
    pub slot: u32,
    /// Seed of keys and numbers.
    pub seed: [u64; 4],
    /// Whether the process has the rights of an administrator over the network.
    pub privileged: bool,
    /// The links.
    pub stack: StackConfig,
}

/// The adapters and the links of one process.
pub struct Pump {
    /// The adapters.
    pub hca: Hca<HostMemory>,
    /// The links.
    pub stack: Stack,
    batch: TxBatch,
    gather: Gather,
    looks: Looks,
    /// When threads that poll in vain yield.
    pub busy_poll: BusyPoll,
    /// Whether the program waits for WRITEs by looking at its memory.
    pub memory_wait: MemoryWait,
    /// What is counted for people to see, beside what the adapters and the links count.
    pub instruments: Instruments,
    /// When the daemon is to be told what the process holds, if that may have changed.
    report_at: Option<Instant>,
    /// Whether the links tell traffic class and hop limit.
    tells_network_header: bool,
    /// When the pump was turned last.
    turned_at: Instant,
    /// Brief turns since then.
    brief_turns: u32,
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("stack", &self.stack).finish_non_exhaustive()
    }
}

impl Pump {
    /// Put together; no device is known yet.
    pub fn new(config: PumpConfig) -> Pump {
        let hca =
            HcaConfig { slot: config.slot, seed: config.seed, privileged: config.privileged, null_memory: NULL_MEMORY };
        let mut hca = Hca::new(hca, HostMemory::default());
        hca.allow_ack_delay(true);
        Pump {
            hca,
            stack: Stack::new(config.stack),
            batch: TxBatch::default(),
            gather: Gather::default(),
            looks: Looks::default(),
            busy_poll: BusyPoll::default(),
            memory_wait: MemoryWait::default(),
            instruments: Instruments::default(),
            report_at: None,
            tells_network_header: false,
            turned_at: Instant::default(),
            brief_turns: 0,
        }
    }

    /// Receive what came; answers how many datagrams. `thorough`: look everywhere.
    pub fn receive(&mut self, now: Instant, thorough: bool) -> usize {
        let Pump { hca, stack, memory_wait, .. } = self;
        stack.receive(now, thorough, &mut |rx| {
            if trace::on() {
                trace::received(now, rx);
            }
            memory_wait.on_packet(rx);
            hca.handle_packet(now, rx);
        })
    }

    /// Do what is due.
    pub fn timers(&mut self, now: Instant) {
        let Pump { hca, stack, .. } = self;
        if stack.poll_timeout().is_some_and(|at| at <= now) {
            stack.handle_timeout(now, &mut |rx| hca.handle_packet(now, rx));
        }
        if hca.may_be_due(now) {
            hca.handle_timeout(now);
        }
    }

    /// Send what may be sent.
    #[inline]
    pub fn transmit(&mut self, now: Instant) {
        self.gather.on_transmit(now);
        if self.hca.wants_transmit() {
            self.transmit_batches(now);
        }
    }

    fn transmit_batches(&mut self, now: Instant) {
        for _ in 0..BATCHES_MAX {
            if !self.hca.wants_transmit() || self.stack.is_blocked() {
                return;
            }
            self.batch.clear();
            let more = self.hca.poll_transmit(now, &mut self.batch);
            if trace::on() {
                trace::sent(now, &self.batch);
            }
            self.stack.send(now, &self.batch);
            if !more {
                return;
            }
        }
    }

    /// Send what was posted, at once or with what will be posted next; `polling` says that somebody turns the pump soon.
    #[inline]
    pub fn transmit_posted(&mut self, now: Instant, polling: bool) {
        if !(polling && self.gather.waits(now)) {
            self.transmit(now);
        }
    }

    /// Somebody polls: what was posted and waits is sent.
    #[inline]
    pub fn end_gathering(&mut self, now: impl FnOnce() -> Instant) {
        if self.gather.end() {
            self.transmit(now());
        }
    }

    /// The time, or if that is `near` enough, the time of the last turn: to ask the clock costs as much as a small message
    /// to a process of this host. Packets need the time.
    #[inline]
    pub fn time(&self, near: bool) -> Instant {
        if near && !self.hca.awaits_packets() { self.turned_at } else { clock::now() }
    }

    /// The time of the last turn.
    #[inline]
    pub fn turned_at(&self) -> Instant {
        self.turned_at
    }

    /// A turn for somebody who polls. Who has no peers but on this host has his lanes looked at each time, and all the rest
    /// now and then. Answers how many frames and datagrams came, or nothing if the look was brief and in vain.
    #[inline]
    pub fn turn_briefly(&mut self) -> Option<usize> {
        self.brief_turns += 1;
        if !self.hca.has_lanes() {
            return Some(self.turn_for_packets());
        }
        if self.hca.awaits_packets() || self.brief_turns >= BRIEF_TURNS_MAX {
            return Some(self.turn(clock::now(), false));
        }
        let came = self.hca.handle_next_lane(self.turned_at);
        if came == 0 {
            return None;
        }
        self.instruments.arrivals += 1;
        self.transmit(self.turned_at);
        Some(came)
    }

    /// A turn for somebody who polls and has no peers on this host. To ask the clock is a good part of what a poll in vain
    /// costs beside its system call (all of it where the machine has no quick clock), so it is asked when something came,
    /// when something can be sent, and now and then.
    #[inline(never)]
    fn turn_for_packets(&mut self) -> usize {
        let read = Cell::new(None);
        let now = || {
            let at = read.get().unwrap_or_else(clock::now);
            read.set(Some(at));
            at
        };
        let Pump { hca, stack, memory_wait, .. } = self;
        let came = stack.receive_by(now, false, &mut |rx| {
            if trace::on() {
                trace::received(now(), rx);
            }
            memory_wait.on_packet(rx);
            hca.handle_packet(now(), rx);
        });
        if came > 0 || self.brief_turns >= CLOCK_PERIOD || self.hca.wants_transmit() {
            let now = now();
            (self.turned_at, self.brief_turns) = (now, 0);
            self.looks.on_look(now, came > 0);
            self.instruments.arrivals += u64::from(came > 0);
            self.timers(now);
            self.transmit(now);
        }
        came
    }

    /// A whole turn; answers how many datagrams and frames came. `thorough`: look everywhere.
    pub fn turn(&mut self, now: Instant, thorough: bool) -> usize {
        (self.turned_at, self.brief_turns) = (now, 0);
        let mut came = self.hca.handle_lanes(now);
        if came > 0 {
            self.looks.on_frames(now);
        }
        if thorough || self.looks.is_due(now) {
            let packets = self.receive(now, thorough);
            self.looks.on_look(now, packets > 0);
            came += packets;
        }
        self.instruments.arrivals += u64::from(came > 0);
        self.timers(now);
        self.transmit(now);
        came
    }

    /// What the process holds may have changed: the links learn what is needed of them now, and the daemon is told soon,
    /// once for many changes.
    #[inline]
    pub fn on_control(&mut self, now: Instant) {
        if self.hca.receives_datagrams() && !self.tells_network_header {
            self.stack.learn_network_header();
            self.tells_network_header = true;
        }
        const REPORT_DELAY: Duration = Duration::from_millis(200);
        if self.report_at.is_none() {
            self.report_at = Some(now + REPORT_DELAY);
        }
    }

    /// What the process holds, if the daemon is to be told now.
    pub fn poll_report(&mut self, now: Instant) -> Option<HcaUsage> {
        self.report_at.take_if(|at| *at <= now)?;
        Some(self.hca.usage())
    }

    /// Wake the processes that frames were left for and that sleep.
    #[inline]
    pub fn ring_doorbells(&mut self) {
        if let Some(host) = self.hca.memory().same_host.host() {
            host.ring_doorbells();
        }
    }

    /// Nobody will turn the pump before a doorbell rings; `false` if something waits already.
    pub fn fall_asleep(&mut self) -> bool {
        let nothing = self.stack.fall_asleep();
        nothing & self.hca.memory().same_host.host().is_none_or(weft_link::shm::Host::fall_asleep)
    }

    /// The pump is turned again, by whomever. A bell that nobody rings any more is handed out, to be watched no longer.
    pub fn wake_up(&mut self) -> Option<OwnedFd> {
        if let Some(host) = self.hca.memory().same_host.host() {
            host.wake_up();
        }
        self.stack.wake_up()
    }

    /// Whoever sleeps at the doorbell was woken by it.
    pub fn take_doorbell(&mut self) {
        if let Some(host) = self.hca.memory().same_host.host() {
            host.doorbell().take();
        }
    }

    /// Whoever serves goes to sleep, or elsewhere: whether nothing is left that another turn could do. Then it is said that
    /// nobody looks at the lanes.
    pub fn rests(&mut self) -> bool {
        let sends = self.hca.wants_transmit() && !self.stack.is_blocked();
        !sends && !self.stack.is_aimed() && self.fall_asleep()
    }

    /// The earliest of all deadlines, that of the ledger included.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.poll_timeout().into_iter().chain(self.instruments.poll_timeout()).min()
    }

    /// Whether there is a datagram for a process of this host that was not met.
    pub fn wants_to_meet(&mut self) -> bool {
        let neighbours = &mut self.hca.memory().same_host;
        neighbours.fabric.wants() || neighbours.host().is_some_and(|host| host.wants_to_meet())
    }

    /// Whether we left a frame for ourselves, or somebody is to be met: nobody else will tell.
    #[inline]
    fn wants_turn(&mut self) -> bool {
        let neighbours = &mut self.hca.memory().same_host;
        neighbours.fabric.wants() || neighbours.host().is_some_and(|host| host.has_own_frame() || host.wants_to_meet())
    }

    /// When the next turn is due: now if something can be sent at once, else the earliest deadline.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if (self.hca.wants_transmit() && !self.stack.is_blocked()) || self.wants_turn() {
            return Some(Instant(0));
        }
        let link = self.stack.poll_timeout();
        self.hca.poll_timeout().into_iter().chain(link).chain(self.report_at).min()
    }

    /// Move the events that wait to `out`.
    #[inline]
    pub fn take_events(&mut self, out: &mut Vec<Event>) {
        while let Some(event) = self.hca.poll_event() {
            out.push(event);
        }
    }
}
