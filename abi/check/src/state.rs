//! The state of the process under one lock: the model, the stacks, completions held back.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use weft_abi_types::ibv_wc;
use weft_check::model::{Finding, Model};

use crate::errno;
use crate::lock::Guarded;
use crate::snapshot::ProcessMemory;
use crate::stacks::Stacks;
use crate::waits::Waits;

/// Everything that the process's calls share.
pub struct State {
    pub model: Model,
    memory: ProcessMemory,
    pub stacks: Stacks,
    /// Completions that the checker took out of a queue and has not yet given to the program.
    pub held: HashMap<u64, VecDeque<ibv_wc>>,
    /// Waits for completion events.
    pub waits: Waits,
    snapshot_bytes_max: u64,
}

static STATE: Guarded<Option<State>> = Guarded::new(None);
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether completions were ever held back.
pub static HAS_HELD: AtomicBool = AtomicBool::new(false);

/// Whether the program is checked.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Whether the checker may hold completions of a queue.
pub fn has_held() -> bool {
    HAS_HELD.load(Ordering::Relaxed)
}

/// Begins to check the program. The library's constructor calls this before any other thread exists.
pub fn start(snapshot_bytes_max: u64) {
    STATE.with(|state| *state = Some(State::new(snapshot_bytes_max, Stacks::default())));
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Checks nothing more.
pub fn stop() {
    ACTIVE.store(false, Ordering::Relaxed);
}

/// Runs `f` on the state. `f` calls nothing that waits for another thread or for the loader, and does not come back here.
pub fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    // The state exists from the constructor on; calls before it are not checked.
    let fresh = || State::new(0, Stacks::default());
    errno::preserved(|| STATE.with(|state| f(state.get_or_insert_with(fresh))))
}

/// Before a fork: no other thread is inside.
pub fn before_fork() {
    STATE.before_fork();
}

/// After a fork, in the parent.
pub fn after_fork() {
    STATE.after_fork();
}

/// After a fork, in the child: none of the parent's objects is usable.
pub fn in_child() {
    STATE.in_child();
    with(|state| {
        let stacks = std::mem::take(&mut state.stacks);
        *state = State::new(state.snapshot_bytes_max, stacks);
    });
}

impl State {
    fn new(snapshot_bytes_max: u64, stacks: Stacks) -> State {
        State {
            model: Model::new(snapshot_bytes_max),
            memory: ProcessMemory::default(),
            stacks,
            held: HashMap::new(),
            waits: Waits::default(),
            snapshot_bytes_max,
        }
    }

    /// Tells the model about a call. Returns the breaches.
    pub fn tell<R>(&mut self, f: impl FnOnce(&mut Model, &mut ProcessMemory) -> R) -> (R, Vec<Finding>) {
        // SAFETY: no arguments.
        self.model.set_thread(unsafe { libc::pthread_self() } as u64);
        let result = f(&mut self.model, &mut self.memory);
        (result, self.model.take_findings())
    }
}
