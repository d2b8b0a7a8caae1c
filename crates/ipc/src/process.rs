//! One session for a whole process, made when first needed, and again when needed after the daemon died. Any thread may
//! use it. A child of fork shares the socket and must not write to it, so it gets a session of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Client, ConnectError, ConnectOptions, Request, RequestError, Response};

/// The process's connection to the current daemon.
#[derive(Debug)]
pub(crate) struct ProcessClient {
    options: ConnectOptions,
    session: Mutex<Option<Arc<Session>>>,
}

/// One session; its ports and channels end with it.
#[derive(Debug)]
pub(crate) struct Session {
    client: Mutex<Client>,
    /// Process ID of the process that connected.
    process: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessClient {
    /// Makes one that is not connected yet.
    pub(crate) fn new(options: ConnectOptions) -> ProcessClient {
        ProcessClient { options, session: Mutex::new(None) }
    }

    /// Returns the current session if its daemon lives, or a new one.
    pub(crate) fn session(&self) -> Result<Arc<Session>, ConnectError> {
        let mut held = lock(&self.session);
        if let Some(session) = held.as_ref()
            && session.is_alive()
        {
            return Ok(session.clone());
        }
        let client = Mutex::new(Client::connect(&self.options)?);
        let session = Arc::new(Session { client, process: std::process::id() });
        *held = Some(session.clone());
        Ok(session)
    }
}

impl Session {
    fn is_alive(&self) -> bool {
        self.process == std::process::id() && lock(&self.client).look_alive()
    }

    /// Locks the client for a request.
    pub(crate) fn client(&self) -> Result<MutexGuard<'_, Client>, RequestError> {
        // Check before taking the lock: in a child of fork, a thread that does not exist there may hold it.
        match self.process == std::process::id() {
            true => Ok(lock(&self.client)),
            false => Err(RequestError::Disconnected),
        }
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn request(&self, request: Request) -> Result<Response, RequestError> {
        self.client()?.request(request)
    }
}
