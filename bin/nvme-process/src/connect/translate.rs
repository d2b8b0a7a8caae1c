//! Words of NBD and of NVMe: exports for namespaces, operations for commands, errors for statuses.

use weft_nbd::{Command, ErrorCode, Export};
use weft_nvme::{NamespaceInfo, Operation, RequestFailure, Status};

use crate::host::Driver;
use crate::registry::{ControllerState, NamespaceState};

/// Returns an export for each namespace; its name is the namespace's identifier.
pub fn exports(driver: &Driver) -> Vec<Export> {
    let (has_trim, has_write_zeroes, model) =
        driver.info().map(|info| (info.has_deallocate, info.has_write_zeroes, info.model.clone())).unwrap_or_default();
    let export = |namespace: &NamespaceInfo| Export {
        name: namespace.id.to_string(),
        description: format!("NVMe namespace {} of {model}", namespace.id),
        bytes: namespace.bytes(),
        block_bytes: 1 << namespace.block_shift,
        read_only: namespace.read_only,
        has_trim,
        has_write_zeroes,
    };
    driver.namespaces().map(export).collect()
}

/// Brings what others know of a controller up to date.
pub fn update(state: &mut ControllerState, driver: &Driver) {
    if let Some(info) = driver.info() {
        state.model.clone_from(&info.model);
        state.serial.clone_from(&info.serial);
        state.firmware.clone_from(&info.firmware);
        state.controller = info.id;
    }
    let namespace = |found: &NamespaceInfo| NamespaceState {
        id: found.id,
        blocks: found.blocks,
        used_blocks: found.used_blocks,
        block_bytes: 1 << found.block_shift,
        read_only: found.read_only,
    };
    state.namespaces = driver.namespaces().map(namespace).collect();
    state.is_live = driver.is_ready();
}

/// Operations of a command: the second follows the first.
#[derive(Debug)]
pub struct Operations {
    /// The operation.
    pub first: Operation,
    /// Bytes to write.
    pub data: Vec<u8>,
    /// Whether a Flush follows: Dataset Management knows no Force Unit Access.
    pub then_flush: bool,
}

/// Returns the operations of a command.
pub fn operations(command: Command) -> Operations {
    let without_data = |first| Operations { first, data: Vec::new(), then_flush: false };
    match command {
        Command::Read { offset, length } => without_data(Operation::Read { offset, length }),
        Command::Write { offset, data, durable } => {
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            Operations { data, ..without_data(Operation::Write { offset, length, durable }) }
        }
        Command::Flush => without_data(Operation::Flush),
        Command::Trim { offset, length, durable } => {
            let first = Operation::Deallocate(vec![(offset, length.into())]);
            Operations { then_flush: durable, ..without_data(first) }
        }
        Command::WriteZeroes { offset, length, may_be_hole, durable } => {
            without_data(Operation::WriteZeroes { offset, length: length.into(), deallocate: may_be_hole, durable })
        }
    }
}

/// Returns NBD's error for a failure.
pub fn error(failure: RequestFailure) -> ErrorCode {
    let status = match failure {
        RequestFailure::Status(status) => status,
        RequestFailure::Lost => return ErrorCode::Io,
        RequestFailure::Ended => return ErrorCode::Shutdown,
    };
    let is = |other: Status| status.code() == other.code();
    if is(Status::WRITE_PROTECTED) || is(Status::ACCESS_DENIED) {
        ErrorCode::NotPermitted
    } else if is(Status::CAPACITY_EXCEEDED) {
        ErrorCode::NoSpace
    } else if is(Status::LBA_OUT_OF_RANGE) || is(Status::INVALID_FIELD) {
        ErrorCode::Invalid
    } else if is(Status::INVALID_OPCODE) || is(Status::NOT_SUPPORTED) {
        // Clients then do without: they write zeros themselves, for example.
        ErrorCode::NotSupported
    } else {
        ErrorCode::Io
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_trim_is_flushed() {
        let trim = operations(Command::Trim { offset: 512, length: 1024, durable: true });
        assert_eq!((trim.first, trim.then_flush), (Operation::Deallocate(vec![(512, 1024)]), true));
        let read = operations(Command::Read { offset: 0, length: 512 });
        assert_eq!((read.first, read.then_flush), (Operation::Read { offset: 0, length: 512 }, false));
    }

    #[test]
    fn statuses_become_errors_of_the_protocol() {
        let status = |status: Status| error(RequestFailure::Status(status.final_one()));
        assert_eq!(status(Status::WRITE_PROTECTED), ErrorCode::NotPermitted);
        assert_eq!(status(Status::CAPACITY_EXCEEDED), ErrorCode::NoSpace);
        assert_eq!(status(Status::READ_ERROR), ErrorCode::Io);
        assert_eq!(status(Status::NOT_SUPPORTED), ErrorCode::NotSupported);
        assert_eq!(error(RequestFailure::Ended), ErrorCode::Shutdown);
    }
}
