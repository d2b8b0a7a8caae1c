//! The state of the process under one lock: the model, the stacks, the file of reports.

use std::cell::UnsafeCell;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_abi_types::ibv_wc;
use weft_check::model::{Finding, Model, StackId};
use weft_check::{End, HistoryEntry, Line, Repeat, Report};

use crate::lock::Lock;
use crate::snapshot::ProcessMemory;
use crate::stacks::{CURRENT, Stacks};
use crate::waits::Waits;
use crate::writer::Writer;

/// Reports that a process writes. Later ones are counted.
const REPORTS_MAX: u32 = 1000;

/// Everything that the process's calls share.
pub struct State {
    pub model: Model,
    memory: ProcessMemory,
    pub stacks: Stacks,
    pub writer: Writer,
    /// Completions that the checker took out of a queue and has not yet given to the program.
    pub stash: HashMap<u64, VecDeque<ibv_wc>>,
    /// Waits for completion events.
    pub waits: Waits,
    snapshot_bytes_max: u64,
    program: String,
    /// Reports by rule and stack: the place in the file, and how often.
    seen: HashMap<(&'static str, StackId), (u32, u64)>,
    reports: u32,
    dropped: u64,
}

struct Shared(UnsafeCell<Option<State>>);

// SAFETY: LOCK guards the contents.
unsafe impl Sync for Shared {}

static LOCK: Lock = Lock::new();
static STATE: Shared = Shared(UnsafeCell::new(None));
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether the stash was ever used.
pub static HAS_STASH: AtomicBool = AtomicBool::new(false);

/// Whether the program is checked.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Whether the checker may hold completions of a queue.
pub fn has_stash() -> bool {
    HAS_STASH.load(Ordering::Relaxed)
}

/// Begins to check the program. The library's constructor calls this before any other thread exists.
pub fn start(dir: PathBuf, snapshot_bytes_max: u64) {
    let state = State::new(dir, snapshot_bytes_max);
    let _turn = LOCK.lock();
    // SAFETY: the lock is held.
    unsafe { *STATE.0.get() = Some(state) };
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Checks nothing more.
pub fn stop() {
    ACTIVE.store(false, Ordering::Relaxed);
}

/// Runs `f` on the state. `f` calls nothing that waits for another thread.
pub fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    // SAFETY: this thread's own. The program reads the error of the library's call after the checker has looked at it.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let turn = LOCK.lock();
    // SAFETY: the lock is held, and no caller of this function is inside `f`: wrappers do not nest.
    let state = unsafe { &mut *STATE.0.get() };
    // The state exists from the constructor on; calls before it are not checked.
    let result = f(state.get_or_insert_with(|| State::new(PathBuf::from("/nonexistent"), 0)));
    drop(turn);
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// Before a fork: no other thread is inside.
pub fn before_fork() {
    LOCK.acquire();
}

/// After a fork, in the parent.
pub fn after_fork() {
    LOCK.release();
}

/// After a fork, in the child: it has a file of its own, and none of the parent's objects is usable.
pub fn in_child() {
    LOCK.reset();
    with(|state| {
        let fresh = State::new(state.writer.dir().clone(), state.snapshot_bytes_max);
        let stacks = std::mem::take(&mut state.stacks);
        *state = State { stacks, ..fresh };
    });
}

impl State {
    fn new(dir: PathBuf, snapshot_bytes_max: u64) -> State {
        let program = std::env::current_exe().unwrap_or_default().to_string_lossy().into_owned();
        State {
            model: Model::new(snapshot_bytes_max),
            memory: ProcessMemory::default(),
            stacks: Stacks::default(),
            writer: Writer::new(dir),
            stash: HashMap::new(),
            waits: Waits::default(),
            snapshot_bytes_max,
            program,
            seen: HashMap::new(),
            reports: 0,
            dropped: 0,
        }
    }

    /// Tells the model about a call, and writes the breaches.
    pub fn tell<R>(&mut self, stack: StackId, f: impl FnOnce(&mut Model, &mut ProcessMemory) -> R) -> R {
        // SAFETY: no arguments.
        self.model.set_thread(unsafe { libc::pthread_self() } as u64);
        let result = f(&mut self.model, &mut self.memory);
        if self.model.has_findings() {
            let stack = if stack == CURRENT { self.stacks.capture() } else { stack };
            for finding in self.model.take_findings() {
                self.report(finding, stack);
            }
        }
        result
    }

    fn report(&mut self, finding: Finding, current: StackId) {
        let resolve = |stack: StackId| if stack == CURRENT { current } else { stack };
        let stack = resolve(finding.site.stack);
        if let Some((place, count)) = self.seen.get_mut(&(finding.rule.name, stack)) {
            *count += 1;
            if count.is_power_of_two() {
                let repeat = Repeat { report: *place, count: *count };
                self.writer.write(&Line::Repeat { repeat });
            }
            return;
        }
        if self.reports == REPORTS_MAX {
            self.dropped += 1;
            return;
        }
        self.seen.insert((finding.rule.name, stack), (self.reports, 1));
        self.reports += 1;
        let history = finding.history.into_iter();
        let history =
            history.map(|(what, stack)| HistoryEntry { what, stack: self.stacks.names(resolve(stack)) }).collect();
        // SAFETY: no arguments.
        let thread = unsafe { libc::gettid() };
        self.writer.report(Report {
            rule: finding.rule.name.to_owned(),
            severity: finding.rule.severity,
            message: finding.message,
            object: finding.object,
            call: finding.site.call.to_owned(),
            stack: self.stacks.names(stack),
            history,
            clause: finding.rule.clause.to_owned(),
            advice: finding.rule.advice.to_owned(),
            count: 1,
            program: self.program.clone(),
            pid: std::process::id(),
            thread: u32::try_from(thread).unwrap_or(0),
        });
    }

    /// Writes the last counts of reports, and the totals.
    pub fn finish(&mut self) {
        let mut repeats: Vec<_> = self.seen.values().filter(|(_, count)| !count.is_power_of_two()).copied().collect();
        repeats.sort_unstable();
        for (report, count) in repeats {
            self.writer.write(&Line::Repeat { repeat: Repeat { report, count } });
        }
        let counters = self.model.counters();
        let end = End {
            program: self.program.clone(),
            pid: std::process::id(),
            requests: counters.requests,
            completions: counters.completions,
            buffers_compared: counters.buffers_compared,
            buffers_skipped: counters.buffers_skipped,
            untracked: counters.untracked,
            reports_dropped: self.dropped,
        };
        self.writer.write(&Line::End { end });
    }
}
