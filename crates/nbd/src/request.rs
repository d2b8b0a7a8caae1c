//! Requests: commands of a client, checked against the export.

use crate::export::Export;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::wire::{COMMAND_FUA, COMMAND_NO_HOLE, RequestHeader, command};

/// Number of a request on its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// Command of a client. Offsets and lengths are within the export, and multiples of its block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read bytes; the reply has them.
    Read {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Write bytes.
    Write {
        /// Begin.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
        /// They survive a power failure once the reply is sent.
        durable: bool,
    },
    /// Make all completed writes durable.
    Flush,
    /// Free space.
    Trim {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
        /// As for a write.
        durable: bool,
    },
    /// Write zeros.
    WriteZeroes {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
        /// The zeros may be a hole.
        may_be_hole: bool,
        /// As for a write.
        durable: bool,
    },
}

/// Request for the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number, for the reply.
    pub id: RequestId,
    /// The command.
    pub command: Command,
}

/// Errors of replies: the protocol's numbers are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorCode {
    /// The export is read-only.
    NotPermitted,
    /// The disk failed.
    Io,
    /// The request is malformed.
    Invalid,
    /// There is no space.
    NoSpace,
    /// The command is not supported.
    NotSupported,
    /// The server is about to end.
    Shutdown,
}

impl ErrorCode {
    pub(crate) fn number(self) -> u32 {
        match self {
            ErrorCode::NotPermitted => 1,
            ErrorCode::Io => 5,
            ErrorCode::Invalid => 22,
            ErrorCode::NoSpace => 28,
            ErrorCode::NotSupported => 95,
            ErrorCode::Shutdown => 108,
        }
    }
}

/// Checks a request. A WRITE's data follows later.
pub fn check(header: &RequestHeader, export: &Export) -> Result<Command, ErrorCode> {
    let (offset, length) = (header.offset.get(), header.length.get());
    let flags = header.flags.get();
    let durable = flags & COMMAND_FUA != 0;
    let (checked, is_change) = match header.command.get() {
        command::READ => (Command::Read { offset, length }, false),
        command::WRITE => (Command::Write { offset, data: Vec::new(), durable }, true),
        command::FLUSH => return Ok(Command::Flush),
        command::TRIM if export.has_trim || export.read_only => (Command::Trim { offset, length, durable }, true),
        command::WRITE_ZEROES if export.has_write_zeroes || export.read_only => {
            let may_be_hole = flags & COMMAND_NO_HOLE == 0;
            (Command::WriteZeroes { offset, length, may_be_hole, durable }, true)
        }
        _ => return Err(ErrorCode::NotSupported),
    };
    if is_change && export.read_only {
        return Err(ErrorCode::NotPermitted);
    }
    if flags & !(COMMAND_FUA | COMMAND_NO_HOLE) != 0 {
        return Err(ErrorCode::Invalid);
    }
    if matches!(checked, Command::Read { .. }) && length > PAYLOAD_BYTES_MAX {
        return Err(ErrorCode::Invalid);
    }
    let block = u64::from(export.block_bytes.max(1));
    let is_whole = length > 0 && offset.is_multiple_of(block) && u64::from(length).is_multiple_of(block);
    let is_inside = offset.checked_add(length.into()).is_some_and(|end| end <= export.bytes);
    match (is_whole && is_inside, is_change && !is_inside) {
        (true, _) => Ok(checked),
        // The protocol wants this error where a disk would be full.
        (_, true) => Err(ErrorCode::NoSpace),
        _ => Err(ErrorCode::Invalid),
    }
}
