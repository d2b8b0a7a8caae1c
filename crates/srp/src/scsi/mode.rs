//! MODE SENSE: the caching and the control page (SPC-4 §6.13, §7.5; SBC-3 §6.4). No parameter can be changed.

use super::{Cdb, LogicalUnit, Sense};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// Device-specific parameter: write protected; DPO and FUA are supported.
const WRITE_PROTECT: u8 = 0x80;
const DPO_FUA: u8 = 0x10;

/// Page control: changeable values, saved values.
const CHANGEABLE: u8 = 1;
const SAVED: u8 = 3;

/// The operating system's cache holds writes.
const WRITE_CACHE: u8 = 0x04;
/// Commands may be reordered without restriction.
const UNRESTRICTED: u8 = 0x10;
/// Commands that another initiator aborts end with TASK ABORTED.
const TASK_ABORTED_STATUS: u8 = 0x40;

/// Returns the data, not cut to the allocation length. `is_long`: of the command with ten bytes.
pub fn mode_sense(unit: &LogicalUnit, cdb: &Cdb, is_long: bool) -> Result<Vec<u8>, Sense> {
    let (control, page, subpage) = (cdb.byte(2) >> 6, cdb.byte(2) & 0x3f, cdb.byte(3));
    if control == SAVED {
        return Err(Sense::NO_SAVING);
    }
    let mut pages = Vec::new();
    match (page, subpage) {
        (CACHING, 0) => pages.extend(caching(control)),
        (CONTROL, 0) => pages.extend(control_page(control)),
        (ALL_PAGES, 0 | ALL_SUBPAGES) => {
            pages.extend(caching(control));
            pages.extend(control_page(control));
        }
        _ => return Err(Sense::INVALID_FIELD),
    }
    let descriptor = if cdb.has(1, 0x08) { Vec::new() } else { block_descriptor(unit) };
    let specific = DPO_FUA | if unit.read_only { WRITE_PROTECT } else { 0 };
    let descriptor_len = descriptor.len() as u8;
    let header = if is_long {
        let [high, low] = (6 + descriptor.len() as u16 + pages.len() as u16).to_be_bytes();
        vec![high, low, 0, specific, 0, 0, 0, descriptor_len]
    } else {
        vec![3 + descriptor_len + pages.len() as u8, 0, specific, descriptor_len]
    };
    Ok([header, descriptor, pages].concat())
}

/// Short block descriptor: number of blocks, and bytes of a block.
fn block_descriptor(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = u32::try_from(unit.blocks).unwrap_or(u32::MAX);
    [blocks.to_be_bytes(), unit.block_bytes().to_be_bytes()].concat()
}

/// A page's bytes; its changeable values are none.
fn page(control: u8, code: u8, len: usize, fields: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    (bytes[0], bytes[1]) = (code, len as u8 - 2);
    for (at, value) in fields.iter().filter(|_| control != CHANGEABLE) {
        bytes[*at] = *value;
    }
    bytes
}

fn caching(control: u8) -> Vec<u8> {
    page(control, CACHING, 20, &[(2, WRITE_CACHE)])
}

fn control_page(control: u8) -> Vec<u8> {
    page(control, CONTROL, 12, &[(3, UNRESTRICTED), (5, TASK_ABORTED_STATUS)])
}
