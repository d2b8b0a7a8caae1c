//! Log pages but for discovery (NVM Express 1.4 §5.14.1).

use super::builder::Builder;
use crate::wire::{AdminOpcode, IoOpcode};

/// Temperature of the SMART log in kelvins: software has none, and hosts warn about 0.
const TEMPERATURE_K: u16 = 293;
/// The command is supported.
const SUPPORTED: u32 = 1 << 0;
/// The command may change logical blocks.
const CHANGES_BLOCKS: u32 = 1 << 1;

/// Error information: one entry, which tells of no error.
pub fn errors() -> Vec<u8> {
    Builder::new(64).finish()
}

/// SMART and health information: nothing is wrong, and nothing wears.
pub fn health(read_commands: u64, write_commands: u64) -> Vec<u8> {
    Builder::new(512).u16(1, TEMPERATURE_K).u8(3, 100).u8(4, 10).u64(64, read_commands).u64(80, write_commands).finish()
}

/// Firmware slots: the first one is active.
pub fn firmware_slots(revision: &str) -> Vec<u8> {
    Builder::new(512).u8(0, 1).padded(8, 8, revision).finish()
}

/// List of changed namespaces: none ever changes.
pub fn changed_namespaces() -> Vec<u8> {
    Builder::new(4096).finish()
}

/// Supported commands, and their effects.
pub fn effects() -> Vec<u8> {
    let admin = [
        AdminOpcode::GET_LOG_PAGE,
        AdminOpcode::IDENTIFY,
        AdminOpcode::ABORT,
        AdminOpcode::SET_FEATURES,
        AdminOpcode::GET_FEATURES,
        AdminOpcode::ASYNC_EVENT,
        AdminOpcode::KEEP_ALIVE,
    ];
    let io = [IoOpcode::FLUSH, IoOpcode::READ, IoOpcode::COMPARE];
    let changing = [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::DATASET_MANAGEMENT];
    let entry = |opcode: u8| usize::from(opcode) * 4;
    let mut page = Builder::new(4096);
    page = admin.iter().fold(page, |page, opcode| page.u32(entry(opcode.0), SUPPORTED));
    page = io.iter().fold(page, |page, opcode| page.u32(1024 + entry(opcode.0), SUPPORTED));
    changing.iter().fold(page, |page, opcode| page.u32(1024 + entry(opcode.0), SUPPORTED | CHANGES_BLOCKS)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_list_writes_as_changes() {
        let page = effects();
        let entry = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        assert_eq!((entry(6 * 4), entry(1024 + 4), entry(1024 + 8), entry(4)), (1, 3, 1, 0));
    }

    #[test]
    fn pages_have_their_lengths() {
        assert_eq!(
            [errors(), health(1, 2), firmware_slots("0.1"), changed_namespaces()].map(|page| page.len()),
            [64, 512, 512, 4096]
        );
        assert_eq!(health(5, 6)[64], 5);
    }
}
