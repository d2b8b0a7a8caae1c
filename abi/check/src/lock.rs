//! A mutex that survives fork: the child starts with an unlocked one. A thread that holds it cannot be cancelled
//! (pthread_cancel), which would leave it locked for ever: no destructor runs then.

use std::cell::UnsafeCell;

use libc::c_int;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Sets the calling thread's cancellation state, and returns the previous one.
fn set_cancel_state(new: c_int) -> c_int {
    let mut old = 0;
    // SAFETY: a place for the old state.
    unsafe { pthread_setcancelstate(new, &raw mut old) };
    old
}

/// Runs `f`, in which the thread cannot be cancelled.
pub fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    let before = set_cancel_state(PTHREAD_CANCEL_DISABLE);
    let result = f();
    set_cancel_state(before);
    result
}

/// A pthread mutex.
pub struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for Lock {}

/// Unlocks when dropped.
pub struct Locked<'a> {
    lock: &'a Lock,
    /// The thread's cancellation state before.
    cancel_state: c_int,
}

impl Lock {
    /// An unlocked one.
    pub const fn new() -> Lock {
        Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Waits until no other thread holds it.
    pub fn lock(&self) -> Locked<'_> {
        let cancel_state = set_cancel_state(PTHREAD_CANCEL_DISABLE);
        self.acquire();
        Locked { lock: self, cancel_state }
    }

    /// Locks without a guard, for the handlers of fork.
    pub fn acquire(&self) {
        // SAFETY: an initialised mutex that never moves.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Unlocks what [`Lock::acquire`] locked.
    pub fn release(&self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Makes it new. Only the single thread of a forked child may call this.
    pub fn reset(&self) {
        // SAFETY: no other thread exists; the place holds a mutex.
        unsafe { self.0.get().write(libc::PTHREAD_MUTEX_INITIALIZER) };
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.release();
        set_cancel_state(self.cancel_state);
    }
}

/// A value under a lock.
pub struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// Under an unlocked one.
    pub const fn new(value: T) -> Guarded<T> {
        Guarded { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `f` on the value. A thread that comes back to the same lock waits for ever.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _locked = self.lock.lock();
        // SAFETY: the lock is held until `f` has returned, and every other reference needs it.
        f(unsafe { &mut *self.value.get() })
    }

    /// Before a fork: waits until no other thread is inside, so that the child has a whole value.
    pub fn before_fork(&self) {
        self.lock.acquire();
    }

    /// After a fork, in the parent.
    pub fn after_fork(&self) {
        self.lock.release();
    }

    /// After a fork, in the child.
    pub fn in_child(&self) {
        self.lock.reset();
    }
}
