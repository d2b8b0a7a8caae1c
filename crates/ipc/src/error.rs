//! Errors between a program and the daemon, in words for the person who runs the program.

use std::io;

use crate::{PROTOCOL_VERSION, Refusal};

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No daemon listens, and the options forbid starting one.
    #[error("no weft daemon runs in this network namespace")]
    NotRunning,
    /// No daemon listens, and the program to start was not found.
    #[error(
        "no weft daemon runs in this network namespace and the program `weft` to start one was not found; \
         looked at: {looked}; set WEFT_BIN to its path, or run `weft daemon`"
    )]
    NoExecutable {
        /// Places that were searched.
        looked: String,
    },
    /// The program was found but could not be run.
    #[error("could not start `{program} daemon`: {error}")]
    SpawnFailed {
        /// Its path.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The started daemon did not answer.
    #[error("the weft daemon did not answer within {seconds} s; run `weft daemon --foreground` to see why")]
    TimedOut {
        /// How long the program waited.
        seconds: u64,
    },
    /// Program and daemon speak different protocol versions.
    #[error(
        "this program's libibverbs speaks protocol {ours}, the running weft daemon speaks {theirs}: end it with \
         `weft daemon --stop` once the programs that use it are done, then run this again"
    )]
    OtherVersion {
        /// Version of this program.
        ours: u32,
        /// Version of the daemon.
        theirs: u32,
    },
    /// The daemon refused the connection.
    #[error("the weft daemon refused the connection: {0}")]
    Refused(String),
    /// No fabric has the virtual host that the program runs as.
    #[error("{0}")]
    NoHost(String),
    /// The listener is not a Weft daemon.
    #[error("the listener on the weft daemon's socket does not speak its protocol")]
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

    /// Returns the errno value that a C function reports.
    pub fn errno(&self) -> i32 {
        match self {
            ConnectError::NotRunning | ConnectError::NoExecutable { .. } | ConnectError::NoHost(_) => libc::ENODEV,
            ConnectError::TimedOut { .. } => libc::ETIMEDOUT,
            ConnectError::OtherVersion { .. } | ConnectError::NotADaemon => libc::EPROTO,
            ConnectError::Refused(_) => libc::EAGAIN,
            ConnectError::SpawnFailed { error, .. } | ConnectError::Io(error) => {
                error.raw_os_error().unwrap_or(libc::EIO)
            }
            ConnectError::Request(error) => error.errno(),
        }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The daemon refused.
    #[error("{}", .0.text)]
    Refused(Refusal),
    /// The daemon is gone (or was, at the last check); `reconnect` reaches another.
    #[error("the weft daemon is gone")]
    Disconnected,
    /// The daemon did not answer.
    #[error(
        "the weft daemon did not answer within {seconds} s: it is stopped, or this machine is too busy to run it \
         (`weft status` shows whether it answers again)"
    )]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The daemon sent an unexpected message.
    #[error("the weft daemon answered what was not asked")]
    Protocol,
    /// A system call failed.
    #[error("could not talk to the weft daemon: {0}")]
    Io(#[from] io::Error),
}

impl RequestError {
    /// Returns the errno value that a C function reports.
    pub fn errno(&self) -> i32 {
        match self {
            RequestError::Refused(refusal) => refusal.errno,
            RequestError::Disconnected => libc::ENODEV,
            RequestError::Silent { .. } => libc::ETIMEDOUT,
            RequestError::Protocol => libc::EPROTO,
            RequestError::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}
