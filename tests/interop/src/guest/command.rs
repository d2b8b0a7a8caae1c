//! A test's view of a command in a guest: its output so far, signals, its end within a time limit.

use super::channel::{Frame, Kind};
use crate::proc::{Ended, listens};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum output kept of a command; the rest is ignored.
const TEXT_MAX: usize = 16 << 20;
/// Interval of queries to the guest while a test waits.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Time limit for a killed command to die.
const DIES_WITHIN: Duration = Duration::from_secs(5);

/// State of every command, and the channel to the guest.
#[derive(Debug)]
pub(super) struct Exchange {
    state: Mutex<State>,
    changed: Condvar,
    to_guest: Mutex<ChildStdin>,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    commands: BTreeMap<u32, Record>,
    ready: bool,
    /// The machine has ended.
    over: bool,
}

#[derive(Debug, Default)]
struct Record {
    text: Vec<u8>,
    status: Option<i32>,
}

impl Exchange {
    pub(super) fn new(to_guest: ChildStdin) -> Exchange {
        Exchange { state: Mutex::default(), changed: Condvar::new(), to_guest: Mutex::new(to_guest) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a frame from the guest.
    pub(super) fn on_frame(&self, frame: &Frame) {
        let mut state = self.state();
        state.ready |= frame.kind == Kind::Ready;
        if let Some(record) = state.commands.get_mut(&frame.id) {
            match frame.kind {
                Kind::Output if record.text.len() < TEXT_MAX => record.text.extend(&frame.body),
                Kind::Ended => record.status = frame.number(),
                _ => {}
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Handles the end of the machine: no more frames come.
    pub(super) fn on_end(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until the agent is ready.
    pub(super) fn wait_ready(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.ready || state.over).ready
    }

    pub(super) fn start(self: &Arc<Self>, words: &[&str]) -> GuestProc {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        state.commands.insert(id, Record::default());
        drop(state);
        self.say(&Frame::start(id, words));
        GuestProc { exchange: self.clone(), id, line: format!("guest: {}", words.join(" ")), started: Instant::now() }
    }

    fn say(&self, frame: &Frame) {
        let mut to_guest = self.to_guest.lock().unwrap_or_else(PoisonError::into_inner);
        // Waiting callers notice a dead machine.
        let _ = frame.write(&mut *to_guest);
    }

    fn wait(&self, limit: Duration, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let wait = self.changed.wait_timeout_while(self.state(), limit, |state| !until(state));
        wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A command that runs in a guest. Dropping it kills it.
#[derive(Debug)]
pub struct GuestProc {
    exchange: Arc<Exchange>,
    id: u32,
    /// The command line.
    pub line: String,
    started: Instant,
}

impl GuestProc {
    /// Returns its output so far.
    pub fn text(&self) -> String {
        let state = self.exchange.state();
        state.commands.get(&self.id).map(|r| String::from_utf8_lossy(&r.text).into_owned()).unwrap_or_default()
    }

    /// Returns whether it still runs.
    pub fn running(&self) -> bool {
        self.running_in(&self.exchange.state())
    }

    fn running_in(&self, state: &State) -> bool {
        !state.over && state.commands.get(&self.id).is_some_and(|record| record.status.is_none())
    }

    /// Sends `signal` to its process group.
    pub fn signal(&self, signal: Signal) {
        self.exchange.say(&Frame::new(self.id, Kind::Signal, signal.as_raw().to_le_bytes()));
    }

    /// Waits until `ready` holds of its output; false if it ended before or `limit` passed.
    pub fn wait_text(&self, limit: Duration, ready: impl Fn(&str) -> bool) -> bool {
        let enough = |state: &State| {
            let record = state.commands.get(&self.id);
            !self.running_in(state) || record.is_some_and(|r| ready(&String::from_utf8_lossy(&r.text)))
        };
        drop(self.exchange.wait(limit, enough));
        ready(&self.text())
    }

    /// Waits until a program in the guest listens on a TCP port; false if the command ended before or `limit` passed.
    pub fn wait_listening(&self, port: u16, limit: Duration) -> bool {
        self.wait_answer(limit, &["cat", "/proc/net/tcp", "/proc/net/tcp6"], |text| listens(text, port))
    }

    /// Runs a command in the guest repeatedly until `ready` holds of its output; false if this command ended before or
    /// `limit` passed.
    pub fn wait_answer(&self, limit: Duration, ask: &[&str], ready: impl Fn(&str) -> bool) -> bool {
        let until = Instant::now() + limit;
        while self.running() && Instant::now() < until {
            if ready(&self.exchange.start(ask).wait(limit).text) {
                return true;
            }
            std::thread::sleep(ASK_EVERY);
        }
        false
    }

    /// Copies its output to `out` as it comes, until it ends.
    pub fn follow(&self, out: &mut impl Write) -> io::Result<()> {
        let mut copied = 0;
        loop {
            let more = |state: &State| {
                !self.running_in(state) || state.commands.get(&self.id).is_some_and(|r| r.text.len() > copied)
            };
            let state = self.exchange.wait(Duration::MAX, more);
            let record = state.commands.get(&self.id);
            let piece = record.and_then(|r| r.text.get(copied..)).unwrap_or_default().to_vec();
            let running = self.running_in(&state);
            drop(state);
            copied += piece.len();
            out.write_all(&piece)?;
            out.flush()?;
            if piece.is_empty() && !running {
                return Ok(());
            }
        }
    }

    /// Waits for its end; kills it after `limit`.
    pub fn wait(self, limit: Duration) -> Ended {
        let running = |state: &State| self.running_in(state);
        drop(self.exchange.wait(limit, |state| !running(state)));
        let took = self.started.elapsed();
        if !self.running() {
            return self.ended(took, true);
        }
        self.signal(Signal::KILL);
        drop(self.exchange.wait(DIES_WITHIN, |state| !running(state)));
        self.ended(took, false)
    }

    /// Kills it now and returns its result.
    pub fn kill(self) -> Ended {
        self.wait(Duration::ZERO)
    }

    fn ended(&self, took: Duration, by_itself: bool) -> Ended {
        let state = self.exchange.state();
        let record = state.commands.get(&self.id);
        let status = record.and_then(|record| record.status).filter(|_| by_itself).map(ExitStatus::from_raw);
        let mut text = record.map(|r| String::from_utf8_lossy(&r.text).into_owned()).unwrap_or_default();
        if state.over && status.is_none() {
            text += "(the guest died)\n";
        }
        Ended { line: self.line.clone(), status, text, took }
    }
}

impl Drop for GuestProc {
    fn drop(&mut self) {
        if self.running() {
            self.signal(Signal::KILL);
        }
        self.exchange.state().commands.remove(&self.id);
    }
}
