//! Work for the owner of the queue pairs.

use crate::limits::REQUEST_LIMIT;
use crate::scsi::{Lun, Operation, Sense};
use crate::wire::Piece;

/// Name of a channel: the owner's name of a connection.
pub type ChannelKey = u64;

/// Name of a request in progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommandKey {
    /// Channel of the request.
    pub channel: ChannelKey,
    /// Number within the channel.
    pub sequence: u64,
}

/// Data of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataMove {
    /// It has none.
    None,
    /// Bytes that came with the command.
    Immediate(Vec<u8>),
    /// Memory of the initiator, which the owner READs before the operation.
    Gather(Vec<Piece>),
    /// Memory of the initiator, which the owner WRITEs when the response is [`ResponseData::Executed`].
    Scatter(Vec<Piece>),
}

/// Data for the initiator's memory, to be written before the response is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResponseData {
    /// None.
    None,
    /// These bytes, to this memory of the same length.
    Bytes(Vec<u8>, Vec<Piece>),
    /// Data that the operation left.
    Executed,
}

/// Response to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The request. Its operation, if it had one, has ended.
    pub command: CommandKey,
    /// Data before the information unit.
    pub data: ResponseData,
    /// The information unit.
    pub iu: Vec<u8>,
}

/// Reason why a channel ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// SRP_I_LOGOUT.
    #[error("the initiator logged out")]
    Logout,
    /// A new login of the initiator.
    #[error("the initiator logged in anew")]
    NewLogin,
    /// A malformed information unit.
    #[error("the initiator sent an information unit of invalid length")]
    Length,
    /// An information unit of a type that initiators do not send.
    #[error("the initiator sent an information unit of unknown type")]
    Type,
    /// A format of descriptors that login did not agree on.
    #[error("the initiator sent data buffer descriptors of a format that login did not agree on")]
    Format,
    /// A response without request.
    #[error("the initiator sent a response without a request")]
    Response,
    /// More requests than the limit.
    #[error("the initiator has more than {REQUEST_LIMIT} requests in progress")]
    Overrun,
}

/// Event for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelEvent {
    /// A command failed.
    Failed {
        /// Operation code.
        opcode: u8,
        /// Reason.
        sense: Sense,
    },
    /// A task management function aborts commands.
    Aborting {
        /// Code of the function.
        function: u8,
        /// Number of commands.
        commands: usize,
    },
}

/// Work for the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// RDMA READ of `length` bytes; then [`Target::handle_data`](super::Target::handle_data).
    Fetch {
        /// The command.
        command: CommandKey,
        /// Memory of the initiator.
        pieces: Vec<Piece>,
        /// Bytes of all.
        length: u32,
    },
    /// Execute an operation: [`Target::start`](super::Target::start) once it has its data, then
    /// [`Target::handle_executed`](super::Target::handle_executed).
    Execute {
        /// The command.
        command: CommandKey,
        /// Logical unit.
        lun: Lun,
        /// The operation.
        operation: Operation,
        /// Its data.
        data: DataMove,
    },
    /// Send a response.
    Respond(Response),
    /// Forget an aborted command and its memory: it has no response.
    Forget(CommandKey),
    /// Send an information unit that is no response.
    Send(ChannelKey, Vec<u8>),
    /// End a channel; then [`Target::channel_closed`](super::Target::channel_closed).
    Close(ChannelKey, CloseReason),
    /// Print a line about a channel.
    Log(ChannelKey, ChannelEvent),
}
