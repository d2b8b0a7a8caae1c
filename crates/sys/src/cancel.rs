//! pthread_cancel(3), which a program may do to a thread of its own while that is in a call of ours. A thread that sleeps
//! on behalf of the program must let itself be cancelled, as it could in read(2), but only there: who is cancelled
//! elsewhere may leave a lock locked for ever.

use std::marker::PhantomData;

use libc::c_int;

const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// The calling thread is not cancelled until this is dropped.
#[derive(Debug)]
pub struct Shield {
    state: c_int,
    /// It is about the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Shield {
    /// From now on.
    pub fn new() -> Shield {
        Shield { state: state(PTHREAD_CANCEL_DISABLE), _thread: PhantomData }
    }

    /// A system call during which the thread may be cancelled, if the program lets it be cancelled at all.
    ///
    /// The call must neither hold nor make anything that is to be dropped: it may not come back, and nothing that stands
    /// on the stack is dropped then.
    pub fn lift<R: Copy>(&self, call: impl FnOnce() -> R) -> R {
        let mut kind = 0;
        state(self.state);
        // SAFETY: a place for the old type, here and below. Only a system call is made meanwhile.
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

/// Set the state; answers what it was.
fn state(new: c_int) -> c_int {
    let mut old = 0;
    // SAFETY: a place for the old state.
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
