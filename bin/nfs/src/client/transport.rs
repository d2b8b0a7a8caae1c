//! Handle of the thread that has the connection: any thread submits calls to it.

use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, anyhow};
use rustix::io::Errno;

use super::engine::Engine;
use super::inbox::{Done, Inbox};
use super::options::TransportOptions;
use crate::caller::Answer;

/// The transport. Dropping it ends the connection; calls in progress fail.
pub struct Transport(Arc<Inbox>);

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
        let inbox = Arc::new(Inbox::new()?);
        let (sender, connected) = mpsc::channel();
        let of_thread = inbox.clone();
        std::thread::Builder::new()
            .name("nfs-rdma".to_owned())
            .spawn(move || Engine::run(options, of_thread, &sender))
            .context("cannot start a thread")?;
        let transport = Transport(inbox);
        connected.recv().unwrap_or_else(|_| Err(anyhow!("the connection's thread ended")))?;
        Ok(transport)
    }

    /// Submits a call; its first word is overwritten by a new transaction.
    pub fn submit(&self, message: Vec<u8>, done: Done) {
        self.0.submit(message, done);
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
        self.0.stop();
    }
}
