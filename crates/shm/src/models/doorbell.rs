//! A wait without an end is a lost wake-up: loom reports it as too many branches.

use loom::sync::Arc;
use loom::thread;
use weft_sys::shared::Shared;
use weft_sys::sync::{AtomicU64, Ordering};

use crate::{SleepCount, SleepStates, SleepWatch, SleepWord, fence_before_check};

const PUBLISHED_AT: usize = 0;
const SLEEP_AT: usize = 64;
/// Published values.
const VALUES: u64 = 2;

fn memory() -> Arc<Shared> {
    Arc::new(Shared::private(256).unwrap())
}

/// A bell: a system call, and so outside of the model.
#[derive(Clone, Default)]
struct Bell(std::sync::Arc<std::sync::atomic::AtomicU64>);

impl Bell {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn wait(&self) {
        while self.0.swap(0, Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}

fn published(memory: &Shared) -> u64 {
    memory.word(PUBLISHED_AT).load(Ordering::Acquire)
}

fn publish(memory: &Shared, value: u64) {
    memory.word(PUBLISHED_AT).store(value, Ordering::Release);
    fence_before_check();
}

fn model_word(states: SleepStates) {
    loom::model(move || {
        let (memory, bell, word) = (memory(), Bell::default(), SleepWord::new(SLEEP_AT, states));
        let (theirs, rings) = (memory.clone(), bell.clone());
        let writer = thread::spawn(move || {
            for value in 1..=VALUES {
                publish(&theirs, value);
                if word.must_call(&theirs) {
                    rings.ring();
                }
            }
        });
        while published(&memory) != VALUES {
            word.fall_asleep(&memory);
            if published(&memory) == VALUES {
                break;
            }
            bell.wait();
            word.wake_up(&memory);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_is_called_after_each_publication() {
    model_word(SleepStates::ASLEEP_AT_FIRST);
    model_word(SleepStates::AWAKE_AT_FIRST);
}

#[test]
fn loom_a_request_is_answered_after_each_publication() {
    model_word(SleepStates::REQUEST);
}

#[test]
fn loom_a_sleeper_that_counts_is_rung_by_each_of_its_wakers() {
    loom::model(|| {
        let (memory, bell) = (memory(), Bell::default());
        let wakers: Vec<_> = [PUBLISHED_AT, PUBLISHED_AT + 8]
            .into_iter()
            .map(|at| {
                let (theirs, rings) = (memory.clone(), bell.clone());
                thread::spawn(move || {
                    theirs.word(at).store(1, Ordering::Release);
                    fence_before_check();
                    if SleepWatch::default().must_ring(theirs.word(SLEEP_AT).load(Ordering::Relaxed)) {
                        rings.ring();
                    }
                })
            })
            .collect();
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        let all = || memory.words::<2>(PUBLISHED_AT).iter().map(load).sum::<u64>() == 2;
        let (mut count, write) = (SleepCount::default(), |word| memory.word(SLEEP_AT).store(word, Ordering::Relaxed));
        while !all() {
            count.fall_asleep(write);
            if !all() {
                bell.wait();
            }
            count.wake_up(write);
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}
