//! Calls that take their time, as calls do that a scheduler interrupts.

use std::time::Duration;

use super::{dice, on};

/// Kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// A control verb.
    Control,
    /// A post to a send queue.
    Send,
    /// A post to a receive queue.
    Receive,
}

impl Call {
    /// Returns one in how many calls is slow, and its longest delay in microseconds.
    fn odds(self) -> (u64, u64) {
        match self {
            Call::Control => (3, 3000),
            Call::Send => (64, 200),
            Call::Receive => (8, 1000),
        }
    }
}

/// Waits before a call, now and then.
#[inline]
pub fn dawdle(call: Call) {
    if on() {
        pause(call);
    }
}

#[cold]
fn pause(call: Call) {
    let (one_in, longest) = call.odds();
    if dice::below(one_in) == 0 {
        std::thread::sleep(Duration::from_micros(dice::below(longest)));
    }
}
