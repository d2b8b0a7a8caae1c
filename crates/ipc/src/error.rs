//! What can go wrong between a program and the daemon, in words for the person who runs the program.

use std::io;

use crate::{PROTOCOL_VERSION, Refusal};

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens and none shall be started.
    #[error("no weft daemon runs in this network namespace")]
    NotRunning,
    /// Nobody listens and the program to start is not there.
    #[error(
        "no weft daemon runs in this network namespace and the program `weft` to start one was not found; \
         looked at: {looked}; set WEFT_BIN to its path, or run `weft daemon`"
    )]
    NoExecutable {
        /// Where it was looked for.
        looked: String,
    },
    /// The program was found and could not be run.
    #[error("could not start `{program} daemon`: {error}")]
    SpawnFailed {
        /// Its path.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It was started and never answered.
    #[error("the weft daemon did not answer within {seconds} s; run `weft daemon --foreground` to see why")]
    TimedOut {
        /// How long was waited.
        seconds: u64,
    },
    /// The two are of different versions.
    #[error(
        "this program's libibverbs speaks protocol {ours}, the running weft daemon speaks {theirs}: end it with \
         `weft daemon --stop` once the programs that use it are done, then run this again"
    )]
    OtherVersion {
        /// Ours.
        ours: u32,
        /// The daemon's.
        theirs: u32,
    },
    /// The daemon does not want us.
    #[error("the weft daemon refused the connection: {0}")]
    Refused(String),
    /// The virtual host that the program runs as is on no fabric.
    #[error("the weft daemon refused the connection: {0}")]
    NoHost(String),
    /// What listens is no weft daemon.
    #[error("what listens on the weft daemon's socket does not speak its protocol")]
    NotADaemon,
    /// A system call failed.
    #[error("could not talk to the weft daemon: {0}")]
    Io(#[from] io::Error),
    /// A request of the reconnection failed.
    #[error("the weft daemon took the connection and then failed: {0}")]
    Request(RequestError),
}

impl ConnectError {
    pub(crate) fn other_version(theirs: u32) -> ConnectError {
        ConnectError::OtherVersion { ours: PROTOCOL_VERSION, theirs }
    }

    /// What a C function sets errno to.
    pub fn errno(&self) -> i32 {
        match self {
            ConnectError::NotRunning | ConnectError::NoExecutable { .. } | ConnectError::NoHost(_) => {
                libc_errno::ENODEV
            }
            ConnectError::TimedOut { .. } => libc_errno::ETIMEDOUT,
            ConnectError::OtherVersion { .. } | ConnectError::NotADaemon => libc_errno::EPROTO,
            ConnectError::Refused(_) => libc_errno::EAGAIN,
            ConnectError::SpawnFailed { error, .. } | ConnectError::Io(error) => {
                error.raw_os_error().unwrap_or(libc_errno::EIO)
            }
            ConnectError::Request(error) => error.errno(),
        }
    }
}

/// Why a request was not answered as wished.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The daemon said no.
    #[error("{}", .0.text)]
    Refused(Refusal),
    /// The daemon is gone (or was, at the last look); `reconnect` brings another.
    #[error("the weft daemon is gone")]
    Disconnected,
    /// The daemon sent what was not expected.
    #[error("the weft daemon answered what was not asked")]
    Protocol,
    /// A system call failed.
    #[error("could not talk to the weft daemon: {0}")]
    Io(#[from] io::Error),
}

impl RequestError {
    /// What a C function sets errno to.
    pub fn errno(&self) -> i32 {
        match self {
            RequestError::Refused(refusal) => refusal.errno,
            RequestError::Disconnected => libc_errno::ENODEV,
            RequestError::Protocol => libc_errno::EPROTO,
            RequestError::Io(error) => error.raw_os_error().unwrap_or(libc_errno::EIO),
        }
    }
}

/// The numbers of Linux, the same on every architecture that Weft runs on.
#[allow(missing_docs)]
pub(crate) mod libc_errno {
    pub const EIO: i32 = 5;
    pub const EAGAIN: i32 = 11;
    pub const ENODEV: i32 = 19;
    pub const EPROTO: i32 = 71;
    pub const ETIMEDOUT: i32 = 110;
}
