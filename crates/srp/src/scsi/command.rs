//! The table of commands: operation codes, the form of each block, and the bits of it that the device reads.

use super::Cdb;

/// Form of a command that names blocks: the length of its block says where address and count stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Six bytes.
    Six,
    /// Ten bytes.
    Ten,
    /// Twelve bytes.
    Twelve,
    /// Sixteen bytes.
    Sixteen,
}

/// Command of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense,
    /// INQUIRY.
    Inquiry,
    /// MODE SENSE; `true`: of ten bytes.
    ModeSense(bool),
    /// START STOP UNIT.
    StartStop,
    /// READ CAPACITY (10).
    ReadCapacity10,
    /// READ CAPACITY (16).
    ReadCapacity16,
    /// REPORT LUNS.
    ReportLuns,
    /// REPORT SUPPORTED OPERATION CODES.
    ReportOpcodes,
    /// READ.
    Read(Form),
    /// WRITE.
    Write(Form),
    /// VERIFY.
    Verify(Form),
    /// SYNCHRONIZE CACHE.
    SyncCache(Form),
    /// WRITE SAME.
    WriteSame(Form),
    /// UNMAP.
    Unmap,
}

impl Command {
    /// Whether the command changes the medium.
    pub fn changes(self) -> bool {
        matches!(self, Command::Write(_) | Command::WriteSame(_) | Command::Unmap)
    }

    /// Whether the command needs a unit that is not stopped.
    pub fn needs_medium(self) -> bool {
        use Command::{Read, ReadCapacity10, ReadCapacity16, SyncCache, TestUnitReady, Verify};
        let reads = matches!(self, TestUnitReady | Read(_) | Verify(_) | SyncCache(_));
        reads || self.changes() || matches!(self, ReadCapacity10 | ReadCapacity16)
    }
}

/// Row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Operation code.
    pub opcode: u8,
    /// Service action, for operation codes that have one.
    pub service_action: Option<u8>,
    /// The command.
    pub command: Command,
    /// Bits that the device reads, in each byte after the operation code (SPC-4 §6.35.3: CDB USAGE DATA).
    pub usage: &'static [u8],
}

impl Row {
    /// Bytes of the command's block.
    pub fn len(&self) -> usize {
        self.usage.len() + 1
    }

    /// Returns the row of a command.
    pub fn find(cdb: &Cdb) -> Option<&'static Row> {
        let is_it = |row: &&Row| {
            row.opcode == cdb.opcode() && row.service_action.is_none_or(|action| action == cdb.service_action())
        };
        COMMANDS.iter().find(is_it)
    }
}

const fn row(opcode: u8, command: Command, usage: &'static [u8]) -> Row {
    Row { opcode, service_action: None, command, usage }
}

const fn action(opcode: u8, service_action: u8, command: Command, usage: &'static [u8]) -> Row {
    Row { opcode, service_action: Some(service_action), command, usage }
}

const SIX: &[u8] = &[0x1f, 0xff, 0xff, 0xff, 0];
/// DPO and FUA, address, count.
const TEN: &[u8] = &[0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
const TWELVE: &[u8] = &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const SIXTEEN: &[u8] = &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];

/// All commands, by operation code.
pub const COMMANDS: &[Row] = &[
    row(0x00, Command::TestUnitReady, &[0, 0, 0, 0, 0]),
    row(0x03, Command::RequestSense, &[0, 0, 0, 0xff, 0]),
    row(0x08, Command::Read(Form::Six), SIX),
    row(0x0a, Command::Write(Form::Six), SIX),
    row(0x12, Command::Inquiry, &[0x01, 0xff, 0xff, 0xff, 0]),
    row(0x1a, Command::ModeSense(false), &[0x08, 0xff, 0xff, 0xff, 0]),
    row(0x1b, Command::StartStop, &[0x01, 0, 0, 0x01, 0]),
    row(0x25, Command::ReadCapacity10, &[0, 0, 0, 0, 0, 0, 0, 0, 0]),
    row(0x28, Command::Read(Form::Ten), TEN),
    row(0x2a, Command::Write(Form::Ten), TEN),
    row(0x2f, Command::Verify(Form::Ten), &[0x12, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0]),
    row(0x35, Command::SyncCache(Form::Ten), &[0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0]),
    row(0x41, Command::WriteSame(Form::Ten), &[0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0]),
    row(0x42, Command::Unmap, &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    row(0x5a, Command::ModeSense(true), &[0x08, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0]),
    row(0x88, Command::Read(Form::Sixteen), SIXTEEN),
    row(0x8a, Command::Write(Form::Sixteen), SIXTEEN),
    row(
        0x8f,
        Command::Verify(Form::Sixteen),
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    ),
    row(
        0x91,
        Command::SyncCache(Form::Sixteen),
        &[0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    ),
    row(
        0x93,
        Command::WriteSame(Form::Sixteen),
        &[0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    ),
    action(0x9e, 0x10, Command::ReadCapacity16, &[0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    row(0xa0, Command::ReportLuns, &[0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(0xa3, 0x0c, Command::ReportOpcodes, &[0x0c, 0x07, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    row(0xa8, Command::Read(Form::Twelve), TWELVE),
    row(0xaa, Command::Write(Form::Twelve), TWELVE),
    row(0xaf, Command::Verify(Form::Twelve), &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_group_of_the_operation_code() {
        for row in COMMANDS {
            let len = match row.opcode >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                _ => 12,
            };
            assert_eq!(row.len(), len, "{:#x}", row.opcode);
        }
    }

    #[test]
    fn service_actions_are_part_of_the_name() {
        let mut cdb = Cdb([0; 16]);
        cdb.0[0] = 0x9e;
        assert!(Row::find(&cdb).is_none());
        cdb.0[1] = 0x10;
        assert_eq!(Row::find(&cdb).map(|row| row.command), Some(Command::ReadCapacity16));
    }
}
