//! pthread_cancel(3): a program may cancel one of its own threads while that thread is in a call of ours. A thread that
//! sleeps on behalf of the program must be cancellable, as in read(2), but only there: a thread cancelled elsewhere may
//! leave a lock locked for ever.

use std::marker::PhantomData;

use libc::c_int;

const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Disables cancellation of the calling thread until it is dropped.
#[derive(Debug)]
pub struct Shield {
    state: c_int,
    /// Ties the value to the thread that created it.
    _thread: PhantomData<*const ()>,
}

impl Shield {
    /// Disables cancellation from now on.
    pub fn new() -> Shield {
        Shield { state: state(PTHREAD_CANCEL_DISABLE), _thread: PhantomData }
    }

    /// Runs a system call during which the thread may be cancelled, if the program allows cancellation at all.
    ///
    /// The call must neither hold nor create a value that needs dropping: it may never return, and then no destructor
    /// on the stack runs.
    pub fn lift<R: Copy>(&self, call: impl FnOnce() -> R) -> R {
        let mut kind = 0;
        state(self.state);
        // SAFETY: the pointer names a place for the old type, here and below. Only a system call runs in between.
        unsafe { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &raw mut kind) };
        let result = call();
        // SAFETY: as above.
        unsafe { pthread_setcanceltype(kind, &raw mut kind) };
        state(PTHREAD_CANCEL_DISABLE);
        result
    }
}

impl Default for Shield {
    fn default() -> Shield {
        Shield::new()
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        state(self.state);
    }
}

/// Sets the cancellation state and returns the previous one.
fn state(new: c_int) -> c_int {
    let mut old = 0;
    // SAFETY: the pointer names a place for the old state.
    unsafe { pthread_setcancelstate(new, &raw mut old) };
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_what_it_was() {
        const PTHREAD_CANCEL_ENABLE: c_int = 0;
        {
            let shield = Shield::new();
            assert_eq!(state(PTHREAD_CANCEL_DISABLE), PTHREAD_CANCEL_DISABLE);
            let inside = shield.lift(|| {
                let seen = state(PTHREAD_CANCEL_ENABLE);
                state(seen);
                seen
            });
            assert_eq!(inside, PTHREAD_CANCEL_ENABLE, "a program's threads can be cancelled");
            assert_eq!(state(PTHREAD_CANCEL_DISABLE), PTHREAD_CANCEL_DISABLE);
        }
        assert_eq!(state(PTHREAD_CANCEL_ENABLE), PTHREAD_CANCEL_ENABLE);
    }
}
