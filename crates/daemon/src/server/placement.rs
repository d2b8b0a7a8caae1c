//! Choice of the processor for the daemon's polling: another than that of the program that it serves. The scheduler
//! wakes each on the other's processor, where neither makes progress while the other polls. So the daemon avoids that
//! processor as long as requests are frequent, and lifts the restriction when it is next woken for other work.

use std::time::{Duration, Instant};

use weft_sys::processors::{self, Processors};

/// After a disturbance on another processor the daemon does not move for this long, doubled each time.
const PENALTY: Duration = Duration::from_millis(20);

/// Maximum of the penalty.
const PENALTY_MAX: Duration = Duration::from_secs(1);

/// Time without a disturbance after which the penalty is reset.
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
    /// Processors allowed before the restriction, and now.
    before: Processors,
    now: Processors,
}

impl Placement {
    /// Returns whether the program and the daemon run on different processors.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Avoids the processor of a program, if possible.
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
        // The program moved to this processor: drop the old restriction, rather than chase the program back and forth.
        self.go_anywhere();
        let Ok(before) = Processors::allowed() else { return };
        let Some(now) = before.without(program) else { return };
        if now.confine().is_ok() {
            self.confined = Some(Confined { before, now });
            self.apart = true;
        }
    }

    /// Notes that another process wanted this processor.
    pub fn on_disturbed(&mut self, now: Instant) {
        if self.confined.is_some() {
            self.penalty = (self.penalty * 2).clamp(PENALTY, PENALTY_MAX);
            self.disturbed = Some(now);
            self.go_anywhere();
        }
    }

    /// Restores the previously allowed processors, unless they were changed from outside meanwhile.
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

    /// Runs a test in a thread of its own, since it changes the thread's processors.
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
            // The thread may have moved between the two calls, and be apart already.
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
