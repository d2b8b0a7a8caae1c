//! Work for the owner of the queue pair.

use super::disk::DiskInfo;
use super::failure::{LostReason, RequestFailure};
use crate::scsi::{Cdb, Lun, Sense};
use crate::wire::{LoginRequest, OutgoingCommand, Piece};

/// Name of a request: chosen by the owner, and unique among the requests in progress.
pub type RequestKey = u64;

/// Tag of a command: unique as long as the initiator exists.
pub type CommandTag = u64;

/// Bytes of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskContent {
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
    /// A structure of at most this length that the target writes, for [`Initiator::handle_page`].
    ///
    /// [`Initiator::handle_page`]: super::Initiator::handle_page
    Page(u32),
}

impl DiskContent {
    /// Length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            DiskContent::Bytes(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            DiskContent::Request { length, .. } | DiskContent::Page(length) => *length,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Way of a command's data: the target reaches it in memory that the command lends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskCommandData {
    /// The command has none.
    None,
    /// The target READs it.
    Lent(DiskContent),
    /// The target WRITEs it.
    Awaited(DiskContent),
}

/// Command to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingDiskCommand {
    /// Its tag.
    pub tag: CommandTag,
    /// Its data.
    pub data: DiskCommandData,
    pub(super) lun: [u8; 8],
    pub(super) cdb: Cdb,
}

impl OutgoingDiskCommand {
    /// Returns the information unit. `memory` is what the target reaches, for data that is lent or awaited.
    pub fn to_iu(&self, memory: Option<Piece>) -> Vec<u8> {
        let (out, into) = match self.data {
            DiskCommandData::None => (None, None),
            DiskCommandData::Lent(_) => (memory, None),
            DiskCommandData::Awaited(_) => (None, memory),
        };
        OutgoingCommand { tag: self.tag, lun: self.lun, cdb: self.cdb.0, out, into }.to_bytes()
    }
}

/// Use of memory that a command lent, once the command has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskOutcome {
    /// Its bytes are not needed.
    Discard,
    /// Its bytes belong to a request's data, or are a structure for [`Initiator::handle_page`]: the length says how many.
    ///
    /// [`Initiator::handle_page`]: super::Initiator::handle_page
    Take(DiskContent),
}

/// Event for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InitiatorEvent {
    /// The disks are ready: for the first time, or again.
    Ready {
        /// Disks.
        disks: usize,
        /// Attempts to log in again; 0 for the first time.
        attempts: u32,
    },
    /// The connection is lost.
    Lost(LostReason),
    /// The connection is lost for so long that requests fail (`fast_io_fail_tmo`).
    FailingFast,
    /// A logical unit is not used.
    Unusable {
        /// Number of the logical unit.
        lun: Lun,
        /// Reason.
        reason: &'static str,
    },
    /// Logical units are not used, because there are too many, or their addresses have another form.
    Unknown(usize),
    /// A disk is another one after the login, or gone; its requests fail.
    Changed(DiskInfo),
    /// A disk reports that it has changed.
    Attention {
        /// Number of the logical unit.
        lun: Lun,
        /// The change.
        sense: Sense,
    },
    /// A command failed.
    Failed {
        /// Number of the logical unit.
        lun: Lun,
        /// Operation code.
        opcode: u8,
        /// Reason.
        failure: super::failure::CommandFailure,
    },
    /// A command takes too long; a task management function aborts it, or all of its disk.
    Aborting {
        /// Number of the logical unit.
        lun: Lun,
        /// Operation code of the command.
        opcode: u8,
        /// The whole disk is reset.
        is_reset: bool,
    },
}

/// Work for the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InitiatorAction {
    /// Connect, with this private data; then [`Initiator::logged_in`] or [`Initiator::connection_lost`].
    ///
    /// [`Initiator::logged_in`]: super::Initiator::logged_in
    /// [`Initiator::connection_lost`]: super::Initiator::connection_lost
    Open(LoginRequest),
    /// Send a command; [`Initiator::sent`] comes first.
    ///
    /// [`Initiator::sent`]: super::Initiator::sent
    Send(OutgoingDiskCommand),
    /// Send an information unit without data.
    SendUnit(Vec<u8>),
    /// Take memory back from a command that ended: its key must be invalid before its bytes are used.
    Release {
        /// The command.
        tag: CommandTag,
        /// The target's SEND has invalidated the key.
        is_invalid: bool,
        /// Use of the bytes.
        outcome: DiskOutcome,
    },
    /// A request has ended; a Read's data is complete if it succeeded.
    Done(RequestKey, Result<(), RequestFailure>),
    /// End the connection, with the memory that its commands lent.
    Close,
    /// Print a line.
    Log(InitiatorEvent),
    /// The initiator has ended: all requests are done, and later ones fail at once.
    Ended(LostReason),
}
