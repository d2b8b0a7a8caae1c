//! Commands on blocks (SBC-3): they are checked against the unit and become operations.

use super::command::Form;
use super::limits::{PARAMETERS_MAX, TRANSFER_BYTES_MAX, UNMAP_BYTES_MAX, UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BYTES_MAX};
use super::{Cdb, LogicalUnit, Operation, Sense, Step};

/// Force Unit Access.
const FUA: u8 = 0x08;
/// RDPROTECT, WRPROTECT or VRPROTECT: there is no protection information.
const PROTECT: u8 = 0xe0;
/// BYTCHK of VERIFY.
const BYTE_CHECK: u8 = 0x06;
/// WRITE SAME: free the blocks; without data.
const UNMAP: u8 = 0x08;
const NO_DATA: u8 = 0x01;
/// WRITE SAME: ANCHOR, and what earlier standards had.
const WRITE_SAME_OTHERS: u8 = 0x16;
/// UNMAP: ANCHOR.
const ANCHOR: u8 = 0x01;

/// Blocks of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Blocks {
    first: u64,
    count: u64,
}

impl Blocks {
    fn of(cdb: &Cdb, form: Form) -> Blocks {
        let (first, count) = match form {
            // No count is 256 blocks.
            Form::Six => (u64::from(cdb.be32(0) & 0x1f_ffff), (u64::from(cdb.byte(4)) + 255) % 256 + 1),
            Form::Ten => (cdb.be32(2).into(), cdb.be16(7).into()),
            Form::Twelve => (cdb.be32(2).into(), cdb.be32(6).into()),
            Form::Sixteen => (cdb.be64(2), cdb.be32(10).into()),
        };
        Blocks { first, count }
    }

    /// Returns offset and length in bytes.
    fn within(self, unit: &LogicalUnit) -> Result<(u64, u64), Sense> {
        let end = self.first.checked_add(self.count).filter(|end| *end <= unit.blocks);
        end.filter(|_| self.first < unit.blocks).ok_or(Sense::OUT_OF_RANGE)?;
        Ok((self.first << unit.block_shift, self.count << unit.block_shift))
    }

    /// Returns offset and length of a transfer.
    fn transfer(self, unit: &LogicalUnit) -> Result<(u64, u32), Sense> {
        let (offset, length) = self.within(unit)?;
        let length = u32::try_from(length).ok().filter(|length| *length <= TRANSFER_BYTES_MAX);
        Ok((offset, length.ok_or(Sense::INVALID_FIELD)?))
    }
}

/// Returns the options of a command, of which the one with six bytes has none.
fn options(cdb: &Cdb, form: Form) -> Result<u8, Sense> {
    let options = if form == Form::Six { 0 } else { cdb.byte(1) };
    if options & PROTECT == 0 { Ok(options) } else { Err(Sense::INVALID_FIELD) }
}

/// READ.
pub fn read(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<Step, Sense> {
    let durable = options(cdb, form)? & FUA != 0;
    let (offset, length) = Blocks::of(cdb, form).transfer(unit)?;
    Ok(if length == 0 { Step::Done } else { Step::Execute(Operation::Read { offset, length, durable }) })
}

/// WRITE.
pub fn write(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<Step, Sense> {
    let durable = options(cdb, form)? & FUA != 0;
    let (offset, length) = Blocks::of(cdb, form).transfer(unit)?;
    Ok(if length == 0 { Step::Done } else { Step::Execute(Operation::Write { offset, length, durable }) })
}

/// VERIFY: of the medium alone, or against data.
pub fn verify(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<Step, Sense> {
    let check = (options(cdb, form)? & BYTE_CHECK) >> 1;
    let (offset, length) = Blocks::of(cdb, form).transfer(unit)?;
    Ok(match check {
        _ if length == 0 => Step::Done,
        0 => Step::Execute(Operation::Verify { offset, length }),
        1 => Step::Execute(Operation::Compare { offset, length }),
        _ => return Err(Sense::INVALID_FIELD),
    })
}

/// SYNCHRONIZE CACHE: the blocks are checked, and all writes made durable.
pub fn sync_cache(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<Step, Sense> {
    Blocks::of(cdb, form).within(unit)?;
    Ok(Step::Execute(Operation::Flush))
}

/// WRITE SAME: takes the block, or none.
pub fn write_same(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<Step, Sense> {
    let options = options(cdb, form)?;
    let (offset, length) = same_range(cdb, form, unit)?;
    let is_without_data = options & NO_DATA != 0;
    if options & WRITE_SAME_OTHERS != 0 || is_without_data && form != Form::Sixteen {
        return Err(Sense::INVALID_FIELD);
    }
    let deallocate = options & UNMAP != 0;
    Ok(match is_without_data {
        true => Step::Execute(Operation::WriteZeroes { offset, length, deallocate }),
        false => Step::Fetch(unit.block_bytes()),
    })
}

/// WRITE SAME, whose block is here.
pub fn write_same_of(cdb: &Cdb, form: Form, unit: &LogicalUnit, block: &[u8]) -> Result<Step, Sense> {
    let (offset, length) = same_range(cdb, form, unit)?;
    let deallocate = cdb.has(1, UNMAP);
    Ok(Step::Execute(match block.iter().all(|byte| *byte == 0) {
        true => Operation::WriteZeroes { offset, length, deallocate },
        false => Operation::Repeat { offset, length, block: block.to_vec() },
    }))
}

/// Returns offset and length of a WRITE SAME, which names at least one block.
fn same_range(cdb: &Cdb, form: Form, unit: &LogicalUnit) -> Result<(u64, u64), Sense> {
    let range = Blocks::of(cdb, form).within(unit)?;
    if (1..=WRITE_SAME_BYTES_MAX).contains(&range.1) { Ok(range) } else { Err(Sense::INVALID_FIELD) }
}

/// UNMAP: takes the parameter list.
pub fn unmap(cdb: &Cdb) -> Result<Step, Sense> {
    match u32::from(cdb.be16(7)) {
        _ if cdb.has(1, ANCHOR) => Err(Sense::INVALID_FIELD),
        0 => Ok(Step::Done),
        1..8 => Err(Sense::PARAMETER_LIST_LENGTH),
        length @ 8..=PARAMETERS_MAX => Ok(Step::Fetch(length)),
        _ => Err(Sense::INVALID_FIELD),
    }
}

/// UNMAP, whose parameter list is here: a header of eight bytes, and descriptors of sixteen.
pub fn unmap_of(unit: &LogicalUnit, list: &[u8]) -> Result<Step, Sense> {
    let Some((header, rest)) = list.split_at_checked(8) else { return Err(Sense::PARAMETER_LIST_LENGTH) };
    let announced = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let descriptors = rest.get(..announced).unwrap_or(rest).chunks_exact(16);
    if descriptors.len() > UNMAP_DESCRIPTORS_MAX as usize {
        return Err(Sense::INVALID_PARAMETER);
    }
    let (mut ranges, mut total) = (Vec::new(), 0);
    for descriptor in descriptors {
        let mut block = [0; 16];
        block.copy_from_slice(descriptor);
        let fields = Cdb(block);
        let blocks = Blocks { first: fields.be64(0), count: fields.be32(8).into() };
        if blocks.count > 0 {
            let range = blocks.within(unit)?;
            total += range.1;
            ranges.push(range);
        }
    }
    match total {
        0 => Ok(Step::Done),
        1..=UNMAP_BYTES_MAX => Ok(Step::Execute(Operation::Deallocate(ranges))),
        _ => Err(Sense::INVALID_PARAMETER),
    }
}
