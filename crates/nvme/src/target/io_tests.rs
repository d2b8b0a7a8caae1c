//! Each refusal of an I/O command, and each operation.

use super::*;

const NAMESPACE: Namespace =
    Namespace { id: 1, blocks: 1000, block_shift: 9, nguid: [0; 16], uuid: [0; 16], read_only: false };

fn memory(length: u32) -> HostMemory {
    HostMemory { address: 0x1000, length, key: 7, invalidate: true }
}

fn command(opcode: IoOpcode, begin: u32, blocks: u32, descriptor: Descriptor) -> Command {
    let mut command = Command::new(opcode.0, 1, 1).with_cdw(10, begin).with_cdw(12, blocks.wrapping_sub(1) & 0xffff);
    command.descriptor = descriptor.to_bytes();
    command
}

fn refused(command: &Command, capsule: &[u8]) -> u16 {
    begin(command, capsule, &NAMESPACE).expect_err("a refusal").code()
}

#[test]
fn reads_and_writes_name_bytes() {
    let host = Descriptor::Host(memory(1024));
    let read = begin(&command(IoOpcode::READ, 3, 2, host), &[], &NAMESPACE);
    assert_eq!(read, Ok(IoStep::Execute(Operation::Read { offset: 1536, length: 1024 }, IoData::Host(memory(1024)))));
    let in_capsule = Descriptor::InCapsule { offset: 4, length: 512 };
    let capsule: Vec<u8> = (0..516).map(|at| (at % 251) as u8).collect();
    let mut write = command(IoOpcode::WRITE, 999, 1, in_capsule);
    write = write.with_cdw(12, FORCE_UNIT_ACCESS);
    let operation = Operation::Write { offset: 999 * 512, length: 512, durable: true };
    let expected = IoStep::Execute(operation, IoData::Capsule(capsule[4..].to_vec()));
    assert_eq!(begin(&write, &capsule, &NAMESPACE), Ok(expected));
}

#[test]
fn each_wrong_field_has_its_status() {
    let host = |length| Descriptor::Host(memory(length));
    let read = |begin, blocks, length| refused(&command(IoOpcode::READ, begin, blocks, host(length)), &[]);
    assert_eq!(read(999, 2, 1024), Status::LBA_OUT_OF_RANGE.code());
    assert_eq!(read(1000, 1, 512), Status::LBA_OUT_OF_RANGE.code());
    assert_eq!(read(0, 2, 512), Status::DATA_LENGTH_INVALID.code());
    assert_eq!(read(0, 1, 0), Status::DATA_LENGTH_INVALID.code());
    let far = command(IoOpcode::READ, u32::MAX, 1, host(512)).with_cdw(11, u32::MAX);
    assert_eq!(refused(&far, &[]), Status::LBA_OUT_OF_RANGE.code());
    let in_capsule = |offset, length| Descriptor::InCapsule { offset, length };
    let write =
        |offset, length, blocks| refused(&command(IoOpcode::WRITE, 0, blocks, in_capsule(offset, length)), &[0; 600]);
    assert_eq!(write(89, 512, 1), Status::SGL_OFFSET_INVALID.code());
    assert_eq!(write(u64::MAX, 512, 1), Status::SGL_OFFSET_INVALID.code());
    assert_eq!(write(0, 1024, 2), Status::SGL_OFFSET_INVALID.code());
    assert_eq!(refused(&command(IoOpcode::READ, 0, 1, in_capsule(0, 512)), &[0; 512]), Status::INVALID_FIELD.code());
    let mut odd = command(IoOpcode::WRITE, 0, 1, host(512));
    odd.descriptor[15] = 0x50;
    assert_eq!(refused(&odd, &[]), Status::SGL_TYPE_INVALID.code());
    odd.flags |= 1;
    assert_eq!(refused(&odd, &[]), Status::INVALID_FIELD.code());
    assert_eq!(refused(&command(IoOpcode(0x0c), 0, 1, host(512)), &[]), Status::INVALID_OPCODE.code());
}

#[test]
fn a_transfer_has_a_greatest_length() {
    let large = Namespace { blocks: 1 << 20, ..NAMESPACE };
    let blocks = TRANSFER_BYTES_MAX >> 9;
    let read =
        |blocks: u32| begin(&command(IoOpcode::READ, 0, blocks, Descriptor::Host(memory(blocks << 9))), &[], &large);
    assert!(read(blocks).is_ok());
    assert_eq!(read(blocks + 1), Err(Status::INVALID_FIELD.final_one()));
}

#[test]
fn a_read_only_namespace_takes_no_changes() {
    let read_only = Namespace { read_only: true, ..NAMESPACE };
    for opcode in [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::DATASET_MANAGEMENT] {
        let command = command(opcode, 0, 1, Descriptor::Host(memory(512)));
        assert_eq!(begin(&command, &[], &read_only), Err(Status::WRITE_PROTECTED.final_one()), "{opcode:?}");
    }
    let flush = command(IoOpcode::FLUSH, 0, 1, Descriptor::Host(memory(0)));
    assert_eq!(begin(&flush, &[], &read_only), Ok(IoStep::Execute(Operation::Flush, IoData::None)));
}

fn dataset(ranges: u32, descriptor: Descriptor) -> Command {
    let mut command = Command::new(IoOpcode::DATASET_MANAGEMENT.0, 1, 1).with_cdw(10, ranges - 1);
    command.descriptor = descriptor.to_bytes();
    command.with_cdw(11, DEALLOCATE)
}

#[test]
fn ranges_are_fetched_and_checked() {
    // Linux names the longest list, whatever the number of ranges.
    let fetch = begin(&dataset(2, Descriptor::Host(memory(4096))), &[], &NAMESPACE);
    assert_eq!(fetch, Ok(IoStep::Fetch(memory(32))));
    assert_eq!(refused(&dataset(2, Descriptor::Host(memory(31))), &[]), Status::DATA_LENGTH_INVALID.code());
    let range = |begin: u64, blocks: u32| [&[0; 4], &blocks.to_le_bytes()[..], &begin.to_le_bytes()].concat();
    let ranges = [range(10, 2), range(0, 0)].concat();
    let in_capsule = Descriptor::InCapsule { offset: 0, length: 32 };
    let done = begin(&dataset(2, in_capsule), &ranges, &NAMESPACE);
    assert_eq!(done, Ok(IoStep::Execute(Operation::Deallocate(vec![(5120, 1024)]), IoData::None)));
    assert_eq!(
        refused(&dataset(2, in_capsule), &[range(999, 2), range(0, 1)].concat()),
        Status::LBA_OUT_OF_RANGE.code()
    );
    let hint = dataset(1, in_capsule).with_cdw(11, 0);
    assert_eq!(begin(&hint, &ranges, &NAMESPACE), Ok(IoStep::Execute(Operation::Deallocate(vec![]), IoData::None)));
}

#[test]
fn zeroes_may_be_longer_than_a_transfer() {
    let large = Namespace { blocks: 1 << 20, ..NAMESPACE };
    let zeroes = command(IoOpcode::WRITE_ZEROES, 1, 0x1_0000, Descriptor::Host(memory(0)))
        .with_cdw(12, 0xffff | ZERO_BY_DEALLOCATE);
    let operation = Operation::WriteZeroes { offset: 512, length: 512 << 16, deallocate: true, durable: false };
    assert_eq!(begin(&zeroes, &[], &large), Ok(IoStep::Execute(operation, IoData::None)));
}
