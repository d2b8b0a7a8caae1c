//! A channel, and its requests in progress.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{ChannelKey, CommandKey, DataMove};
use crate::limits::REQUEST_LIMIT;
use crate::scsi::{Cdb, Lun, Operation};
use crate::wire::{DataBuffer, Descriptors, PortId};

/// Progress of a request.
#[derive(Debug)]
pub enum Progress {
    /// It has just arrived.
    New,
    /// A table of descriptors is being fetched.
    Table,
    /// Parameters of the command are being fetched.
    Parameters,
    /// The operation waits until operations of an ended channel of the same initiator have ended.
    Held(Operation, DataMove),
    /// The owner has the operation, which has not begun.
    Queued,
    /// The operation works on the medium.
    Running,
    /// A task management function waits for commands that it aborts.
    Task,
}

/// How an aborted command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// Without response: its own initiator aborted it.
    Silent,
    /// With TASK ABORTED: another one did.
    Reported,
}

/// Request in progress.
#[derive(Debug)]
pub struct Request {
    /// Tag.
    pub tag: [u8; 8],
    /// Logical unit; `None`: the address names none.
    pub lun: Option<Lun>,
    /// Command descriptor block.
    pub cdb: Cdb,
    /// Buffer of data to the target.
    pub out: Descriptors,
    /// Buffer of data to the initiator.
    pub into: Descriptors,
    /// Bytes that the command takes from the initiator.
    pub data_out: u32,
    /// Bytes that the command has for the initiator, even if its buffer is smaller.
    pub data_in: u32,
    /// Progress.
    pub progress: Progress,
    /// Whether and how it was aborted.
    pub abort: Option<Abort>,
}

impl Request {
    /// Whether it is a command, not a task management function.
    pub fn is_command(&self) -> bool {
        !matches!(self.progress, Progress::Task)
    }

    /// Returns the lengths of both buffers.
    pub fn lengths(&self) -> (u32, u32) {
        let length = |buffer: &Descriptors| match buffer {
            Descriptors::Known(buffer) => buffer.length,
            Descriptors::Indirect(indirect) => indirect.length,
        };
        (length(&self.out), length(&self.into))
    }
}

/// Task management function that waits for commands.
#[derive(Debug)]
pub struct PendingTask {
    /// The function's request.
    pub request: CommandKey,
    /// Commands that have not ended.
    pub waits: BTreeSet<CommandKey>,
}

/// Returns a buffer without bytes.
pub fn no_buffer() -> Descriptors {
    Descriptors::Known(DataBuffer::default())
}

/// Channel.
#[derive(Debug)]
pub struct Channel {
    /// The initiator.
    pub initiator: PortId,
    /// Place of immediate data, if login agreed on one.
    pub immediate_at: Option<u16>,
    /// Requests in progress, by their numbers.
    pub open: BTreeMap<u64, Request>,
    /// Whether the owner has been asked to end it.
    pub is_ending: bool,
    next: u64,
    /// Requests of aborted commands by which the initiator's limit grows with the next response.
    returned: u32,
    /// Whether an SRP_CRED_REQ has no response yet.
    credit_requested: bool,
}

impl Channel {
    /// Returns a new channel.
    pub fn new(initiator: PortId, immediate_at: Option<u16>) -> Channel {
        Channel {
            initiator,
            immediate_at,
            open: BTreeMap::new(),
            is_ending: false,
            next: 0,
            returned: 0,
            credit_requested: false,
        }
    }

    /// Takes a request, and returns its name. `None`: the initiator has as many requests as it may have.
    pub fn begin(&mut self, channel: ChannelKey, request: Request) -> Option<CommandKey> {
        if self.open.len() + self.returned as usize >= usize::from(REQUEST_LIMIT) {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.open.insert(sequence, request);
        Some(CommandKey { channel, sequence })
    }

    /// Whether two commands in progress have a tag.
    pub fn has_twice(&self, tag: [u8; 8]) -> bool {
        self.open.values().filter(|request| request.tag == tag && request.is_command()).count() > 1
    }

    /// Returns by how much the initiator's limit grows with a response.
    pub fn take_credit(&mut self) -> u32 {
        1 + std::mem::take(&mut self.returned)
    }

    /// Notes the end of a request that has no response.
    pub fn without_response(&mut self) {
        self.returned += 1;
    }

    /// Returns the growth of the limit that no response will carry, for an SRP_CRED_REQ.
    pub fn credit_request(&mut self) -> Option<u32> {
        let is_answered = self.open.values().any(|request| request.abort != Some(Abort::Silent));
        if self.returned == 0 || is_answered || self.credit_requested || self.is_ending {
            return None;
        }
        self.credit_requested = true;
        Some(std::mem::take(&mut self.returned))
    }

    /// Takes an SRP_CRED_RSP. Returns whether there was a request for it.
    pub fn credit_response(&mut self) -> bool {
        std::mem::take(&mut self.credit_requested)
    }
}
