//! Bound on the data of writes that programs do not wait for, over all files of a mount.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of bytes, of which parts are taken and given back.
#[derive(Debug)]
pub struct Budget {
    max: usize,
    used: Mutex<usize>,
    given: Condvar,
}

impl Budget {
    /// Creates a budget.
    pub fn new(max: usize) -> Budget {
        Budget { max, used: Mutex::new(0), given: Condvar::new() }
    }

    /// Takes bytes; waits until there are so many. One request always fits.
    pub fn take(&self, bytes: usize) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && *used + bytes > self.max;
        let mut used = self.given.wait_while(used, is_full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(bytes);
        self.given.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_room_and_one_always_fits() {
        let budget = Budget::new(10);
        budget.take(100);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| budget.take(5));
            budget.give(100);
            waits.join().expect("taken");
        });
        assert_eq!(*budget.used.lock().expect("no panic"), 5);
    }
}
