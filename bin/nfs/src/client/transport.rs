//! Handle of the thread that has the connection: any thread submits calls to it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use anyhow::{Context, Result, anyhow};
use rustix::io::Errno;
use weft_sys::event::EventFd;

use super::engine::Engine;
use super::options::TransportOptions;
use crate::caller::Answer;

/// Action after a call: it gets the answer, in the transport's thread, and does not block.
pub type Done = Box<dyn FnOnce(Result<Answer, Errno>) + Send>;

/// A call on its way to the thread.
pub struct Submission {
    /// Transaction.
    pub xid: u32,
    /// The whole message.
    pub message: Arc<Vec<u8>>,
    /// Action after it.
    pub done: Done,
}

/// State that the thread shares with its callers.
pub struct Shared {
    inbox: Mutex<Vec<Submission>>,
    /// Wakes the thread.
    pub bell: EventFd,
    next_xid: AtomicU32,
    is_stopped: AtomicBool,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Vec<Submission>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the calls that were submitted.
    pub fn take(&self) -> Vec<Submission> {
        self.bell.take();
        std::mem::take(&mut *self.inbox())
    }

    /// Whether the transport was dropped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

/// The transport. Dropping it ends the connection; calls in progress fail.
pub struct Transport(Arc<Shared>);

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    /// Connects to a server.
    ///
    /// # Errors
    /// There is no RDMA device, the server's name is unknown, or it does not answer.
    pub fn connect(options: TransportOptions) -> Result<Transport> {
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Vec::new()),
            bell: EventFd::new()?,
            next_xid: AtomicU32::new(weft_sys::random::u64() as u32),
            is_stopped: AtomicBool::new(false),
        });
        let (sender, connected) = mpsc::channel();
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("nfs-rdma".to_owned())
            .spawn(move || Engine::run(options, of_thread, &sender))
            .context("cannot start a thread")?;
        let transport = Transport(shared);
        connected.recv().unwrap_or_else(|_| Err(anyhow!("the connection's thread ended")))?;
        Ok(transport)
    }

    /// Submits a call; its first word is overwritten by a new transaction.
    pub fn submit(&self, mut message: Vec<u8>, done: Done) {
        let xid = self.0.next_xid.fetch_add(1, Ordering::Relaxed);
        if let Some(first) = message.first_chunk_mut() {
            *first = xid.to_be_bytes();
        }
        self.0.inbox().push(Submission { xid, message: Arc::new(message), done });
        self.0.bell.signal();
    }

    /// Makes a call, and waits for its answer.
    pub fn call(&self, message: Vec<u8>) -> Result<Answer, Errno> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver is there until the answer is.
        self.submit(message, Box::new(move |answer| drop(sender.send(answer))));
        receiver.recv().unwrap_or(Err(Errno::NOTCONN))
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.0.bell.signal();
    }
}
