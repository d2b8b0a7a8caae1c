//! Errors of commands.

use weft_verbs::Errno;
use weft_wire::cm::TooLong;

use super::state::State;

/// Reason why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CmError {
    /// No connection or listener with this number (any more).
    #[error("no such connection or listener")]
    NoSuchConnection,
    /// The state of the connection does not allow the command.
    #[error("not possible in state {0:?}")]
    State(State),
    /// The connection is established already.
    #[error("the connection is established already")]
    AlreadyEstablished,
    /// The private data or additional information does not fit the message.
    #[error("{} bytes of data, room for {}", .0.len, .0.max)]
    TooLong(TooLong),
    /// An argument is out of the message's range.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// Unknown device.
    #[error("no device with number {0}")]
    NoDevice(u32),
    /// Another listener has the service id.
    #[error("service id {0:#018x} is listened to already")]
    InUse(u64),
    /// A limit is reached.
    #[error("too many {0}")]
    TooMany(&'static str),
}

impl CmError {
    /// Returns the errno that Linux's `ib_cm` returns.
    pub fn errno(self) -> Errno {
        const ENOENT: Errno = 2;
        const ENOMEM: Errno = 12;
        const EBUSY: Errno = 16;
        const ENODEV: Errno = 19;
        const EINVAL: Errno = 22;
        const EISCONN: Errno = 106;
        match self {
            CmError::NoSuchConnection => ENOENT,
            CmError::State(_) | CmError::TooLong(_) | CmError::Invalid(_) => EINVAL,
            CmError::AlreadyEstablished => EISCONN,
            CmError::NoDevice(_) => ENODEV,
            CmError::InUse(_) => EBUSY,
            CmError::TooMany(_) => ENOMEM,
        }
    }
}

impl From<TooLong> for CmError {
    fn from(error: TooLong) -> CmError {
        CmError::TooLong(error)
    }
}
