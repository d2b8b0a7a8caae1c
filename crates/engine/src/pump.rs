//! The state under the engine's lock: the process's slice of the adapters, the links, and the buffers that packets and
//! events pass through. One turn of the pump receives, runs timers, and transmits.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use weft_hca::{Hca, HcaConfig, HcaUsage};
use weft_link::{NULL_MEMORY, Stack, StackConfig};
use weft_shm::AdaptiveYield;
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{Duration, Event, Instant};

use crate::adapter::{Adapter, Process};
use crate::added_faults::AddedFaults;
use crate::clock;
use crate::gather::Gather;
use crate::instruments::Instruments;
use crate::memory;
use crate::memory_wait::MemoryWait;
use crate::record::Recording;
use crate::socket_poll::SocketPollInterval;
use crate::streams::{Arrivals, Streams};
use crate::trace;

/// Maximum number of batches sent in one turn; the rest goes in the next turn, after a check for arrivals.
const BATCHES_MAX: usize = 4;

/// Maximum number of turns that check the rings alone between two whole turns: some microseconds.
const BRIEF_TURNS_MAX: u32 = 64;

/// Maximum number of turns that read one stream alone between two whole turns: a microsecond or two.
const STREAM_TURNS_MAX: u32 = 8;

/// Unsuccessful polls between two clock readings, where only packets are expected.
const CLOCK_PERIOD: u32 = 4;

/// Parts of a pump.
#[derive(Debug)]
pub struct PumpConfig {
    /// Slot of our queue pair numbers.
    pub slot: u32,
    /// Seed of keys and numbers.
    pub seed: [u64; 4],
    /// Whether the process has administrator rights over the network.
    pub privileged: bool,
    /// Seed of strict mode.
    pub strict: Option<u64>,
    /// The links.
    pub stack: StackConfig,
}

/// The adapters and the links of one process.
pub struct Pump {
    /// The adapters.
    pub hca: Adapter,
    /// The links.
    pub stack: Stack,
    /// The sockets of iWARP streams.
    pub streams: Streams,
    batch: TxBatch,
    gather: Gather,
    socket_poll: SocketPollInterval,
    stream_poll: SocketPollInterval,
    /// When threads that poll without success yield.
    pub yielding: AdaptiveYield,
    /// Whether the program waits for WRITEs by reading its memory.
    pub memory_wait: MemoryWait,
    /// Counters for tools, beside those of the adapters and the links.
    pub instruments: Instruments,
    /// Faults that a user added while the program runs.
    pub faults: AddedFaults,
    /// The record for `weft explain`, if one is written.
    pub record: Option<Box<Recording>>,
    /// When to report the process's object counts to the daemon, if they may have changed.
    report_at: Option<Instant>,
    /// Whether the links pass on traffic class and hop limit.
    tells_network_header: bool,
    /// When the pump last turned.
    turned_at: Instant,
    /// Brief turns since then.
    brief_turns: u32,
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("stack", &self.stack).finish_non_exhaustive()
    }
}

/// Hands a received packet to the adapters, and to the trace and the record.
#[inline]
fn deliver(hca: &mut Adapter, record: &mut Option<Box<Recording>>, now: Instant, rx: &RxPacket<'_>) {
    if trace::on() {
        trace::received(now, rx);
    }
    let screening = hca.handle_packet(now, rx);
    if let Some(record) = record {
        record.received(now, rx, screening);
    }
}

impl Pump {
    /// Assembles a pump, without any device yet.
    pub fn new(config: PumpConfig) -> Pump {
        let hca = HcaConfig {
            slot: config.slot,
            seed: config.seed,
            privileged: config.privileged,
            null_memory: NULL_MEMORY,
            strict: config.strict,
        };
        let mut hca = Hca::new(hca, Process::parts());
        hca.allow_ack_delay(true);
        Pump {
            hca,
            stack: Stack::new(config.stack),
            streams: Streams::default(),
            batch: TxBatch::default(),
            gather: Gather::default(),
            socket_poll: SocketPollInterval::default(),
            stream_poll: SocketPollInterval::default(),
            yielding: AdaptiveYield::default(),
            memory_wait: MemoryWait::default(),
            instruments: Instruments::default(),
            faults: AddedFaults::default(),
            record: None,
            report_at: None,
            tells_network_header: false,
            turned_at: Instant::default(),
            brief_turns: 0,
        }
    }

    /// Receives arrived packets; returns the number of datagrams. `thorough`: reads every socket.
    pub fn receive(&mut self, now: Instant, thorough: bool) -> usize {
        let Pump { hca, stack, memory_wait, record, .. } = self;
        stack.receive(now, thorough, &mut |rx| {
            memory_wait.on_packet(rx);
            deliver(hca, record, now, rx);
        })
    }

    /// Runs the timers that are due.
    pub fn timers(&mut self, now: Instant) {
        let Pump { hca, stack, streams, record, .. } = self;
        if stack.poll_timeout().is_some_and(|at| at <= now) {
            stack.handle_timeout(now, &mut |rx| deliver(hca, record, now, rx));
        }
        if hca.may_be_due(now) {
            hca.handle_timeout(now);
            if let Some(record) = record {
                record.on_timers();
            }
        }
        if streams.poll_timeout().is_some_and(|at| at <= now) {
            streams.handle_timeout(now);
        }
    }

    /// Sends all packets that may be sent now.
    #[inline]
    pub fn transmit(&mut self, now: Instant) {
        memory::place();
        self.gather.on_transmit(now);
        if self.hca.wants_transmit() {
            self.transmit_batches(now);
        }
        if self.has_stream_work() {
            self.serve_streams(now);
        }
    }

    /// Whether a stream has bytes to send, or an order for its socket.
    #[inline]
    fn has_stream_work(&self) -> bool {
        self.hca.wants_stream() || self.hca.has_stream_changes()
    }

    #[inline(never)]
    fn serve_streams(&mut self, now: Instant) {
        let Pump { hca, streams, .. } = self;
        streams.transmit(hca, now);
        streams.follow_orders(hca, now);
    }

    /// Receives from streams; returns the number of reads that brought something.
    #[inline(never)]
    fn receive_streams(&mut self, now: Instant, thorough: bool) -> usize {
        if !thorough && !self.stream_poll.is_due(now) {
            return 0;
        }
        let Pump { hca, streams, .. } = self;
        let came = streams.receive(hca, now, thorough);
        self.on_stream_arrivals(now, came);
        came.reads
    }

    fn on_stream_arrivals(&mut self, now: Instant, came: Arrivals) {
        self.stream_poll.on_socket_poll(now, came.reads > 0);
        if came.reads > 0 {
            self.socket_poll.on_frames(now);
        }
        if came.written {
            self.memory_wait.on_write();
        }
    }

    /// Follows the orders for sockets that a call left which sends nothing.
    #[inline]
    pub fn follow_stream_orders(&mut self) {
        if self.hca.has_stream_changes() {
            let Pump { hca, streams, turned_at, .. } = self;
            streams.follow_orders(hca, *turned_at);
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
            if let Some(record) = &mut self.record {
                record.sent(now, &self.batch);
                record.link(now, self.stack.stats(), Some(&self.batch));
            }
            if !more {
                return;
            }
        }
    }

    /// Records posted requests, if there is a record.
    #[inline]
    pub fn record_posted(&mut self, now: Instant) {
        if let Some(record) = &mut self.record {
            record.posted(now, &mut self.hca);
        }
    }

    /// Sends posted requests, at once or with the next posts; `polling` says that a thread turns the pump soon.
    #[inline]
    pub fn transmit_posted(&mut self, now: Instant, polling: bool) {
        self.instruments.on_post(now);
        if !(polling && self.gather.waits(now)) {
            self.transmit(now);
        }
    }

    /// Sends posts that still wait, because a thread polls.
    #[inline]
    pub fn end_gathering(&mut self, now: impl FnOnce() -> Instant) {
        if self.gather.end() {
            self.transmit(now());
        }
    }

    /// Returns the current time, or the last turn's time if that is `near` enough: reading the clock costs as much as a
    /// small message to a process of this host. Packets need the exact time.
    #[inline]
    pub fn time(&self, near: bool) -> Instant {
        if near && !self.hca.awaits_packets() { self.turned_at } else { clock::now() }
    }

    /// Returns the exact time, which the adapter learns, too: injected failures depend on it in calls that pass no time.
    #[cold]
    pub fn exact_time(&mut self) -> Instant {
        let now = clock::now();
        self.hca.set_time(now);
        now
    }

    /// Returns the time of the last turn.
    #[inline]
    pub fn turned_at(&self) -> Instant {
        self.turned_at
    }

    /// Turns the pump for a polling thread. If all peers are on this host, it checks one ring each time, and all the
    /// rest now and then. Returns how many frames and datagrams came, or `None` if the turn was brief and found
    /// nothing.
    #[inline]
    pub fn turn_briefly(&mut self) -> Option<usize> {
        self.brief_turns += 1;
        if self.streams.carry_data() {
            let alone = !self.hca.has_rings() && !self.hca.awaits_packets() && self.brief_turns < STREAM_TURNS_MAX;
            return Some(if alone { self.turn_for_stream() } else { self.turn(clock::now(), false) });
        }
        if !self.hca.has_rings() {
            return Some(self.turn_for_packets());
        }
        if self.hca.awaits_packets() || self.brief_turns >= BRIEF_TURNS_MAX {
            return Some(self.turn(clock::now(), false));
        }
        let came = self.hca.handle_next_ring(self.turned_at);
        if came == 0 {
            return None;
        }
        self.instruments.on_turn(self.turned_at, true);
        self.transmit(self.turned_at);
        Some(came)
    }

    /// Turns the pump for a polling thread without peers on this host. Reading the clock is a good part of the cost of
    /// an unsuccessful poll beside its system call (all of it where the machine has no fast clock), so this reads it
    /// after an arrival, before sending, and now and then.
    #[inline(never)]
    fn turn_for_packets(&mut self) -> usize {
        let read = Cell::new(None);
        let now = || {
            let at = read.get().unwrap_or_else(clock::now);
            read.set(Some(at));
            at
        };
        let Pump { hca, stack, memory_wait, record, .. } = self;
        let came = stack.receive_by(now, false, &mut |rx| {
            memory_wait.on_packet(rx);
            deliver(hca, record, now(), rx);
        });
        if came > 0 || self.brief_turns >= CLOCK_PERIOD || self.hca.wants_transmit() {
            let now = now();
            (self.turned_at, self.brief_turns) = (now, 0);
            self.socket_poll.on_socket_poll(now, came > 0);
            self.instruments.on_turn(now, came > 0);
            self.timers(now);
            self.transmit(now);
        }
        came
    }

    /// Turns the pump for a polling thread that waits for one stream: reads its socket, and the clock only if bytes came, as
    /// [`Pump::turn_for_packets`] does. Whole turns in between, however much comes, look at everything else.
    #[inline(never)]
    fn turn_for_stream(&mut self) -> usize {
        let read = Cell::new(None);
        let now = || {
            let at = read.get().unwrap_or_else(clock::now);
            read.set(Some(at));
            at
        };
        let Pump { hca, streams, turned_at, .. } = self;
        let Some(came) = streams.receive_directly(hca, *turned_at, now) else {
            return self.turn(clock::now(), false);
        };
        if came.reads > 0 || self.has_stream_work() {
            let now = now();
            self.turned_at = now;
            self.on_stream_arrivals(now, came);
            self.instruments.on_turn(now, came.reads > 0);
            self.timers(now);
            self.transmit(now);
        }
        came.reads
    }

    /// Makes a whole turn; returns how many datagrams and frames came. `thorough`: reads every socket.
    pub fn turn(&mut self, now: Instant, thorough: bool) -> usize {
        (self.turned_at, self.brief_turns) = (now, 0);
        let mut came = self.hca.handle_rings(now);
        if came > 0 {
            self.socket_poll.on_frames(now);
            self.stream_poll.on_frames(now);
        }
        if self.streams.are_due(now, thorough) {
            came += self.receive_streams(now, thorough);
        }
        if thorough || self.packets_are_due(now) {
            let packets = self.receive(now, thorough);
            self.socket_poll.on_socket_poll(now, packets > 0);
            came += packets;
        }
        self.instruments.on_turn(now, came > 0);
        self.timers(now);
        self.transmit(now);
        came
    }

    /// Whether it is time to read the sockets for packets. A program with streams alone pays for that as for a message.
    #[inline]
    fn packets_are_due(&self, now: Instant) -> bool {
        if self.streams.are_open() && !self.hca.awaits_packets() {
            return self.socket_poll.is_due_idle(now);
        }
        self.socket_poll.is_due(now)
    }

    /// Records that the process's objects may have changed: passes new needs on to the links, and schedules one report
    /// to the daemon for many changes.
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

    /// Returns the process's object counts, if a report to the daemon is due.
    pub fn poll_report(&mut self, now: Instant) -> Option<HcaUsage> {
        self.report_at.take_if(|at| *at <= now)?;
        Some(self.hca.usage())
    }

    /// Wakes the sleeping processes that have new frames.
    #[inline]
    pub fn ring_doorbells(&mut self) {
        if let Some(host) = self.hca.peers().host() {
            host.ring_doorbells();
        }
    }

    /// Announces that no thread turns the pump until a doorbell rings; returns `false` if work waits already.
    pub fn fall_asleep(&mut self) -> bool {
        self.streams.watch_all();
        let nothing = self.stack.fall_asleep();
        nothing & self.hca.peers().host().is_none_or(weft_link::shm::Host::fall_asleep)
    }

    /// Announces that a thread turns the pump again. Returns a bell that has no ringer any more; the caller stops
    /// watching it.
    pub fn wake_up(&mut self) -> Option<OwnedFd> {
        if let Some(host) = self.hca.peers().host() {
            host.wake_up();
        }
        self.stack.wake_up()
    }

    /// Acknowledges the doorbell after it woke a sleeper.
    pub fn take_doorbell(&mut self) {
        if let Some(host) = self.hca.peers().host() {
            host.doorbell().take();
        }
    }

    /// Ends a thread's service before it sleeps or returns to the program. Returns whether another turn has nothing to
    /// do; then the rings are announced as unwatched.
    pub fn rests(&mut self) -> bool {
        let sends = (self.hca.wants_transmit() && !self.stack.is_blocked()) || self.has_stream_work();
        !sends && !self.stack.is_attached() && self.fall_asleep()
    }

    /// Returns the earliest of all deadlines, the ledger's included.
    #[inline]
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.poll_timeout().into_iter().chain(self.instruments.poll_timeout()).min()
    }

    /// Whether a datagram waits for a process of this host that this one has not met.
    pub fn wants_to_meet(&mut self) -> bool {
        self.hca.paths().wants() || self.hca.peers().host().is_some_and(|host| host.wants_to_meet())
    }

    /// Whether the process has a frame for itself or must meet another one: no doorbell announces these.
    #[inline]
    fn wants_turn(&mut self) -> bool {
        let host = self.hca.peers().host();
        host.is_some_and(|host| host.has_own_frame() || host.wants_to_meet()) || self.hca.paths().wants()
    }

    /// Returns when the next turn is due: now if packets can be sent at once, else the earliest deadline.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if (self.hca.wants_transmit() && !self.stack.is_blocked()) || self.has_stream_work() || self.wants_turn() {
            return Some(Instant(0));
        }
        let link = self.stack.poll_timeout();
        let (hca, streams) = (self.hca.poll_timeout(), self.streams.poll_timeout());
        hca.into_iter().chain(link).chain(streams).chain(self.report_at).min()
    }

    /// Moves the waiting events to `out`.
    #[inline]
    pub fn take_events(&mut self, out: &mut Vec<Event>) {
        while let Some(event) = self.hca.poll_event() {
            out.push(event);
        }
    }
}
