//! Work for the owner of the queue pairs.

use std::time::Duration;

use super::breach::Breach;
use super::identity::NamespaceInfo;
use crate::Status;
use crate::wire::{Command, ConnectRequest, Descriptor, HostMemory};

/// Name of a request: chosen by the owner, and unique among the requests in progress.
pub type RequestKey = u64;

/// A command's place: the queue, and the command identifier on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotKey {
    /// Queue; 0 is the admin queue.
    pub queue: u16,
    /// Command identifier.
    pub command: u16,
}

/// Bytes of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A piece of a request's data.
    Request {
        /// The request.
        request: RequestKey,
        /// Begin within the request's data.
        offset: usize,
        /// Length in bytes.
        length: u32,
    },
    /// A structure of this length that the target writes, for [`HostController::handle_page`].
    ///
    /// [`HostController::handle_page`]: super::HostController::handle_page
    Page(u32),
}

impl Content {
    /// Length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Content::Bytes(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            Content::Request { length, .. } | Content::Page(length) => *length,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Way of a command's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandData {
    /// The command has none.
    None,
    /// It follows the command in the capsule.
    Capsule(Content),
    /// The target READs it from this host's memory.
    Lent(Content),
    /// The target WRITEs it to this host's memory.
    Awaited(Content),
}

/// Command to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its place.
    pub slot: SlotKey,
    /// Its data.
    pub data: CommandData,
    pub(super) command: Command,
}

impl Outgoing {
    /// Returns the capsule. `memory` is what the target reaches, for data that is lent or awaited: it has exactly the
    /// data's length. `bytes` is data for the capsule.
    pub fn to_capsule(&self, memory: Option<HostMemory>, bytes: &[u8]) -> Vec<u8> {
        let mut command = self.command;
        if let Some(memory) = memory {
            command.descriptor = Descriptor::Host(memory).to_bytes();
        }
        let mut capsule = zerocopy::IntoBytes::as_bytes(&command).to_vec();
        capsule.extend_from_slice(bytes);
        capsule
    }
}

/// Use of memory that a command lent, once the command has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its bytes are not needed.
    Discard,
    /// Its bytes belong to a request's data, or are a structure for [`HostController::handle_page`].
    ///
    /// [`HostController::handle_page`]: super::HostController::handle_page
    Take(Content),
}

/// End of a request that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// The target refused or failed a command, or this end did in its place.
    #[error("{0}")]
    Status(Status),
    /// The connection was lost each time that the request was sent.
    #[error("the connection was lost each time that the request was sent")]
    Lost,
    /// The controller has ended.
    #[error("the controller has ended")]
    Ended,
}

/// Reason why the connections of a controller ended, or its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LostReason {
    /// A connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
    /// The target refused a step of the setup.
    #[error("{0}: {1}")]
    Setup(&'static str, Status),
    /// Connect failed.
    #[error("the target refuses: {0}")]
    Connect(ConnectRefusal),
    /// The controller cannot be used.
    #[error("{0}")]
    Unusable(&'static str),
    /// A command, or a step of the setup, took too long.
    #[error("{0} took longer than {seconds} s", seconds = .1.as_secs())]
    Timeout(&'static str, Duration),
    /// The target broke the protocol.
    #[error("the target broke the protocol: {0}")]
    Breach(#[from] Breach),
    /// The owner shut the controller down.
    #[error("shut down")]
    Shutdown,
}

/// Refusal of Connect, with the parameter that the target names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectRefusal {
    /// Status.
    pub status: Status,
    /// Offset of the invalid parameter; bit 16: within the data.
    pub parameter: u64,
}

impl std::fmt::Display for ConnectRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const OF_DATA: u64 = 1 << 16;
        const SUBSYSTEM: u64 = OF_DATA | 256;
        const HOST: u64 = OF_DATA | 512;
        let named = match (Status::CONNECT_INVALID.code() == self.status.code(), self.parameter & (OF_DATA | 0xffff)) {
            (true, SUBSYSTEM) => "no such subsystem at this port; `weft nvme discover` lists them",
            (true, HOST) => "it does not accept this host's name",
            _ if self.status.code() == Status::CONNECT_HOST.code() => {
                "this host is not allowed; choose its name with --hostnqn, or allow it at the target"
            }
            _ => return write!(f, "Connect: {}", self.status),
        };
        write!(f, "{named} ({})", self.status)
    }
}

/// Event for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent {
    /// The controller is ready: for the first time, or again.
    Ready {
        /// Identifier of the controller.
        controller: u16,
        /// I/O queues.
        io_queues: u16,
        /// Attempts to connect again; 0 for the first time.
        attempts: u32,
    },
    /// The connections are lost. The next attempt follows after the delay.
    Lost(LostReason),
    /// A namespace cannot be used.
    Unusable {
        /// Namespace identifier.
        namespace: u32,
        /// Reason.
        reason: &'static str,
    },
    /// A namespace is another one after the host connected again; its requests fail.
    Changed(NamespaceInfo),
}

/// Work for the owner.
#[derive(Clone, Debug)]
pub enum HostAction {
    /// Connect a queue pair; then [`HostController::queue_opened`], or [`HostController::connection_lost`].
    ///
    /// [`HostController::queue_opened`]: super::HostController::queue_opened
    /// [`HostController::connection_lost`]: super::HostController::connection_lost
    Open {
        /// Private data of the request, which names the queue.
        request: ConnectRequest,
        /// Bytes of the longest capsule.
        capsule_bytes: u32,
    },
    /// Send a command. If its data is lent or awaited, [`HostController::lent`] comes first.
    ///
    /// [`HostController::lent`]: super::HostController::lent
    Send(Outgoing),
    /// Take memory back from a command that ended: its key must be invalid before its bytes are used.
    Release {
        /// Place of the command.
        slot: SlotKey,
        /// The target's SEND has invalidated the key.
        is_invalid: bool,
        /// Use of the bytes.
        outcome: Outcome,
    },
    /// A request has ended; a Read's data is complete if it succeeded.
    Done(RequestKey, Result<(), RequestFailure>),
    /// End all connections, with the memory that their commands lent.
    Close,
    /// Print a line.
    Log(HostEvent),
    /// The controller has ended: all requests are done, and later ones fail at once.
    Ended(LostReason),
}
