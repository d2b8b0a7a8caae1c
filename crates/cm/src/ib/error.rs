//! Why a command was refused.

use weft_verbs::Errno;
use weft_wire::cm::TooLong;

use super::state::State;

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CmError {
    /// There is no such connection or listener (any more).
    #[error("no such connection or listener")]
    NoSuchConnection,
    /// The connection is in a state where this cannot be done.
    #[error("not possible in state {0:?}")]
    State(State),
    /// The connection stands already.
    #[error("the connection is established already")]
    AlreadyEstablished,
    /// More private data, or more additional information, than the message has room for.
    #[error("{} bytes of data, room for {}", .0.len, .0.max)]
    TooLong(TooLong),
    /// An argument is outside what the message can say.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The device is not known.
    #[error("no device with number {0}")]
    NoDevice(u32),
    /// Somebody else listens there.
    #[error("service id {0:#018x} is listened to already")]
    InUse(u64),
    /// A limit is reached.
    #[error("too many {0}")]
    TooMany(&'static str),
}

impl CmError {
    /// The errno that Linux's `ib_cm` answers with.
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
