//! Addresses of logical units.

use crate::scsi::Lun;

/// Address of a logical unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitAddress {
    /// Number.
    pub lun: Lun,
    /// The eight bytes by which the target names it.
    pub bytes: [u8; 8],
}

impl UnitAddress {
    /// Reads an address: of the peripheral device or the flat space addressing method (SAM-5 §4.7). `None`: another.
    pub fn parse(entry: &[u8]) -> Option<UnitAddress> {
        let bytes: [u8; 8] = entry.try_into().ok()?;
        let [high, low, rest @ ..] = bytes;
        let lun = match high >> 6 {
            0 if high == 0 => low.into(),
            1 => u16::from_be_bytes([high & 0x3f, low]),
            _ => return None,
        };
        Some(UnitAddress { lun, bytes }).filter(|_| rest == [0; 6])
    }
}
