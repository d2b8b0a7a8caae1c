//! Threads that do work which may wait for a disk; a target's loop does short work that waits for nothing. Each client has a
//! queue, the clients take turns, and one client never has all threads: a slow disk, or a client with many requests, does not
//! keep the others waiting.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weft_sys::event::EventFd;

/// Threads: reads wait for disks, so there are more than processors.
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

struct ClientQueue<J> {
    jobs: VecDeque<J>,
    running: usize,
}

struct Queues<J> {
    clients: BTreeMap<u64, ClientQueue<J>>,
    /// Client served last.
    last: u64,
    is_over: bool,
}

struct Shared<J, D> {
    queues: Mutex<Queues<J>>,
    wake: Condvar,
    done: Mutex<Vec<D>>,
    ready: EventFd,
    per_client: usize,
}

/// The threads, which turn jobs into results. They end when this is dropped.
pub struct Workers<J, D>(Arc<Shared<J, D>>);

impl<J, D> fmt::Debug for Workers<J, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("per_client", &self.0.per_client).finish_non_exhaustive()
    }
}

impl<J: Send + 'static, D: Send + 'static> Workers<J, D> {
    /// Starts the threads under a name.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(name: &str, work: impl Fn(J) -> D + Clone + Send + 'static) -> std::io::Result<Workers<J, D>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * processors).clamp(THREADS_MIN, THREADS_MAX);
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues { clients: BTreeMap::new(), last: 0, is_over: false }),
            wake: Condvar::new(),
            done: Mutex::default(),
            ready: EventFd::new()?,
            per_client: threads - 1,
        });
        for _ in 0..threads {
            let (shared, work) = (shared.clone(), work.clone());
            std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared, &work))?;
        }
        Ok(Workers(shared))
    }

    /// Returns the descriptor that is readable when jobs are done.
    pub fn ready(&self) -> &EventFd {
        &self.0.ready
    }

    /// Queues a client's job.
    pub fn submit(&self, client: u64, job: J) {
        let mut queues = lock(&self.0.queues);
        let queue = queues.clients.entry(client);
        queue.or_insert_with(|| ClientQueue { jobs: VecDeque::new(), running: 0 }).jobs.push_back(job);
        drop(queues);
        self.0.wake.notify_one();
    }

    /// Forgets the queued jobs of a client, and returns them.
    pub fn forget(&self, client: u64) -> Vec<J> {
        let mut queues = lock(&self.0.queues);
        queues.clients.get_mut(&client).map_or_else(Vec::new, |client| client.jobs.drain(..).collect())
    }

    /// Takes the results.
    pub fn take(&self) -> Vec<D> {
        self.0.ready.take();
        std::mem::take(&mut *lock(&self.0.done))
    }
}

impl<J, D> Drop for Workers<J, D> {
    fn drop(&mut self) {
        lock(&self.0.queues).is_over = true;
        self.0.wake.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J> Queues<J> {
    /// Takes a job of the next client that may have another thread.
    fn next(&mut self, per_client: usize) -> Option<(u64, J)> {
        let may_run = |(_, client): &(&u64, &ClientQueue<J>)| !client.jobs.is_empty() && client.running < per_client;
        let after = (std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded);
        let next = self.clients.range(after).find(may_run).or_else(|| self.clients.iter().find(may_run));
        let name = *next?.0;
        self.last = name;
        let client = self.clients.get_mut(&name)?;
        client.running += 1;
        client.jobs.pop_front().map(|job| (name, job))
    }

    fn finished(&mut self, name: u64) {
        if let Some(client) = self.clients.get_mut(&name) {
            client.running -= 1;
            if client.running == 0 && client.jobs.is_empty() {
                self.clients.remove(&name);
            }
        }
    }
}

fn run<J, D>(shared: &Shared<J, D>, work: &impl Fn(J) -> D) {
    let mut queues = lock(&shared.queues);
    loop {
        if queues.is_over {
            return;
        }
        let Some((client, job)) = queues.next(shared.per_client) else {
            queues = shared.wake.wait(queues).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(queues);
        let done = work(job);
        lock(&shared.done).push(done);
        shared.ready.signal();
        queues = lock(&shared.queues);
        queues.finished(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_leave_one_thread_to_others() {
        let mut queues = Queues { clients: BTreeMap::new(), last: 0, is_over: false };
        for (client, jobs) in [(1, 5), (2, 1)] {
            queues.clients.insert(client, ClientQueue { jobs: (0..jobs).collect(), running: 0 });
        }
        let order: Vec<u64> = std::iter::from_fn(|| queues.next(3).map(|(client, _)| client)).collect();
        assert_eq!(order, [1, 2, 1, 1]);
        queues.finished(1);
        assert_eq!(queues.next(3).map(|(client, _)| client), Some(1));
        queues.finished(2);
        assert_eq!(queues.clients.len(), 1);
    }

    #[test]
    fn jobs_become_results() {
        let workers = Workers::start("test", |job: u32| job * 2).expect("threads");
        (0..10).for_each(|job| workers.submit(1, job));
        let mut done = Vec::new();
        while done.len() < 10 {
            std::thread::yield_now();
            done.extend(workers.take());
        }
        done.sort_unstable();
        assert_eq!(done, (0..10).map(|job| job * 2).collect::<Vec<_>>());
    }
}
