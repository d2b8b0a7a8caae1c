//! A mutex that survives fork: the child starts with an unlocked one.

use std::cell::UnsafeCell;

/// A pthread mutex.
pub struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for Lock {}

/// Unlocks when dropped.
pub struct Locked<'a>(&'a Lock);

impl Lock {
    /// An unlocked one.
    pub const fn new() -> Lock {
        Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Waits until no other thread holds it.
    pub fn lock(&self) -> Locked<'_> {
        self.acquire();
        Locked(self)
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
        self.0.release();
    }
}
