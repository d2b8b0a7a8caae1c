//! One call of the program: the outermost of this library's wrappers on its thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_check::model::{Model, Site, StackId};

use crate::snapshot::ProcessMemory;
use crate::{stacks, state};

thread_local! {
    /// Whether this thread is in a wrapper: calls that libraries make on the program's behalf pass unchecked.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// The thread that made the first call, and whether others made later ones.
static FIRST_THREAD: AtomicU64 = AtomicU64::new(0);
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// Whether several threads have used verbs: another one may go on with what this thread waits for.
pub fn have_several_threads() -> bool {
    HAS_OTHERS.load(Ordering::Relaxed)
}

fn note_thread() {
    // SAFETY: no arguments.
    let thread = unsafe { libc::pthread_self() } as u64;
    if FIRST_THREAD.load(Ordering::Relaxed) != thread
        && FIRST_THREAD.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        HAS_OTHERS.store(true, Ordering::Relaxed);
    }
}

/// A call in progress.
pub struct Call {
    name: &'static str,
    stack: Cell<Option<StackId>>,
}

impl Call {
    /// Begins a call; `None` if it passes unchecked.
    pub fn enter(name: &'static str) -> Option<Call> {
        let call = Call::enter_unnoted(name)?;
        note_thread();
        Some(call)
    }

    /// As [`Call::enter`], for a call that is none of verbs.
    pub fn enter_unnoted(name: &'static str) -> Option<Call> {
        if !state::is_active() {
            return None;
        }
        // A thread that ends has no thread-local storage left.
        let is_inner = IN_CALL.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!is_inner).then(|| Call { name, stack: Cell::new(None) })
    }

    /// The call that this thread began and has forgotten ([`std::mem::forget`]): it ends when this is dropped.
    pub fn resume(name: &'static str) -> Call {
        Call { name, stack: Cell::new(None) }
    }

    /// Tells the model about the call, with its stack.
    pub fn tell<R>(&self, f: impl FnOnce(&mut Model, Site) -> R) -> R {
        self.tell_with_memory(|model, _, site| f(model, site))
    }

    /// As [`Call::tell`]; the model also reads the program's memory.
    pub fn tell_with_memory<R>(&self, f: impl FnOnce(&mut Model, &mut ProcessMemory, Site) -> R) -> R {
        state::with(|state| {
            let stack = self.stack.get().unwrap_or_else(|| state.stacks.capture());
            self.stack.set(Some(stack));
            state.tell(stack, |model, memory| f(model, memory, Site { call: self.name, stack }))
        })
    }

    /// Tells the model about a frequent call, whose stack is captured only if it breaks a rule.
    pub fn tell_briefly<R>(&self, f: impl FnOnce(&mut Model, &mut ProcessMemory, Site) -> R) -> R {
        let stack = self.stack.get().unwrap_or(stacks::CURRENT);
        state::with(|state| state.tell(stack, |model, memory| f(model, memory, Site { call: self.name, stack })))
    }

    /// Whether a library with a cache of registrations makes the call. It learns from its hooks that memory goes away, and
    /// deregisters it soon after.
    pub fn is_from_cache(&self) -> bool {
        stacks::is_any_in(&self.frames(), &REGISTRATION_CACHES)
    }

    /// Whether librdmacm makes the call for itself.
    pub fn is_from_connection_manager(&self) -> bool {
        stacks::is_called_by(&self.frames(), "librdmacm")
    }

    fn frames(&self) -> Vec<usize> {
        let stack = self.tell(|_, site| site.stack);
        state::with(|state| state.stacks.frames(stack))
    }
}

/// Libraries with caches of registrations.
const REGISTRATION_CACHES: [&str; 6] = ["libucs", "libuct", "libfabric", "libopen-pal", "libmpi", "libnccl"];

impl Drop for Call {
    fn drop(&mut self) {
        let _ = IN_CALL.try_with(|inside| inside.set(false));
    }
}
