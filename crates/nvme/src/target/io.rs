//! Commands of I/O queues: the NVM command set, checked against the namespace.

use super::action::IoData;
use super::config::Namespace;
use super::data::HostData;
use crate::limits::{RANGES_MAX, TRANSFER_BYTES_MAX};
use crate::wire::{Command, Descriptor, HostMemory, IoOpcode};
use crate::{Operation, Status};

/// Bytes of a range of Dataset Management.
const RANGE_LEN: usize = 16;
/// Dataset Management: deallocate.
const DEALLOCATE: u32 = 1 << 2;
/// CDW12: Force Unit Access.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// CDW12 of Write Zeroes: deallocate.
const ZERO_BY_DEALLOCATE: u32 = 1 << 25;

/// First step of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoStep {
    /// Execute an operation.
    Execute(Operation, IoData),
    /// Fetch the ranges of Dataset Management.
    Fetch(HostMemory),
}

/// Checks a command, and returns its first step.
///
/// # Errors
/// The status for the host.
pub fn begin(command: &Command, capsule_data: &[u8], namespace: &Namespace) -> Result<IoStep, Status> {
    if command.is_fused() {
        return Err(Status::INVALID_FIELD.final_one());
    }
    let opcode = IoOpcode(command.opcode);
    let changes = [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::DATASET_MANAGEMENT].contains(&opcode);
    if changes && namespace.read_only {
        return Err(Status::WRITE_PROTECTED.final_one());
    }
    let durable = command.cdw(12) & FORCE_UNIT_ACCESS != 0;
    match opcode {
        IoOpcode::FLUSH => Ok(IoStep::Execute(Operation::Flush, IoData::None)),
        IoOpcode::READ => {
            let (offset, length) = transfer(command, namespace)?;
            match Descriptor::parse(&command.descriptor)? {
                Descriptor::Host(memory) => {
                    Ok(IoStep::Execute(Operation::Read { offset, length }, IoData::Host(memory)))
                }
                // Responses carry no data.
                Descriptor::InCapsule { .. } => Err(Status::INVALID_FIELD.final_one()),
            }
        }
        IoOpcode::WRITE | IoOpcode::COMPARE => {
            let (offset, length) = transfer(command, namespace)?;
            let data = match HostData::find(command, capsule_data)? {
                HostData::Capsule(bytes) => IoData::Capsule(bytes.to_vec()),
                HostData::Remote(memory) => IoData::Host(memory),
            };
            let operation = match opcode {
                IoOpcode::WRITE => Operation::Write { offset, length, durable },
                _ => Operation::Compare { offset, length },
            };
            Ok(IoStep::Execute(operation, data))
        }
        IoOpcode::WRITE_ZEROES => {
            let (offset, length) = range(command, namespace)?;
            let deallocate = command.cdw(12) & ZERO_BY_DEALLOCATE != 0;
            Ok(IoStep::Execute(Operation::WriteZeroes { offset, length, deallocate, durable }, IoData::None))
        }
        IoOpcode::DATASET_MANAGEMENT => match HostData::find(command, capsule_data)? {
            HostData::Capsule(bytes) => deallocation(command, bytes, namespace),
            HostData::Remote(memory) => Ok(IoStep::Fetch(ranges_of(command, memory)?)),
        },
        _ => Err(Status::INVALID_OPCODE.final_one()),
    }
}

/// Returns the operation of Dataset Management, whose ranges are here.
///
/// # Errors
/// A range is beyond the namespace, or ranges are missing.
pub fn deallocation(command: &Command, ranges: &[u8], namespace: &Namespace) -> Result<IoStep, Status> {
    let count = range_count(command);
    let ranges = ranges.get(..count * RANGE_LEN).ok_or(Status::DATA_LENGTH_INVALID.final_one())?;
    let mut list = Vec::with_capacity(count);
    for range in ranges.chunks_exact(RANGE_LEN) {
        let [_, _, _, _, n0, n1, n2, n3, b0, b1, b2, b3, b4, b5, b6, b7] = range else { continue };
        let blocks = u32::from_le_bytes([*n0, *n1, *n2, *n3]);
        let begin = u64::from_le_bytes([*b0, *b1, *b2, *b3, *b4, *b5, *b6, *b7]);
        if blocks > 0 {
            list.push(bytes_of(begin, blocks.into(), namespace)?);
        }
    }
    if command.cdw(11) & DEALLOCATE == 0 {
        // Hints about future accesses have no effect.
        list.clear();
    }
    Ok(IoStep::Execute(Operation::Deallocate(list), IoData::None))
}

/// Returns the number of ranges of Dataset Management.
fn range_count(command: &Command) -> usize {
    (command.cdw(10) as usize & 0xff) + 1
}

/// Cuts memory to the ranges in it: hosts may name the longest list's.
fn ranges_of(command: &Command, memory: HostMemory) -> Result<HostMemory, Status> {
    let length = (range_count(command).min(RANGES_MAX) * RANGE_LEN) as u32;
    if memory.length < length {
        return Err(Status::DATA_LENGTH_INVALID.final_one());
    }
    Ok(HostMemory { length, ..memory })
}

/// Returns begin and length in bytes of the blocks that a command names.
fn range(command: &Command, namespace: &Namespace) -> Result<(u64, u64), Status> {
    bytes_of(command.cdw_pair(10), u64::from(command.cdw(12) & 0xffff) + 1, namespace)
}

fn bytes_of(begin: u64, blocks: u64, namespace: &Namespace) -> Result<(u64, u64), Status> {
    let is_inside = begin.checked_add(blocks).is_some_and(|end| end <= namespace.blocks);
    if !is_inside {
        return Err(Status::LBA_OUT_OF_RANGE.final_one());
    }
    Ok((begin << namespace.block_shift, blocks << namespace.block_shift))
}

/// Returns begin and length of a transfer, whose data has exactly this length.
fn transfer(command: &Command, namespace: &Namespace) -> Result<(u64, u32), Status> {
    let (offset, length) = range(command, namespace)?;
    let length = u32::try_from(length).ok().filter(|length| *length <= TRANSFER_BYTES_MAX);
    let length = length.ok_or(Status::INVALID_FIELD.final_one())?;
    if Descriptor::parse(&command.descriptor).map_err(Status::final_one)?.length() != length {
        return Err(Status::DATA_LENGTH_INVALID.final_one());
    }
    Ok((offset, length))
}

#[cfg(test)]
#[path = "io_tests.rs"]
mod tests;
