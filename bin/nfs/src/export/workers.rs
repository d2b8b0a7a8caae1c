//! Threads that execute calls. Each client has a queue, the clients take turns, and one client never has all threads: a
//! slow disk, or a client with many calls, does not keep the others waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weft_sys::event::EventFd;

use super::exported::Export;
use super::message::{Done, Job};

/// Threads: reads wait for disks, so there are more than processors.
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

#[derive(Debug, Default)]
struct ClientQueue {
    jobs: VecDeque<Job>,
    running: usize,
}

#[derive(Debug, Default)]
struct Queues {
    clients: BTreeMap<u64, ClientQueue>,
    /// Client served last.
    last: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    done: Mutex<Vec<Done>>,
    ready: EventFd,
    per_client: usize,
}

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub struct Workers(Arc<Shared>);

impl Workers {
    /// Starts the threads.
    pub fn start(export: &Arc<Export>) -> std::io::Result<Workers> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * processors).clamp(THREADS_MIN, THREADS_MAX);
        let shared = Arc::new(Shared {
            queues: Mutex::default(),
            wake: Condvar::new(),
            done: Mutex::default(),
            ready: EventFd::new()?,
            per_client: threads - 1,
        });
        for _ in 0..threads {
            let (shared, export) = (shared.clone(), export.clone());
            std::thread::Builder::new().name("nfs".into()).spawn(move || work(&shared, &export))?;
        }
        Ok(Workers(shared))
    }

    /// Returns the descriptor that is readable when calls were executed.
    pub fn ready(&self) -> &EventFd {
        &self.0.ready
    }

    /// Queues a call.
    pub fn submit(&self, job: Job) {
        lock(&self.0.queues).clients.entry(job.session).or_default().jobs.push_back(job);
        self.0.wake.notify_one();
    }

    /// Forgets the queued calls of a connection that ended.
    pub fn forget(&self, session: u64) {
        if let Some(client) = lock(&self.0.queues).clients.get_mut(&session) {
            client.jobs.clear();
        }
    }

    /// Takes the executed calls.
    pub fn take(&self) -> Vec<Done> {
        self.0.ready.take();
        std::mem::take(&mut *lock(&self.0.done))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.0.queues).is_over = true;
        self.0.wake.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queues {
    /// Takes a job of the next client that may have another thread.
    fn next(&mut self, per_client: usize) -> Option<Job> {
        let may_run = |(_, client): &(&u64, &ClientQueue)| !client.jobs.is_empty() && client.running < per_client;
        let after = (std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded);
        let next = self.clients.range(after).find(may_run).or_else(|| self.clients.iter().find(may_run));
        let session = *next?.0;
        self.last = session;
        let client = self.clients.get_mut(&session)?;
        client.running += 1;
        client.jobs.pop_front()
    }

    fn finished(&mut self, session: u64) {
        if let Some(client) = self.clients.get_mut(&session) {
            client.running -= 1;
            if client.running == 0 && client.jobs.is_empty() {
                self.clients.remove(&session);
            }
        }
    }
}

fn work(shared: &Shared, export: &Export) {
    let mut queues = lock(&shared.queues);
    loop {
        if queues.is_over {
            return;
        }
        let Some(job) = queues.next(shared.per_client) else {
            queues = shared.wake.wait(queues).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(queues);
        let Job { session, call, client, message, memory } = job;
        let reply = export.execute(&client, &message, memory.as_ref());
        lock(&shared.done).push(Done { session, call, reply });
        shared.ready.signal();
        queues = lock(&shared.queues);
        queues.finished(session);
    }
}
