//! One call of the program: the outermost of this library's wrappers on its thread.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_check::model::{Finding, Model, Site, StackId};

use crate::errno;
use crate::reporter::{self, Breach};
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
        self.tell_at(self.stack(), f)
    }

    /// Tells the model about a frequent call, whose stack is captured only if it breaks a rule.
    pub fn tell_briefly<R>(&self, f: impl FnOnce(&mut Model, &mut ProcessMemory, Site) -> R) -> R {
        self.tell_at(self.stack.get().unwrap_or(stacks::CURRENT), f)
    }

    fn tell_at<R>(&self, stack: StackId, f: impl FnOnce(&mut Model, &mut ProcessMemory, Site) -> R) -> R {
        let site = Site { call: self.name, stack };
        let (result, findings) = state::with(|state| state.tell(|model, memory| f(model, memory, site)));
        self.report(findings);
        result
    }

    /// The breaches that the call brings up if it succeeds, for [`Call::report`].
    pub fn foresee(&self, f: impl FnOnce(&mut Model, Site)) -> Vec<Finding> {
        let site = Site { call: self.name, stack: self.stack.get().unwrap_or(stacks::CURRENT) };
        state::with(|state| state.tell(|model, _| f(model, site))).1
    }

    /// Reports breaches of this call.
    pub fn report(&self, findings: Vec<Finding>) {
        if findings.is_empty() {
            return;
        }
        let current = self.stack();
        let resolve = |stack: StackId| if stack == stacks::CURRENT { current } else { stack };
        let breach = |finding: Finding| {
            let stack = resolve(finding.site.stack);
            state::with(|state| {
                let history = finding.history.iter();
                let history =
                    history.map(|(what, stack)| (what.clone(), state.stacks.frames(resolve(*stack)))).collect();
                Breach { stack, frames: state.stacks.frames(stack), history, finding }
            })
        };
        errno::preserved(|| findings.into_iter().map(breach).for_each(reporter::report));
    }

    /// The call's stack.
    fn stack(&self) -> StackId {
        let stack = self.stack.get().unwrap_or_else(|| errno::preserved(capture));
        self.stack.set(Some(stack));
        stack
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
        let stack = self.stack();
        state::with(|state| state.stacks.frames(stack))
    }
}

/// Frames of a stack, this library's own included.
const FRAMES_MAX: usize = 24;

/// Stores the stack of the call in progress. The state is not locked while the stack is unwound: the unwinder may wait for the
/// loader.
#[inline(never)]
fn capture() -> StackId {
    let mut frames = [null_mut::<c_void>(); FRAMES_MAX];
    let pointer = (&raw const frames).addr();
    if let Some(known) = state::with(|state| state.stacks.find(pointer)) {
        return known;
    }
    // SAFETY: the array has room for so many frames.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as i32) };
    let count = usize::try_from(count).unwrap_or(0).min(FRAMES_MAX);
    let addresses: Vec<usize> = frames[..count].iter().map(|frame| frame.addr()).collect();
    // The array itself must not be taken for the stack, nor the frame of this function, which has changed since.
    frames.fill(null_mut());
    let callers = addresses.get(1..).unwrap_or_default();
    state::with(|state| state.stacks.store(pointer, callers))
}

/// Libraries with caches of registrations.
const REGISTRATION_CACHES: [&str; 6] = ["libucs", "libuct", "libfabric", "libopen-pal", "libmpi", "libnccl"];

impl Drop for Call {
    fn drop(&mut self) {
        let _ = IN_CALL.try_with(|inside| inside.set(false));
    }
}
