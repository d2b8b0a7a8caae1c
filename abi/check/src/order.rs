//! Keeps the model's order of posts and polls that of the library: a lock for each queue, which its users hold in turn.
//!
//! The model's own lock is not held while the library works, because the library may wait for a thread that needs it.

use crate::extended;
use crate::lock::{Lock, Locked};

const COUNT: usize = 64;

static LOCKS: [Lock; COUNT] = [const { Lock::new() }; COUNT];

/// Takes the lock of the queue at this address; `None` if the library's own lock orders its users. No thread holds two.
pub fn lock_of(queue: u64) -> Option<Locked<'static>> {
    if extended::has_own_order(queue) {
        return None;
    }
    // Heap addresses differ from bit 4 on.
    let mixed = queue.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    Some(LOCKS[usize::try_from(mixed).unwrap_or(0) % COUNT].lock())
}

/// Frees all locks in a forked child.
pub fn reset() {
    LOCKS.iter().for_each(Lock::reset);
}
