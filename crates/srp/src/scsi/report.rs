//! Data about the device: capacities, logical units, supported commands (SBC-3 §5.15, SPC-4 §6.33, §6.35).

use super::command::{COMMANDS, Row};
use super::{Cdb, LogicalUnit, Lun, Sense, lun_bytes};

/// Logical block provisioning management is enabled, and freed blocks read as zeros.
const PROVISIONING: u8 = 0xc0;

/// Returns READ CAPACITY (10)'s data.
pub fn capacity10(unit: &LogicalUnit) -> Vec<u8> {
    let last = u32::try_from(unit.blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    [last.to_be_bytes(), unit.block_bytes().to_be_bytes()].concat()
}

/// Returns READ CAPACITY (16)'s data.
pub fn capacity16(unit: &LogicalUnit) -> Vec<u8> {
    let mut bytes = unit.blocks.saturating_sub(1).to_be_bytes().to_vec();
    bytes.extend(unit.block_bytes().to_be_bytes());
    bytes.resize(32, 0);
    // Blocks per physical block of 4 KiB, as a power of two.
    bytes[13] = 12_u8.saturating_sub(unit.block_shift);
    bytes[14] = PROVISIONING;
    bytes
}

/// Returns REPORT LUNS' data.
pub fn luns(units: impl Iterator<Item = Lun>, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let list: Vec<u8> = match cdb.byte(2) {
        0 | 2 => units.flat_map(lun_bytes).collect(),
        // There are no well-known logical units.
        1 => Vec::new(),
        _ => return Err(Sense::INVALID_FIELD),
    };
    Ok([&(list.len() as u32).to_be_bytes()[..], &[0; 4], &list].concat())
}

/// Returns REPORT SUPPORTED OPERATION CODES' data.
pub fn opcodes(cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let (opcode, action) = (cdb.byte(3), cdb.be16(4));
    let same = |row: &&Row| row.opcode == opcode;
    let with_action = COMMANDS.iter().filter(same).any(|row| row.service_action.is_some());
    let found = match cdb.byte(2) & 7 {
        0 => return Ok(all_opcodes()),
        1 if with_action => return Err(Sense::INVALID_FIELD),
        1 => COMMANDS.iter().find(same),
        2 if !with_action && COMMANDS.iter().any(|row| row.opcode == opcode) => return Err(Sense::INVALID_FIELD),
        2 | 3 => COMMANDS.iter().filter(same).find(|row| u16::from(row.service_action.unwrap_or(0)) == action),
        _ => return Err(Sense::INVALID_FIELD),
    };
    Ok(match found {
        Some(row) => [&[0, 3, 0, row.len() as u8, row.opcode], row.usage].concat(),
        None => vec![0, 1, 0, 0],
    })
}

fn all_opcodes() -> Vec<u8> {
    let mut bytes = (COMMANDS.len() as u32 * 8).to_be_bytes().to_vec();
    for row in COMMANDS {
        let has_action = u8::from(row.service_action.is_some());
        bytes.extend([row.opcode, 0, 0, row.service_action.unwrap_or(0), 0, has_action, 0, row.len() as u8]);
    }
    bytes
}
