//! Errors of verbs calls. Each names the cause, and is translated once into the errno that the manual page of the call
//! promises.

/// A positive errno value, as `errno.h` numbers them on Linux.
pub type Errno = i32;

/// Reason for refusing a verbs call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VerbsError {
    /// An argument is outside what the call or the object allows.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The queue is full, or a table has no room.
    #[error("no room: {0}")]
    NoMemory(&'static str),
    /// The object is still used by another object.
    #[error("busy: {0}")]
    Busy(&'static str),
    /// The adapter does not support this.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The caller may not do this.
    #[error("not permitted: {0}")]
    Permission(&'static str),
    /// The memory is not mapped, or not with the requested rights.
    #[error("bad address: {0}")]
    Fault(&'static str),
    /// The handle names no object, or no longer does.
    #[error("no such object: {0}")]
    NoSuchObject(&'static str),
    /// The device has gone or the daemon refused.
    #[error("no such device: {0}")]
    NoDevice(&'static str),
    /// A failure that the user asked for.
    #[error("injected failure, errno {0}")]
    Injected(Errno),
    /// The address given cannot be reached from this port.
    #[error("address not available: {0}")]
    AddressUnreachable(&'static str),
}

impl VerbsError {
    /// Error of a send request that a queue pair refuses for its state.
    pub const NOT_IN_RTS: VerbsError =
        VerbsError::Invalid("sends can be posted from RTS on; modify the queue pair first");

    /// Returns the errno for the verbs caller.
    pub fn errno(self) -> Errno {
        match self {
            VerbsError::Invalid(_) | VerbsError::NoSuchObject(_) => 22,
            VerbsError::NoMemory(_) => 12,
            VerbsError::Busy(_) => 16,
            VerbsError::NotSupported(_) => 95,
            VerbsError::Permission(_) => 1,
            VerbsError::Fault(_) => 14,
            VerbsError::NoDevice(_) => 19,
            VerbsError::AddressUnreachable(_) => 110,
            VerbsError::Injected(errno) => errno,
        }
    }
}
