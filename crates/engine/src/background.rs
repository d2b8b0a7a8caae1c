//! The background thread: one for each process that opened a device. It sleeps until a packet arrives, a deadline
//! expires, the daemon sends a message, or another thread wakes it. While the program polls, it leaves the sockets
//! alone ([`crate::driver`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_hca::HcaUsage;
use weft_ipc::{PathTraffic, Usage};
use weft_shm::yield_processor;
use weft_sys::event::EventFd;
use weft_sys::{fork, thread};
use weft_verbs::{Duration, Instant, Qpn};

use crate::clock;
use crate::driver::{Driver, LOOK_INTERVAL, Seen};
use crate::engine::Engine;
use crate::fabric;
use crate::instruments::LedgerUpdate;
use crate::memory;
use crate::sources::Sources;
use crate::spin::Spin;
use crate::trace::{self, Kind};

/// Stack size of the thread; nothing here recurses.
const STACK_BYTES: usize = 256 << 10;
/// First and longest pause between two attempts to reach the next daemon.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A deadline this far off is kept even when it is no longer needed: one useless wake-up is cheaper than an update with
/// every packet.
const KEPT_DEADLINE_MIN: Duration = Duration::from_millis(1);

/// How long an open waits for the thread to start. The wait times out only where the thread cannot start before the
/// open returns: the caller may hold the lock of the dynamic loader.
const STARTS_WITHIN: Duration = Duration::from_millis(500);

/// Turns without a sleep after which the thread checks for daemon messages.
const AWAKE_TURNS_MAX: u32 = 4096;

/// Starts the thread, and waits until it has allocated memory. A thread's first allocation maps an arena of its own
/// through the C library's mmap and munmap, which Open MPI and UCX overwrite during their initialisation: no thread may
/// be inside these functions at that time.
pub fn start(engine: &'static Engine) -> std::io::Result<()> {
    let mut background = Background {
        engine,
        daemon: None,
        generation: 0,
        seen: Seen::default(),
        kept: None,
        spin: Spin::default(),
        polls: 0,
        report: None,
        told: None,
        asked: false,
        wants_to_meet: false,
        traffic: Vec::new(),
        losses: fabric::Losses::default(),
        ended: Vec::new(),
        strikes: None,
        rung: false,
        wakeups: 0,
    };
    let (started, has_started) = mpsc::sync_channel(1);
    thread::spawn_without_signals("weft", STACK_BYTES, move || {
        drop(std::hint::black_box(Box::new(0u64)));
        let _ = started.send(());
        thread::sleep_precisely();
        memory::on_background_thread();
        background.run();
    })?;
    let _ = has_started.recv_timeout(STARTS_WITHIN);
    Ok(())
}

struct Background {
    engine: &'static Engine,
    daemon: Option<OwnedFd>,
    /// Connection that `daemon` is a copy of.
    generation: u64,
    seen: Seen,
    /// Deadline chosen at the last sleep.
    kept: Option<Instant>,
    spin: Spin,
    /// The program's poll count when this thread last received a WRITE for it.
    polls: u32,
    /// Object counts to report to the daemon.
    report: Option<HcaUsage>,
    /// Pages to write to the ledger.
    told: Option<LedgerUpdate>,
    /// The daemon requested a ledger update.
    asked: bool,
    /// A datagram waits for a process that this one has not met.
    wants_to_meet: bool,
    /// Fabric traffic not reported to the daemon yet.
    traffic: Vec<PathTraffic>,
    losses: fabric::Losses,
    /// Queue pairs whose streams ended, not reported to the daemon yet.
    ended: Vec<Qpn>,
    /// Strikes of added faults, not reported to the daemon yet.
    strikes: Option<Vec<(u32, u64)>>,
    /// An arrival woke the thread; it may have been the doorbell.
    rung: bool,
    /// How often the thread woke.
    wakeups: u64,
}

/// Reasons for which a sleep ended.
struct Woken {
    daemon: bool,
    neighbours: bool,
    arrivals: bool,
}

impl Background {
    fn run(&mut self) {
        self.watch_daemon();
        let mut awake = 0;
        loop {
            let served = self.serve();
            if self.report.is_some() || self.told.is_some() || self.wants_to_meet || !self.ended.is_empty() {
                self.watch_daemon();
            }
            let woken = match served {
                Serve::Again if awake < AWAKE_TURNS_MAX => {
                    awake += 1;
                    continue;
                }
                Serve::Spin if awake < AWAKE_TURNS_MAX => {
                    awake += 1;
                    self.spin.on_yield(yield_processor(clock::now));
                    continue;
                }
                Serve::Again | Serve::Spin => self.sleep(true, Some(Duration::ZERO)),
                Serve::Parked => self.sleep(false, Some(LOOK_INTERVAL)),
                Serve::Until(_) if self.told.is_some() || !self.ended.is_empty() => {
                    self.sleep(true, Some(LOOK_INTERVAL))
                }
                Serve::Until(None) => self.sleep(true, None),
                Serve::Until(Some(at)) => self.sleep(true, Some(at.since(clock::now()))),
            };
            awake = 0;
            self.rung |= woken.arrivals;
            self.wakeups += 1;
            if trace::on() {
                trace::note(clock::now(), Kind::Wake, None, format_args!("who=background daemon={}", woken.daemon));
                trace::flush();
            }
            if woken.daemon {
                self.hear_daemon();
            }
            if woken.neighbours {
                self.engine.look_after_neighbours();
            }
            self.watch_daemon();
        }
    }

    /// Runs one turn of the pump, or none if the program does it. Returns how long to sleep.
    fn serve(&mut self) -> Serve {
        let engine = self.engine;
        let now = clock::now();
        let driver = engine.driver.look(&mut self.seen, now);
        let mut guard = engine.driver.lock(&engine.pump);
        let Some(pump) = guard.as_mut() else {
            return Serve::Until(None);
        };
        self.report = pump.poll_report(now).or(self.report);
        pump.instruments.wakeups = self.wakeups;
        let contexts = |device| engine.sinks.lock().open(device);
        if let Some(told) = pump.poll_ledger(now, engine.driver.tally(), self.asked, contexts) {
            (self.told, self.asked) = (Some(told), false);
            self.traffic.extend(pump.take_fabric_traffic());
            self.losses.extend(pump.take_fabric_losses());
            self.strikes = pump.take_strikes().or(self.strikes.take());
        }
        self.wants_to_meet |= pump.wants_to_meet();
        self.ended.extend(pump.streams.take_ended());
        if driver == Driver::Waiting {
            // Waiting threads announce their own sleep.
            engine.driver.set_driver(driver);
            engine.driver.unlock(guard);
            return Serve::Parked;
        }
        if std::mem::take(&mut self.rung) {
            pump.take_doorbell();
        }
        engine.forget_source(pump.wake_up());
        let (armed, waits) = (pump.hca.any_cq_armed(), self.seen.waited(now));
        if driver == Driver::Pollers && !armed && !pump.memory_wait.is_helped(now) {
            pump.streams.allow_unwatched();
            engine.driver.set_driver(driver);
            engine.driver.unlock(guard);
            return Serve::Parked;
        }
        engine.driver.set_driver(Driver::Background);
        if pump.turn(now, true) > 0 {
            let polls = engine.driver.tally().polls;
            if !armed && pump.memory_wait.is_written() && std::mem::replace(&mut self.polls, polls) != polls {
                pump.memory_wait.on_left(now);
            }
            // A program that sleeps until an event arrives wants the processor for itself.
            self.spin.on_packets(now, !armed && !waits);
            engine.leave(guard);
            return Serve::Again;
        }
        if self.spin.goes_on(now) {
            engine.leave(guard);
            return Serve::Spin;
        }
        let next = pump.poll_timeout().into_iter().chain(pump.instruments.poll_timeout()).min();
        let mut until = self.deadline(now, next);
        if engine.driver.is_active(&self.seen) && !waits {
            // Checking now and then is cheaper than an update for each post's deadline.
            until = until.into_iter().chain([now + LOOK_INTERVAL]).min();
        }
        if !pump.fall_asleep() {
            engine.leave(guard);
            return Serve::Again;
        }
        engine.driver.will_sleep(until);
        engine.leave(guard);
        Serve::Until(until)
    }

    fn deadline(&mut self, now: Instant, next: Option<Instant>) -> Option<Instant> {
        let kept = self.kept.filter(|&at| at > now + KEPT_DEADLINE_MIN);
        let until = next.into_iter().chain(kept).min();
        self.kept = until;
        until
    }

    fn sleep(&self, sockets: bool, limit: Option<Duration>) -> Woken {
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().min(1 << 20) as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let (wake, alarm) = (self.engine.driver.wake_fd(), self.engine.driver.alarm_fd());
        let sources = self.engine.sources.get();
        let mut fds = [
            PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN),
            watched_or(self.daemon.as_ref().map(AsFd::as_fd), wake),
            watched_or(sources.and_then(Sources::neighbours), wake),
            PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN),
            watched_or(sources.map(Sources::backstop), wake),
        ];
        let watched = if sockets { fds.len() } else { fds.len() - 1 };
        let _ = poll(&mut fds[..watched], limit.as_ref());
        if fds[0].revents().contains(PollFlags::IN) {
            wake.take();
        }
        if fds[3].revents().contains(PollFlags::IN) {
            self.engine.driver.take_alarm();
        }
        Woken {
            daemon: self.daemon.is_some() && !fds[1].revents().is_empty(),
            neighbours: !fds[2].revents().is_empty(),
            arrivals: !fds[4].revents().is_empty(),
        }
    }

    /// Keeps a copy of the current connection's descriptor, and sends the daemon all pending reports.
    fn watch_daemon(&mut self) {
        // A request in progress may hold the session for long; the current copy serves until the next turn.
        let Some(mut session) = self.engine.session.try_lock() else {
            return;
        };
        if let Some(usage) = self.report.take() {
            let HcaUsage { pd, cq, qp, mr, srq } = usage;
            session.client().report_usage(Usage { pd, cq, qp, mr, srq });
        }
        if let Some(told) = self.told.take() {
            session.publish(&told);
        }
        if !self.traffic.is_empty() {
            fabric::tell_traffic(&mut session, std::mem::take(&mut self.traffic));
        }
        if let Some(strikes) = self.strikes.take() {
            session.client().report_strikes(strikes);
        }
        for qpn in self.ended.drain(..) {
            session.client().stream_ended(qpn);
        }
        if !self.losses.is_empty() {
            fabric::tell_losses(&mut session, std::mem::take(&mut self.losses));
        }
        // The client has already read events that arrived during these requests (a closed path, say): poll does not
        // show them.
        self.engine.attend(&mut session);
        self.asked |= session.take_asked();
        if self.wants_to_meet {
            self.wants_to_meet = false;
            let was_connected = session.is_connected();
            self.engine.meet_wanted(&mut session);
            if was_connected && !session.is_connected() {
                reconnect_in_time(self.engine);
            }
        }
        if self.generation == session.generation() {
            return;
        }
        if let Some(old) = self.daemon.take() {
            fork::forget(&old);
        }
        (self.generation, self.daemon) = session.watch();
        if let Some(new) = &self.daemon {
            fork::track(new);
        }
    }

    fn hear_daemon(&mut self) {
        let Some(mut session) = self.engine.session.try_lock() else {
            // The session's holder reads the messages; do not spin on the descriptor meanwhile.
            std::thread::sleep(LOOK_INTERVAL);
            return;
        };
        let was_connected = session.is_connected();
        let met = self.engine.hear(&mut session);
        self.engine.greet(&mut session, &met);
        self.engine.attend(&mut session);
        if was_connected && !session.is_connected() {
            reconnect_in_time(self.engine);
        }
    }
}

/// Reconnects from a separate thread: reaching the next daemon may take seconds, and packets do not wait.
fn reconnect_in_time(engine: &'static Engine) {
    let started = thread::spawn_without_signals("weft-reconnect", STACK_BYTES, move || {
        let (mut pause, longest) = RECONNECT_PAUSE;
        loop {
            std::thread::sleep(pause);
            let mut session = engine.session.lock();
            if session.is_connected() {
                break;
            }
            match session.reconnect() {
                Ok(changes) => {
                    engine.apply(changes);
                    engine.driver.wake();
                    if session.is_connected() {
                        engine.rejoin(&mut session);
                        if session.is_connected() {
                            break;
                        }
                    }
                }
                Err(_) => pause = (pause * 2).min(longest),
            }
        }
        engine.driver.wake();
    });
    if let Err(error) = started {
        crate::log::note(&format!("no thread to reach the next daemon with: {error}"));
    }
}

impl Engine {
    /// Handles deaths and bells of other processes of this host.
    pub(crate) fn look_after_neighbours(&self) {
        let mut guard = self.driver.lock(&self.pump);
        if let Some(host) = guard.as_mut().and_then(|pump| pump.hca.peers().host()) {
            host.handle_watch();
            for slot in host.take_broken() {
                crate::log::note(&format!("the process of slot {slot} broke the rules of its ring, which is closed"));
            }
        }
        self.driver.unlock(guard);
    }
}

/// Returns a poll entry for `fd`, or one that watches `other` for nothing if there is no `fd`.
fn watched_or<'a>(fd: Option<BorrowedFd<'a>>, other: &'a EventFd) -> PollFd<'a> {
    match fd {
        Some(fd) => PollFd::from_borrowed_fd(fd, PollFlags::IN),
        None => PollFd::from_borrowed_fd(other.as_fd(), PollFlags::empty()),
    }
}

/// Outcome of a turn.
enum Serve {
    /// Packets came: turn again, which is cheaper than a sleep and a wake-up.
    Again,
    /// Packets will probably arrive soon.
    Spin,
    /// The program drives.
    Parked,
    /// No work until this time, or until something arrives.
    Until(Option<Instant>),
}
