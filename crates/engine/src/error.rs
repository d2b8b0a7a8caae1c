//! Errors of the engine: a text for people and an errno for programs. The last text is kept, because the C interface
//! can return the number only.

use std::fmt;

use parking_lot::Mutex;
use weft_ipc::{ConnectError, RequestError};

/// An error of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineError {
    text: String,
    errno: i32,
}

impl EngineError {
    /// Argument out of range.
    pub(crate) const EINVAL: i32 = 22;
    /// No such device.
    pub(crate) const ENODEV: i32 = 19;

    /// Makes an error with this text and number, and stores it as [`last_error`].
    pub(crate) fn new(errno: i32, text: impl Into<String>) -> EngineError {
        let error = EngineError { text: text.into(), errno };
        crate::log::note(&error.text);
        // Never wait for the lock: a thread that a forked child does not have may hold it.
        if let Some(mut last) = LAST.try_lock() {
            *last = Some(error.text.clone());
        }
        error
    }

    /// Returns the errno for the C functions.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for EngineError {}

impl From<ConnectError> for EngineError {
    fn from(error: ConnectError) -> EngineError {
        EngineError::new(error.errno(), error.to_string())
    }
}

impl From<RequestError> for EngineError {
    fn from(error: RequestError) -> EngineError {
        EngineError::new(error.errno(), error.to_string())
    }
}

impl From<std::io::Error> for EngineError {
    fn from(error: std::io::Error) -> EngineError {
        const EIO: i32 = 5;
        EngineError::new(error.raw_os_error().unwrap_or(EIO), error.to_string())
    }
}

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Returns the text of this process's last error.
pub fn last_error() -> Option<String> {
    LAST.lock().clone()
}
