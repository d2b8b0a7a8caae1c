//! Where the daemon runs while it looks for requests by itself: elsewhere than the program that it serves. The scheduler
//! wakes the one on the other's processor, where neither gets on while the other looks, so the daemon keeps off that
//! processor as long as requests come densely, and goes anywhere again when it is next woken for something else.

use std::time::{Duration, Instant};

use weft_sys::processors::{self, Processors};

/// Who is disturbed elsewhere stays where it is for so long, and twice as long each time.
const PENALTY: Duration = Duration::from_millis(20);

/// At most.
const PENALTY_MAX: Duration = Duration::from_secs(1);

/// Who was not disturbed for so long is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Placement {
    confined: Option<Confined>,
    /// The program runs on another processor, as far as is known.
    apart: bool,
    penalty: Duration,
    disturbed: Option<Instant>,
}

#[derive(Debug)]
struct Confined {
    /// Where the daemon might run before, and where it does now.
    before: Processors,
    now: Processors,
}

impl Placement {
    /// Whether the program and the daemon run on different processors.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Keeps off the processor of a program, where that can be.
    pub fn keep_off(&mut self, now: Instant, program: Option<usize>) {
        let here = processors::current();
        self.apart = program.is_some() && here.is_some() && here != program;
        let Some(program) = program.filter(|_| !self.apart) else { return };
        let since = self.disturbed.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        if since < self.penalty {
            return;
        }
        if since >= self.penalty + FORGIVEN_AFTER {
            self.penalty = Duration::ZERO;
        }
        // A program that moved here is left, not driven back and forth.
        self.go_anywhere();
        let Ok(before) = Processors::allowed() else { return };
        let Some(now) = before.without(program) else { return };
        if now.confine().is_ok() {
            self.confined = Some(Confined { before, now });
            self.apart = true;
        }
    }

    /// Somebody else wanted this processor.
    pub fn on_disturbed(&mut self, now: Instant) {
        if self.confined.is_some() {
            self.penalty = (self.penalty * 2).clamp(PENALTY, PENALTY_MAX);
            self.disturbed = Some(now);
            self.go_anywhere();
        }
    }

    /// Runs where it might before, unless somebody has decided otherwise meanwhile.
    pub fn go_anywhere(&mut self) {
        if let Some(Confined { before, now }) = self.confined.take()
            && Processors::allowed().is_ok_and(|allowed| allowed == now)
        {
            let _ = before.confine();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, for it is moved about.
    fn alone(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn it_leaves_the_programs_processor_and_comes_back() {
        alone(|| {
            let all = Processors::allowed().unwrap();
            let mut placement = Placement::default();
            let (now, here) = (Instant::now(), processors::current().unwrap());
            placement.keep_off(now, None);
            assert!(!placement.is_apart() && Processors::allowed().unwrap() == all);
            let Some(rest) = all.without(here) else { return };
            placement.keep_off(now, Some(here));
            // It may have been moved between the two calls, and be apart already.
            if placement.confined.is_some() {
                assert!(placement.is_apart() && Processors::allowed().unwrap() == rest);
            }
            placement.go_anywhere();
            assert_eq!(Processors::allowed().unwrap(), all);
        });
    }

    #[test]
    fn who_is_disturbed_elsewhere_stays_for_a_while() {
        alone(|| {
            let all = Processors::allowed().unwrap();
            let (mut placement, now) = (Placement::default(), Instant::now());
            let until_confined = |placement: &mut Placement, now| {
                (0..1000).any(|_| {
                    placement.keep_off(now, processors::current());
                    placement.confined.is_some()
                })
            };
            if !until_confined(&mut placement, now) {
                return;
            }
            placement.on_disturbed(now);
            assert_eq!(Processors::allowed().unwrap(), all);
            assert!(!until_confined(&mut placement, now + PENALTY / 2));
            assert!(until_confined(&mut placement, now + PENALTY));
            placement.on_disturbed(now);
            assert_eq!(placement.penalty, PENALTY * 2);
            placement.go_anywhere();
        });
    }
}
