//! The engine as the C interface sees it: devices, calls into the adapter under the lock, and polling of completion
//! queues.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weft_ipc::StreamGrant;
use weft_sys::epoll::Tokens;
use weft_verbs::{CqId, Duration, Event, Instant, VerbsError, slot_of_qpn};

use crate::adapter::Adapter;
use crate::devices::DeviceSnapshot;
use crate::driver::DriverState;
use crate::error::EngineError;
use crate::events::{ContextId, SharedSinks};
use crate::memory;
use crate::pump::Pump;
use crate::record::Extent;
use crate::session::{Change, Session};
use crate::share::Sharing;
use crate::sources::Sources;
use crate::strict::{self, Call};
use crate::{clock, fork, inject, trace};

/// Error of every call in a process that forked after it opened devices.
pub(crate) const DEAD: VerbsError = VerbsError::NoDevice("the process forked; a child opens its devices itself");
/// Error of a call before the first open of a device.
pub(crate) const CLOSED: VerbsError = VerbsError::NoDevice("no device is open");

/// The engine of a process.
///
/// Locks are taken in this order: session, sharing, pump, sinks.
pub struct Engine {
    depth: usize,
    pub(crate) session: Mutex<Session>,
    pub(crate) pump: Mutex<Option<Pump>>,
    pub(crate) sinks: SharedSinks,
    pub(crate) driver: DriverState,
    pub(crate) background: AtomicBool,
    /// Set by the first open.
    pub(crate) sources: OnceLock<Sources>,
    pub(crate) sharing: Sharing,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("dead", &self.is_dead()).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn connect() -> Result<Engine, EngineError> {
        Ok(Engine {
            depth: fork::depth(),
            session: Mutex::new(Session::open()?),
            pump: Mutex::new(None),
            sinks: SharedSinks::default(),
            driver: DriverState::new()?,
            background: AtomicBool::new(false),
            sources: OnceLock::new(),
            sharing: Sharing::default(),
        })
    }

    /// Whether the process has forked since: everything here belongs to the parent.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.depth != fork::depth()
    }

    /// Reads the clock that the engine uses throughout, completion timestamps included: CLOCK_MONOTONIC.
    pub fn now(&self) -> Instant {
        clock::now()
    }

    /// Lists the devices.
    ///
    /// # Errors
    /// The daemon is gone and cannot be reached again.
    pub fn list_devices(&self) -> Result<Vec<DeviceSnapshot>, EngineError> {
        self.live()?;
        let mut session = self.session.lock();
        self.refresh(&mut session)?;
        Ok(session.devices().to_vec())
    }

    /// Stops watching a bell that has no ringer any more.
    pub(crate) fn forget_source(&self, bell: Option<OwnedFd>) {
        if let (Some(bell), Some(sources)) = (bell, self.sources.get()) {
            sources.forget_packet_channel(bell);
        }
    }

    /// Returns the wake-up token of the packet channel to a fabric's switches.
    pub(crate) fn packet_channel_tokens(&self) -> Tokens {
        self.sources.get().map_or(0, Sources::packet_channel_tokens)
    }

    /// Closes an open device. Its objects stay until they are destroyed.
    pub fn close(&self, context: ContextId) {
        if !self.is_dead() {
            self.sinks.lock().remove(context);
        }
    }

    /// Waits until every thread has delivered the events that were raised before this call. No event names a destroyed
    /// object after that, so the caller can free what its cookie refers to. Must not be called from a sink.
    pub fn quiesce_events(&self) {
        if !self.is_dead() {
            drop(self.sinks.lock());
        }
    }

    /// Calls `f` under the lock, sends the resulting packets, unlocks, and delivers events.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Adapter, Instant) -> Result<R, VerbsError>) -> Result<R, VerbsError> {
        strict::dawdle(Call::Control);
        self.enter(|pump, now| {
            let result = f(&mut pump.hca, now);
            pump.on_control(now);
            pump.transmit(now);
            result
        })
    }

    /// Like [`Engine::with`], for posts to send queues: while the program polls, posts in close succession leave
    /// together, at its next poll at the latest.
    #[inline]
    pub fn post<R>(&self, f: impl FnOnce(&mut Adapter, Instant) -> Result<R, VerbsError>) -> Result<R, VerbsError> {
        strict::dawdle(Call::Send);
        let polling = self.driver.is_parked();
        self.enter_at(
            Extent::Some,
            |pump| pump.time(polling),
            |pump, now| {
                self.driver.on_post();
                pump.memory_wait.on_post();
                let result = f(&mut pump.hca, now);
                pump.record_posted(now);
                pump.transmit_posted(now, polling);
                result
            },
        )
    }

    /// Posts receives: locks, calls, unlocks, delivers events. Sends nothing and does not read the clock.
    #[inline]
    pub fn post_recv<R>(&self, f: impl FnOnce(&mut Adapter) -> Result<R, VerbsError>) -> Result<R, VerbsError> {
        strict::dawdle(Call::Receive);
        self.enter_at(Extent::Some, Pump::turned_at, |pump, _| f(&mut pump.hca))
    }

    /// Locks, calls, unlocks, delivers events; sends nothing. For queries.
    #[inline]
    pub fn query<R>(&self, f: impl FnOnce(&mut Adapter, Instant) -> Result<R, VerbsError>) -> Result<R, VerbsError> {
        self.enter_at(Extent::Nothing, |pump| pump.time(true), |pump, now| f(&mut pump.hca, now))
    }

    #[inline]
    pub(crate) fn enter<R>(
        &self,
        f: impl FnOnce(&mut Pump, Instant) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        self.enter_at(Extent::Everything, |_| clock::now(), f)
    }

    #[inline]
    fn enter_at<R>(
        &self,
        extent: Extent,
        time: impl FnOnce(&Pump) -> Instant,
        f: impl FnOnce(&mut Pump, Instant) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        if self.is_dead() {
            return Err(DEAD);
        }
        let mut guard = self.driver.lock(&self.pump);
        let Some(pump) = guard.as_mut() else {
            return Err(CLOSED);
        };
        let now = if pump.hca.injects() { pump.exact_time() } else { time(pump) };
        let result = f(pump, now);
        self.leave_after(guard, extent);
        result
    }

    /// Requests an event for the next completion added to a queue.
    ///
    /// # Errors
    /// No such queue.
    pub fn arm_cq(&self, cq: CqId, solicited_only: bool) -> Result<(), VerbsError> {
        self.query(|hca, _| hca.arm_cq(cq, solicited_only))?;
        // A thread that polled and arms is about to sleep: the background thread takes over now, not at its next check.
        // A thread that waited and arms waits again.
        if self.driver.is_polled() {
            self.driver.wake();
        }
        Ok(())
    }

    /// Unlocks after a turn: wakes the background thread if it would sleep too long, delivers events.
    #[inline]
    pub(crate) fn leave(&self, guard: MutexGuard<'_, Option<Pump>>) {
        self.leave_after(guard, Extent::Everything);
    }

    /// As [`Engine::leave`], after a call or turn that changed no more than this.
    #[inline]
    pub(crate) fn leave_after(&self, mut guard: MutexGuard<'_, Option<Pump>>, extent: Extent) {
        let Some(pump) = guard.as_mut() else { return };
        if trace::on() {
            trace::observe(clock::now(), pump.hca.qps());
        }
        if let Some(record) = &mut pump.record
            && record.is_due(extent)
        {
            let now = clock::now();
            record.posted(now, &mut pump.hca);
            record.observe(now, &pump.hca, extent);
            record.link(now, pump.stack.stats(), None);
        }
        memory::place();
        if pump.hca.has_injected() {
            inject::report(pump.hca.take_injected());
        }
        pump.ring_doorbells();
        pump.follow_stream_orders();
        let wake =
            !self.driver.is_parked() && self.driver.must_wake_for(pump.next_deadline()) || pump.streams.have_ended();
        match pump.hca.poll_event() {
            None => self.driver.unlock(guard),
            Some(first) => self.tell(first, guard),
        }
        if wake {
            self.driver.wake();
        }
    }

    #[cold]
    fn tell(&self, first: Event, mut guard: MutexGuard<'_, Option<Pump>>) {
        let mut events = vec![first];
        if let Some(pump) = guard.as_mut() {
            pump.take_events(&mut events);
            let rings = events.iter().filter(|event| matches!(event, Event::Completion { .. })).count();
            pump.instruments.channel_wakeups += rings as u64;
            if trace::on() {
                trace::told(clock::now(), &events);
            }
            if let Some(record) = &pump.record {
                record.delivered(clock::now(), &events);
            }
        }
        let sinks = self.sinks.lock();
        self.driver.unlock(guard);
        sinks.tell(&events);
    }

    /// Runs `work` while no thread turns the pump or reads daemon messages: no engine thread touches registered memory,
    /// or has the kernel touch memory that may lie beside it. Does nothing if the locks do not become free soon.
    pub(crate) fn with_quiesced(&self, work: &mut dyn FnMut()) {
        // The background thread may be meeting another process, which takes one or more round trips to the daemon.
        const PATIENCE: Duration = Duration::from_secs(1);
        let Some(_session) = self.session.try_lock_for(PATIENCE) else { return };
        let guard = self.driver.lock(&self.pump);
        work();
        self.driver.unlock(guard);
    }

    /// Returns the number of this process's threads that belong to the engine.
    pub(crate) fn own_threads(&self) -> usize {
        usize::from(self.background.load(Ordering::Relaxed))
    }

    pub(crate) fn live(&self) -> Result<(), EngineError> {
        if self.is_dead() {
            return Err(EngineError::new(EngineError::ENODEV, DEAD.to_string()));
        }
        Ok(())
    }

    /// Applies the daemon's messages, and reconnects to the next daemon if this one is gone.
    pub(crate) fn refresh(&self, session: &mut Session) -> Result<(), EngineError> {
        let met = self.hear(session);
        if !session.is_connected() {
            self.apply(session.reconnect()?);
            if session.is_connected() {
                self.rejoin(session);
            }
            self.driver.wake();
        } else {
            self.greet(session, &met);
        }
        if session.is_asked() || session.client().has_events() {
            // This call consumed an event meant for the background thread.
            self.driver.wake();
        }
        Ok(())
    }

    /// Handles the daemon's messages, in their order: a stream whose data takes a ring needs the peer's process. Returns the
    /// slots of the processes that have met this one: [`Engine::greet`].
    pub(crate) fn hear(&self, session: &mut Session) -> Vec<u32> {
        let (mut changes, mut met) = (Vec::new(), Vec::new());
        for change in session.changes() {
            if let Change::StreamOpened(StreamGrant { peer_qp: Some(peer), .. }, _) = &change {
                let slot = slot_of_qpn(*peer);
                met.extend(self.apply(std::mem::take(&mut changes)));
                self.greet(session, &[slot]);
            }
            changes.push(change);
        }
        met.extend(self.apply(changes));
        met
    }

    /// Passes changes on to the adapters. Returns the slots of the processes that have met this one:
    /// [`Engine::greet`].
    pub(crate) fn apply(&self, changes: Vec<Change>) -> Vec<u32> {
        let mut met = Vec::new();
        if changes.is_empty() {
            return met;
        }
        let _ = self.enter(|pump, now| {
            for change in changes {
                match change {
                    Change::Set(device) => pump.hca.set_device(device.id, device.attr),
                    Change::Removed(id) => pump.hca.remove_device(id),
                    Change::Came(slot) => met.push(slot),
                    Change::Gone(slot, generation) => {
                        if let Some(record) = &pump.record {
                            record.peer_gone(now, slot, generation);
                        }
                        pump.hca.peers().on_gone(slot, generation);
                    }
                    Change::Path(path, open) => pump.on_path_changed(path, open),
                    Change::Group(path) => pump.hca.paths().on_group_changed(path),
                    Change::FabricLost => {
                        pump.on_fabric_lost();
                        pump.end_all_faults(now);
                    }
                    Change::FaultAdded(number, spec) => pump.add_fault(now, number, &spec),
                    Change::FaultRemoved(number) => pump.end_fault(now, number),
                    Change::StreamOpened(grant, socket) => pump.open_stream(now, &grant, socket),
                    Change::CloseStream(qpn) => pump.close_stream(now, qpn),
                }
            }
            pump.transmit(now);
            self.watch_streams(pump);
            Ok(())
        });
        met
    }

    /// Has sleeping threads watch the streams, from the first one on.
    fn watch_streams(&self, pump: &Pump) {
        if let (Some(set), Some(sources)) = (pump.streams.set(), self.sources.get())
            && !sources.has_streams()
            && let Err(error) = sources.add_streams(set)
        {
            crate::log::note(&format!("streams are served by polling threads alone: {error}"));
        }
    }
}
