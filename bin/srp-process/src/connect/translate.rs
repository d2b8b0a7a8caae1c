//! Words of NBD and of SCSI: exports for disks, operations for commands, errors for failures.

use weft_nbd::{Command, ErrorCode, Export};
use weft_srp::scsi::Sense;
use weft_srp::{CommandFailure, DiskInfo, DiskOperation, RequestFailure};

use crate::initiator::Driver;
use crate::registry::{DiskState, SessionState};

/// Sense keys: illegal request, data protect.
const ILLEGAL_REQUEST: u8 = 0x5;
const DATA_PROTECT: u8 = 0x7;
/// Space allocation failed write protect.
const NO_SPACE: u16 = 0x2707;

/// Returns an export for each disk; its name is the number of the logical unit.
pub fn exports(driver: &Driver) -> Vec<Export> {
    let export = |disk: &DiskInfo| Export {
        name: disk.lun.to_string(),
        description: format!("SCSI disk {} {}, logical unit {}", disk.vendor, disk.model, disk.lun),
        bytes: disk.bytes(),
        block_bytes: 1 << disk.block_shift,
        read_only: disk.read_only,
        has_trim: disk.has_discard(),
        has_write_zeroes: disk.has_write_zeroes(),
    };
    driver.disks().map(export).collect()
}

/// Brings what others know of a login up to date.
pub fn update(state: &mut SessionState, driver: &Driver) {
    let disk = |found: &DiskInfo| DiskState {
        lun: found.lun,
        vendor: found.vendor.clone(),
        model: found.model.clone(),
        revision: found.revision.clone(),
        bytes: found.bytes(),
        block_bytes: 1 << found.block_shift,
        read_only: found.read_only,
    };
    state.disks = driver.disks().map(disk).collect();
    state.is_live = driver.is_ready();
}

/// Operations of a command: the second follows the first.
#[derive(Debug)]
pub struct Operations {
    /// The operation.
    pub first: DiskOperation,
    /// Bytes to write.
    pub data: Vec<u8>,
    /// Whether a flush follows.
    pub then_flush: bool,
}

/// Returns the operations of a command. UNMAP and WRITE SAME know no Force Unit Access, and some disks do not.
pub fn operations(command: Command, has_fua: bool) -> Operations {
    let without_data = |first| Operations { first, data: Vec::new(), then_flush: false };
    match command {
        Command::Read { offset, length } => without_data(DiskOperation::Read { offset, length }),
        Command::Write { offset, data, durable } => {
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let first = DiskOperation::Write { offset, length, durable };
            Operations { first, data, then_flush: durable && !has_fua }
        }
        Command::Flush => without_data(DiskOperation::Flush),
        Command::Trim { offset, length, durable } => {
            let first = DiskOperation::Discard { offset, length: length.into() };
            Operations { then_flush: durable, ..without_data(first) }
        }
        Command::WriteZeroes { offset, length, may_be_hole, durable } => {
            let first = DiskOperation::WriteZeroes { offset, length: length.into(), may_free: may_be_hole };
            Operations { then_flush: durable, ..without_data(first) }
        }
    }
}

/// Returns NBD's error for a failure.
pub fn error(failure: RequestFailure) -> ErrorCode {
    match failure {
        RequestFailure::Ended => ErrorCode::Shutdown,
        RequestFailure::ReadOnly => ErrorCode::NotPermitted,
        RequestFailure::Unaligned | RequestFailure::OutOfRange => ErrorCode::Invalid,
        RequestFailure::NotSupported => ErrorCode::NotSupported,
        RequestFailure::NoDisk | RequestFailure::Lost | RequestFailure::NoConnection => ErrorCode::Io,
        RequestFailure::Command(CommandFailure::Sense(sense)) => match sense {
            // Clients then do without: they write zeros themselves, for example.
            Sense::INVALID_OPCODE => ErrorCode::NotSupported,
            Sense { key: ILLEGAL_REQUEST, .. } => ErrorCode::Invalid,
            Sense { key: DATA_PROTECT, code: NO_SPACE } => ErrorCode::NoSpace,
            Sense { key: DATA_PROTECT, .. } => ErrorCode::NotPermitted,
            _ => ErrorCode::Io,
        },
        RequestFailure::Command(_) => ErrorCode::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_changes_are_flushed_where_the_disk_needs_it() {
        let trim = operations(Command::Trim { offset: 512, length: 1024, durable: true }, true);
        assert_eq!((trim.first, trim.then_flush), (DiskOperation::Discard { offset: 512, length: 1024 }, true));
        let write =
            |has_fua| operations(Command::Write { offset: 0, data: vec![1; 512], durable: true }, has_fua).then_flush;
        assert_eq!([write(true), write(false)], [false, true]);
        let read = operations(Command::Read { offset: 0, length: 512 }, false);
        assert_eq!((read.first, read.then_flush), (DiskOperation::Read { offset: 0, length: 512 }, false));
    }

    #[test]
    fn failures_become_errors_of_the_protocol() {
        let sense = |sense: Sense| error(CommandFailure::Sense(sense).into());
        let found =
            [Sense::WRITE_PROTECTED, Sense::NO_SPACE, Sense::READ_ERROR, Sense::INVALID_OPCODE, Sense::OUT_OF_RANGE];
        let expected =
            [ErrorCode::NotPermitted, ErrorCode::NoSpace, ErrorCode::Io, ErrorCode::NotSupported, ErrorCode::Invalid];
        assert_eq!(found.map(sense), expected);
        assert_eq!(
            (error(RequestFailure::Ended), error(RequestFailure::NoConnection)),
            (ErrorCode::Shutdown, ErrorCode::Io)
        );
    }
}
