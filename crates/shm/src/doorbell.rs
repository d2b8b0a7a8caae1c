//! Doorbell: how a process that writes to shared memory wakes the process that reads it. A sleep word in the memory says
//! whether the reader sleeps, so that the writer makes a system call only if it does.
//!
//! ```text
//! reader: sleep word := asleep   fence   anything there? no: sleep until the bell rings
//! writer: publishes              fence   reader asleep?  yes: ring
//! ```
//!
//! Each side writes and then reads what the other wrote. The fences between let at least one of them see the other's
//! write: either the reader finds what was published, or the writer finds it asleep. The writer's fence serves any
//! number of readers.

use std::os::fd::OwnedFd;

use weft_sys::bell;
use weft_sys::event::EventFd;
use weft_sys::shared::Shared;
use weft_sys::sync::{AtomicU64, Ordering, fence};

/// Orders everything that the caller published before its checks of sleep words.
#[inline]
pub fn fence_before_check() {
    fence(Ordering::SeqCst);
}

/// The values of a sleep word. Memory begins with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SleepStates {
    /// The sleeper polls.
    pub awake: u64,
    /// The sleeper must be called.
    pub asleep: u64,
    /// The sleeper was called, and no other call is needed.
    pub called: u64,
}

impl SleepStates {
    /// The sleeper has to be called first: a daemon that serves many.
    pub const ASLEEP_AT_FIRST: SleepStates = SleepStates { asleep: 0, called: 1, awake: 2 };
    /// The sleeper polls at first: a program that has just opened its end.
    pub const AWAKE_AT_FIRST: SleepStates = SleepStates { awake: 0, asleep: 1, called: 2 };
    /// A request to be called, which the call withdraws.
    pub const REQUEST: SleepStates = SleepStates { awake: 0, asleep: 1, called: 0 };
}

/// A sleep word between one sleeper and one waker, which both change: the call is in the word, so that the waker rings
/// once for each sleep, whatever its threads do.
#[derive(Clone, Copy, Debug)]
pub struct SleepWord {
    at: usize,
    states: SleepStates,
}

impl SleepWord {
    /// Describes the word at an offset.
    pub const fn new(at: usize, states: SleepStates) -> SleepWord {
        SleepWord { at, states }
    }

    fn of(self, memory: &Shared) -> &AtomicU64 {
        memory.word(self.at)
    }

    /// Announces that the sleeper must be called from now on. The sleeper then checks once more for work.
    pub fn fall_asleep(self, memory: &Shared) {
        self.of(memory).swap(self.states.asleep, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Announces that the sleeper polls. It reads the call that it answers, so that everything before the call is
    /// visible.
    pub fn wake_up(self, memory: &Shared) {
        self.of(memory).swap(self.states.awake, Ordering::SeqCst);
    }

    /// Does the same if the sleeper was asleep or called; returns whether it was.
    #[inline]
    pub fn wake_up_if_asleep(self, memory: &Shared) -> bool {
        let word = self.of(memory);
        word.load(Ordering::Relaxed) != self.states.awake
            && word.swap(self.states.awake, Ordering::SeqCst) != self.states.awake
    }

    /// Returns whether the sleeper must be called.
    #[inline]
    pub fn is_asleep(self, memory: &Shared) -> bool {
        self.of(memory).load(Ordering::Relaxed) == self.states.asleep
    }

    /// Returns whether the caller must call the sleeper: it sleeps, and no other call is on its way. Needs
    /// [`fence_before_check`] after what the caller published, unless it published by a sequentially consistent access.
    #[inline]
    pub fn must_call(self, memory: &Shared) -> bool {
        let (word, SleepStates { asleep, called, .. }) = (self.of(memory), self.states);
        word.load(Ordering::SeqCst) == asleep
            && word.compare_exchange(asleep, called, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// The sleeper's side of a sleep word that the sleeper alone writes, for any number of wakers that may only read it. The
/// word is zero, or the number of the sleep.
#[derive(Debug, Default)]
pub struct SleepCount {
    sleeps: u64,
    asleep: bool,
}

impl SleepCount {
    /// Announces a sleep: `write` stores a value in each copy of the word. The sleeper then checks once more for work.
    pub fn fall_asleep(&mut self, write: impl FnOnce(u64)) {
        self.sleeps += 1;
        self.asleep = true;
        write(self.sleeps);
        fence(Ordering::SeqCst);
    }

    /// Announces the end of the sleep, if there was one.
    #[inline]
    pub fn wake_up(&mut self, write: impl FnOnce(u64)) {
        if std::mem::replace(&mut self.asleep, false) {
            write(0);
        }
    }
}

/// A waker's side of such a word: it rings once for each sleep.
#[derive(Debug, Default)]
pub struct SleepWatch {
    /// The last sleep for which it rang.
    rung: u64,
}

impl SleepWatch {
    /// Returns whether the caller must ring, by the value of the word, read after [`fence_before_check`].
    #[inline]
    pub fn must_ring(&mut self, word: u64) -> bool {
        word != 0 && std::mem::replace(&mut self.rung, word) != word
    }
}

/// The descriptor by which a sleeper is woken.
#[derive(Debug)]
pub enum Doorbell {
    /// A counter that the sleeper gives to all processes that it trusts.
    Counter(EventFd),
    /// A bell for one waker alone.
    Bell(OwnedFd),
}

impl Doorbell {
    /// Wakes the sleeper.
    pub fn ring(&self) {
        match self {
            Doorbell::Counter(counter) => counter.signal(),
            Doorbell::Bell(end) => bell::ring(end),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_called_once_for_each_sleep() {
        for states in [SleepStates::ASLEEP_AT_FIRST, SleepStates::AWAKE_AT_FIRST] {
            let memory = Shared::private(4096).unwrap();
            let word = SleepWord::new(128, states);
            assert_eq!(word.must_call(&memory), states.asleep == 0);
            for _ in 0..3 {
                word.wake_up(&memory);
                assert!(!word.must_call(&memory) && !word.wake_up_if_asleep(&memory));
                word.fall_asleep(&memory);
                assert!(word.is_asleep(&memory) && word.must_call(&memory) && !word.must_call(&memory));
                assert!(word.wake_up_if_asleep(&memory));
            }
        }
    }

    #[test]
    fn a_request_is_answered_once() {
        let (memory, word) = (Shared::private(4096).unwrap(), SleepWord::new(0, SleepStates::REQUEST));
        assert!(!word.must_call(&memory));
        word.fall_asleep(&memory);
        assert!(word.must_call(&memory) && !word.must_call(&memory) && !word.wake_up_if_asleep(&memory));
    }

    #[test]
    fn each_waker_rings_once_for_each_counted_sleep() {
        let (mut count, mut wakers) = (SleepCount::default(), [SleepWatch::default(), SleepWatch::default()]);
        let word = std::cell::Cell::new(0);
        for _ in 0..3 {
            assert!(!wakers.iter_mut().any(|waker| waker.must_ring(word.get())));
            count.fall_asleep(|value| word.set(value));
            assert!(wakers.iter_mut().all(|waker| waker.must_ring(word.get())));
            assert!(!wakers.iter_mut().any(|waker| waker.must_ring(word.get())));
            count.wake_up(|value| word.set(value));
            count.wake_up(|_| panic!("it is awake"));
        }
    }
}
