//! INQUIRY: the standard data and the vital product data pages (SPC-4 §6.6, §7.8; SBC-3 §6.5).

use super::limits::{TRANSFER_BYTES_MAX, UNMAP_BYTES_MAX, UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BYTES_MAX};
use super::{Cdb, Identity, LogicalUnit, Sense};

/// Peripheral qualifier and device type where there is no logical unit.
const NO_UNIT: u8 = 0x7f;
/// SPC-4.
const VERSION: u8 = 6;
/// Hierarchical addresses of logical units, response data format 2.
const FORMAT: u8 = 0x12;
/// Commands have tags.
const TAGS: u8 = 0x02;
/// Standards that the device follows: SAM-5, SRP, SPC-4, SBC-3.
const STANDARDS: [u16; 4] = [0x00a0, 0x0940, 0x0460, 0x04c0];
/// Bytes of the standard data.
const STANDARD_LEN: usize = 96;

const SUPPORTED_PAGES: u8 = 0x00;
const SERIAL: u8 = 0x80;
const IDENTIFICATION: u8 = 0x83;
const EXTENDED: u8 = 0x86;
const BLOCK_LIMITS: u8 = 0xb0;
const CHARACTERISTICS: u8 = 0xb1;
const PROVISIONING: u8 = 0xb2;
/// Pages, in their order.
const PAGES: [u8; 7] = [SUPPORTED_PAGES, SERIAL, IDENTIFICATION, EXTENDED, BLOCK_LIMITS, CHARACTERISTICS, PROVISIONING];

/// Returns the data, not cut to the allocation length.
pub fn inquiry(identity: &Identity, unit: Option<&LogicalUnit>, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    let page = cdb.byte(2);
    match (cdb.has(1, 1), unit) {
        (false, _) if page != 0 => Err(Sense::INVALID_FIELD),
        (false, unit) => Ok(standard(identity, unit.is_some())),
        (true, None) => Err(Sense::NO_UNIT),
        (true, Some(unit)) => {
            let body = page_body(identity, unit, page).ok_or(Sense::INVALID_FIELD)?;
            let [high, low] = (body.len() as u16).to_be_bytes();
            Ok([&[0, page, high, low], &body[..]].concat())
        }
    }
}

/// Returns text of a fixed length, filled up with spaces.
fn text(from: &str, len: usize) -> Vec<u8> {
    from.bytes().filter(|byte| (0x20..0x7f).contains(byte)).chain(std::iter::repeat(b' ')).take(len).collect()
}

fn standard(identity: &Identity, is_unit: bool) -> Vec<u8> {
    let kind = if is_unit { 0 } else { NO_UNIT };
    let mut bytes = vec![kind, 0, VERSION, FORMAT, STANDARD_LEN as u8 - 5, 0, 0, TAGS];
    bytes.extend(text(&identity.vendor, 8));
    bytes.extend(text(&identity.product, 16));
    bytes.extend(text(&identity.revision, 4));
    bytes.resize(58, 0);
    STANDARDS.iter().for_each(|standard| bytes.extend(standard.to_be_bytes()));
    bytes.resize(STANDARD_LEN, 0);
    bytes
}

fn page_body(identity: &Identity, unit: &LogicalUnit, page: u8) -> Option<Vec<u8>> {
    Some(match page {
        SUPPORTED_PAGES => PAGES.to_vec(),
        SERIAL => text(&unit.serial, unit.serial.len().min(32)),
        IDENTIFICATION => identification(identity, unit),
        EXTENDED => extended(),
        BLOCK_LIMITS => block_limits(unit),
        CHARACTERISTICS => characteristics(),
        // UNMAP and WRITE SAME of both lengths free blocks, which then read as zeros; thin provisioning.
        PROVISIONING => vec![0, 0xe4, 0x02, 0],
        _ => return None,
    })
}

/// Designators of the logical unit: NAA (binary), and the T10 vendor's (ASCII).
fn identification(identity: &Identity, unit: &LogicalUnit) -> Vec<u8> {
    let naa = unit.naa();
    let mut bytes = vec![0x01, 0x03, 0, naa.len() as u8];
    bytes.extend(naa);
    let name = [text(&identity.vendor, 8), text(&unit.serial, unit.serial.len().min(32))].concat();
    bytes.extend([0x02, 0x01, 0, name.len() as u8]);
    bytes.extend(name);
    bytes
}

/// Simple tasks alone are supported, not those with order.
fn extended() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[1] = 0x01;
    bytes
}

fn block_limits(unit: &LogicalUnit) -> Vec<u8> {
    let blocks = |bytes: u64| unit.blocks_in(bytes) as u32;
    let mut bytes = vec![0; 60];
    // WRITE SAME needs a number of blocks. Offsets are those of the page, less its header's four bytes.
    bytes[0] = 0x01;
    let fields = [
        (4, blocks(TRANSFER_BYTES_MAX.into())),
        (8, blocks(TRANSFER_BYTES_MAX.into())),
        (16, blocks(UNMAP_BYTES_MAX)),
        (20, UNMAP_DESCRIPTORS_MAX),
        (24, 4096_u32.div_ceil(unit.block_bytes())),
    ];
    for (at, value) in fields {
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes[32..40].copy_from_slice(&unit.blocks_in(WRITE_SAME_BYTES_MAX).to_be_bytes());
    bytes
}

/// No rotation.
fn characteristics() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[1] = 0x01;
    bytes
}
