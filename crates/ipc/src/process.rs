//! One session for all of a process: made when it is first needed, and anew when it is needed after the daemon died. Any
//! thread may ask; a child of fork, which shares the socket and must not speak on it, gets a session of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Client, ConnectError, ConnectOptions, Request, RequestError, Response};

/// The process's way to the daemon there is.
#[derive(Debug)]
pub(crate) struct ProcessClient {
    options: ConnectOptions,
    session: Mutex<Option<Arc<Session>>>,
}

/// One session; what was opened on it ends with it.
#[derive(Debug)]
pub(crate) struct Session {
    client: Mutex<Client>,
    /// The process that connected.
    process: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessClient {
    /// Not connected yet.
    pub(crate) fn new(options: ConnectOptions) -> ProcessClient {
        ProcessClient { options, session: Mutex::new(None) }
    }

    /// The session there is, if its daemon lives, or a new one.
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

    /// To ask something by.
    pub(crate) fn client(&self) -> Result<MutexGuard<'_, Client>, RequestError> {
        // Asked before the lock is taken: in a child of fork a thread that is not there may hold it.
        match self.process == std::process::id() {
            true => Ok(lock(&self.client)),
            false => Err(RequestError::Disconnected),
        }
    }

    /// Asks and waits for the answer.
    pub(crate) fn request(&self, request: Request) -> Result<Response, RequestError> {
        self.client()?.request(request)
    }
}
