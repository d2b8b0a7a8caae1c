//! Work for the owner of the queue pairs.

use crate::wire::{Completion, HostMemory};
use crate::{Operation, Status};

/// Name of a queue: the owner's name of a connection.
pub type QueueKey = u64;

/// Name of a command in progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommandKey {
    /// Queue of the command.
    pub queue: QueueKey,
    /// Number within the queue.
    pub sequence: u64,
}

/// Data of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoData {
    /// The operation has none.
    None,
    /// Bytes of the capsule.
    Capsule(Vec<u8>),
    /// Memory of the host: the owner READs it before a Write or Compare, and WRITEs it after a Read.
    Host(HostMemory),
}

/// Response to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The command. Its operation, if it had one, has ended.
    pub command: CommandKey,
    /// Bytes for the host's memory, to be written before the completion is sent.
    pub data: Option<(Vec<u8>, HostMemory)>,
    /// The response capsule.
    pub completion: Completion,
    /// Key that the SEND invalidates.
    pub invalidate: Option<u32>,
}

/// Reason why a queue ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// A capsule is shorter than a command.
    #[error("the host sent a capsule that is shorter than a command")]
    Short,
    /// More commands than the queue has entries.
    #[error("the host sent more commands than its queue has entries")]
    Overrun,
    /// No Connect came in time.
    #[error("the host sent no Connect")]
    NoConnect,
    /// Keep-alive timeout.
    #[error("the keep-alive timer of its controller expired")]
    KeepAlive,
    /// The admin queue ended, and with it the controller.
    #[error("its controller ended")]
    ControllerGone,
}

/// Event for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControllerEvent {
    /// Connect on an admin queue made a controller.
    Created {
        /// Its identifier.
        controller: u16,
        /// Name of the subsystem.
        subsystem: String,
        /// Name of the host.
        host: String,
    },
    /// Connect was refused.
    Refused {
        /// Name of the subsystem that the host asked for.
        subsystem: String,
        /// Name of the host.
        host: String,
        /// Reason, in words.
        reason: &'static str,
    },
    /// A command failed.
    Failed {
        /// Opcode of the command.
        opcode: u8,
        /// Status of the completion.
        status: Status,
    },
}

/// Work for the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// RDMA READ of a command's data; then [`Target::handle_data`](super::Target::handle_data).
    Fetch(CommandKey, HostMemory),
    /// Execute an operation; then [`Target::handle_executed`](super::Target::handle_executed).
    Execute {
        /// The command.
        command: CommandKey,
        /// Subsystem: index of the configuration.
        subsystem: usize,
        /// Namespace identifier.
        namespace: u32,
        /// The operation.
        operation: Operation,
        /// Its data.
        data: IoData,
    },
    /// Send a response.
    Respond(Response),
    /// End a connection; then [`Target::queue_closed`](super::Target::queue_closed).
    Close(QueueKey, CloseReason),
    /// Print a line about a queue.
    Log(QueueKey, ControllerEvent),
}
