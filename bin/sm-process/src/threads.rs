//! The machine's processors for the manager: pieces of work on several threads, and whole jobs beside the event loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use weft_sm::Parallel;
use weft_sm::manager::{Job, JobDone};
use weft_sys::event::EventFd;

/// Number of threads for pieces of work.
#[derive(Clone, Copy, Debug)]
pub struct Threads(usize);

impl Threads {
    /// One thread per processor.
    pub fn all() -> Threads {
        Threads(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Parallel for Threads {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    piece if piece < count => work(piece),
                    _ => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.0.min(count) {
                scope.spawn(take);
            }
            take();
        });
    }

    fn width(&self) -> usize {
        self.0
    }
}

/// Jobs that run beside the event loop.
pub struct Jobs {
    done: Receiver<JobDone>,
    tell: Sender<JobDone>,
    wake: Arc<EventFd>,
    out: usize,
}

impl Jobs {
    /// No jobs. `wake` is signalled when one is done.
    pub fn new(wake: Arc<EventFd>) -> Jobs {
        let (tell, done) = channel();
        Jobs { done, tell, wake, out: 0 }
    }

    /// Starts a job.
    pub fn start(&mut self, job: Job) {
        self.out += 1;
        let (tell, wake) = (self.tell.clone(), Arc::clone(&self.wake));
        thread::spawn(move || {
            // The receiver is gone only if the manager ends.
            let _ = tell.send(job.run(&Threads::all()));
            wake.signal();
        });
    }

    /// Returns a finished job's result.
    pub fn poll_done(&mut self) -> Option<JobDone> {
        let done = self.done.try_recv().ok()?;
        self.out -= 1;
        Some(done)
    }

    /// Whether any job runs.
    pub fn are_out(&self) -> bool {
        self.out > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for (threads, count) in [(1, 5), (4, 0), (4, 3), (3, 1000)] {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            Threads(threads).each(count, &|piece| {
                done[piece].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
        }
    }
}
