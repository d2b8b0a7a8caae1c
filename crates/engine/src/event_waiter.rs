//! Threads of the program that wait for completion events. A packet would wake the background thread, which would wake
//! such a thread: two wake-ups where one would do. So the waiting thread stands in for the background thread: it sleeps
//! on the same descriptors, and turns the pump when it wakes.
//!
//! No state records which thread stands in. Each thread sleeps on a set of its own, and the kernel wakes the first set
//! that has a sleeper at that moment, the background thread's last ([`crate::sources`]); a cancelled or finished thread
//! simply has none. While many packets arrive, the kernel wakes waiting threads for some, and would wake the background
//! thread for those that arrive while they work; then it is parked ([`crate::driver`]).

use std::cell::RefCell;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use weft_sys::cancel::Shield;
use weft_sys::epoll::{Epoll, Interest, Tokens};
use weft_sys::signals::{Held, Pending, SignalFd};
use weft_sys::{fork, thread};
use weft_verbs::Duration;

use crate::clock;
use crate::engine::Engine;
use crate::pump::Pump;
use crate::sources::token;
use crate::trace::{self, Kind};

/// Turns for one wake-up while packets keep coming; after that, the background thread takes over.
const TURNS_MAX: u32 = 4;
/// How much later than this thread the background thread would meet a deadline.
const GRACE: Duration = Duration::from_millis(3);
/// Sleeps shorter than this would last much longer than they should: the kernel lets a program's sleeps end late.
const PRECISE_BELOW: Duration = Duration::from_millis(1);
/// The thread must turn the pump, whatever woke it.
const TURN: Tokens = 1 << 63;
/// All tokens for which a turn of the pump may be needed.
const SERVE: Tokens = !(1 << token::CHANNEL | 1 << token::SIGNAL | 1 << token::NEIGHBOURS);

/// The awaited object: a descriptor that is readable while an event waits.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// A number that no other object has or had.
    pub number: u64,
}

/// Outcome of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The awaited event came.
    Come,
    /// The thread handled a signal that interrupts system calls (EINTR).
    Interrupted,
    /// The thread cannot stand in. It should sleep on the descriptor; the background thread serves.
    Unable,
}

/// The descriptors on which a thread sleeps.
struct Place {
    engine: &'static Engine,
    /// None only while it is dropped.
    at: Option<At>,
    /// Whether the set of streams is among them.
    watches_streams: bool,
    /// The object that it last waited for.
    awaited: Option<(u64, RawFd)>,
    /// It sleeps, or was cancelled in its sleep.
    sleeps: bool,
}

/// The descriptors themselves.
struct At {
    set: Epoll,
    signals: SignalFd,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Reasons for which a thread stops standing in.
enum Stopped {
    Come,
    Signal,
    Unable,
}

/// The next step after a turn.
enum Next {
    Sleep(Option<Duration>),
    Turn,
}

impl Engine {
    /// Waits until `has_come` returns true, and serves meanwhile. The descriptor is readable when that may be the case.
    pub fn wait_for(&'static self, awaited: Awaited<'_>, has_come: &dyn Fn() -> bool) -> Waited {
        if self.is_dead() {
            return Waited::Unable;
        }
        loop {
            let held = Held::new();
            let stopped = {
                let shield = Shield::new();
                PLACE.with(|place| match place.try_borrow_mut() {
                    Ok(mut place) => self.wait_as_driver(&mut place, &shield, &held, awaited, has_come),
                    Err(_) => Stopped::Unable,
                })
            };
            // Handlers run when `held` is dropped, and may not return: hold nothing else then.
            match stopped {
                Stopped::Come => return Waited::Come,
                Stopped::Unable => return Waited::Unable,
                Stopped::Signal if held.pending() == Pending::Interrupts => return Waited::Interrupted,
                Stopped::Signal => {}
            }
        }
    }

    fn wait_as_driver(
        &'static self,
        place: &mut Option<Place>,
        shield: &Shield,
        held: &Held,
        awaited: Awaited<'_>,
        has_come: &dyn Fn() -> bool,
    ) -> Stopped {
        let Some(place) = Place::ready(place, self, awaited, held) else { return Stopped::Unable };
        let Place { at: Some(at), sleeps, .. } = place else { return Stopped::Unable };
        let mut woken: Tokens = 0;
        loop {
            let next = self.driver_turn(woken);
            if has_come() {
                if matches!(next, Next::Turn) {
                    self.driver.wake();
                }
                return Stopped::Come;
            }
            if woken & 1 << token::SIGNAL != 0 {
                if matches!(next, Next::Turn) {
                    // The signal may take the thread back to the program, which leaves this work undone.
                    self.driver.wake();
                }
                return Stopped::Signal;
            }
            woken = match next {
                Next::Turn => TURN,
                Next::Sleep(limit) => {
                    let slack = limit.filter(|&limit| limit < PRECISE_BELOW).map(|_| thread::precise_sleeps());
                    *sleeps = true;
                    let woken = at.set.wait_cancellable(shield, limit);
                    *sleeps = false;
                    if let Some(slack) = slack {
                        thread::set_slack(slack);
                    }
                    if woken == 1 << token::CHANNEL && has_come() {
                        return Stopped::Come;
                    }
                    // The sleep timed out, or a debugger stopped the thread.
                    if woken == 0 { TURN } else { woken }
                }
            };
        }
    }

    /// Serves if the thread was woken for that. Then announces that no thread serves: it goes to sleep or returns to
    /// the program.
    fn driver_turn(&self, woken: Tokens) -> Next {
        if woken & 1 << token::NEIGHBOURS != 0 {
            self.look_after_neighbours();
        }
        let mut guard = self.driver.lock(&self.pump);
        let Some(pump) = guard.as_mut() else { return Next::Sleep(None) };
        // A thread that checks each millisecond finds remaining work; a sleeping one does not.
        let parked = self.driver.is_parked();
        if woken & 1 << token::DOORBELL != 0 {
            pump.take_doorbell();
        }
        if woken & SERVE != 0 {
            self.driver.on_event_waiter();
            // If not parked, this thread slept beside the background thread, and must react to the packet channel's
            // bell itself.
            if parked || woken & self.packet_channel_tokens() != 0 {
                self.forget_source(pump.wake_up());
            }
            self.serve_waiting(pump, parked);
        } else {
            pump.end_gathering(clock::now);
        }
        let has_event = pump.hca.has_events();
        if !has_event {
            // No answer leaves before the next wake-up: acknowledgements that wait for one would wait in vain.
            pump.hca.flush_rings(clock::now());
        }
        let to_program = parked && has_event;
        let rests = to_program || pump.rests();
        let limit = pump.poll_timeout();
        if !parked {
            // The thread meets the deadline itself, unless it is cancelled.
            self.driver.put_off(pump.next_deadline().map(|at| at + GRACE));
        }
        self.leave(guard);
        match rests {
            true => Next::Sleep(limit.map(|at| at.since(clock::now()))),
            false => Next::Turn,
        }
    }

    fn serve_waiting(&self, pump: &mut Pump, parked: bool) {
        let now = clock::now();
        if trace::on() {
            trace::note(now, Kind::Wake, None, format_args!("who=waiting"));
        }
        let mut turns = 1;
        let mut came = pump.turn(now, true);
        if came > 0 {
            pump.instruments.stand_ins += 1;
        }
        // Packets left in a socket wake no thread again.
        while came > 0 && !parked && pump.hca.has_events() {
            if turns == TURNS_MAX {
                self.driver.wake();
                break;
            }
            came = pump.turn(now, true);
            turns += 1;
        }
    }
}

impl Place {
    /// Returns the calling thread's place, watching the awaited object; makes one if there is none.
    fn ready<'a>(
        place: &'a mut Option<Place>,
        engine: &'static Engine,
        awaited: Awaited<'_>,
        held: &Held,
    ) -> Option<&'a mut Place> {
        let keeps = |place: &mut Place| {
            std::ptr::eq(place.engine, engine) && place.watch_streams().is_ok() && place.watch(awaited).is_ok()
        };
        if !place.as_mut().is_some_and(keeps) {
            *place = None;
            let mut new = Place::new(engine).ok()?;
            new.watch_streams().ok()?;
            new.watch(awaited).ok()?;
            *place = Some(new);
        }
        let place = place.as_mut()?;
        place.at.as_mut()?.signals.follow(held.let_through()).ok()?;
        Some(place)
    }

    fn new(engine: &'static Engine) -> std::io::Result<Place> {
        let sources = engine.sources.get().ok_or(std::io::ErrorKind::NotConnected)?;
        let (set, signals) = (Epoll::new()?, SignalFd::new()?);
        set.add(&signals, token::SIGNAL, Interest::READ)?;
        sources.enlist(&set)?;
        fork::track(&set);
        fork::track(&signals);
        Ok(Place { engine, at: Some(At { set, signals }), watches_streams: false, awaited: None, sleeps: false })
    }

    /// Watches streams, if there have been any.
    fn watch_streams(&mut self) -> std::io::Result<()> {
        if !self.watches_streams
            && let (Some(at), Some(sources)) = (&self.at, self.engine.sources.get())
        {
            self.watches_streams = sources.enlist_streams(&at.set)?;
        }
        Ok(())
    }

    /// Watches this object from now on; fails if the old descriptor is closed here but still open elsewhere.
    fn watch(&mut self, awaited: Awaited<'_>) -> std::io::Result<()> {
        let wanted = (awaited.number, awaited.fd.as_raw_fd());
        if self.awaited == Some(wanted) {
            return Ok(());
        }
        let At { set, .. } = self.at.as_ref().ok_or(std::io::ErrorKind::NotConnected)?;
        if let Some((_, old)) = self.awaited.take() {
            set.delete_number(old)?;
        }
        set.add(awaited.fd, token::CHANNEL, Interest::READ)?;
        self.awaited = Some(wanted);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(at) = self.at.take() else { return };
        if self.engine.is_dead() {
            // The descriptors were closed at the fork, and their numbers may belong to other files.
            std::mem::forget(at);
            return;
        }
        fork::forget(&at.set);
        fork::forget(&at.signals);
        drop(at);
        if self.sleeps {
            // The thread was cancelled, perhaps after a wake-up that it did not serve.
            self.engine.driver.wake();
        }
    }
}
