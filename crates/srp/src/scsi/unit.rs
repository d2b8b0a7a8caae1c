//! A logical unit, its address, and the device's names.

use super::limits::UNITS_MAX;

/// Number of a logical unit.
pub type Lun = u16;

/// Logical unit: a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogicalUnit {
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two: 9 or 12.
    pub block_shift: u8,
    /// Identifier, of which 60 bits are used: a locally assigned NAA identifier (SPC-4 §7.8.6.6.4).
    pub identifier: u64,
    /// Serial number: ASCII, at most 32 characters.
    pub serial: String,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl LogicalUnit {
    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        1 << self.block_shift
    }

    /// Blocks in a number of bytes.
    pub fn blocks_in(&self, bytes: u64) -> u64 {
        bytes >> self.block_shift
    }

    /// Designator NAA 3h: locally assigned.
    pub fn naa(&self) -> [u8; 8] {
        (3 << 60 | self.identifier >> 4).to_be_bytes()
    }
}

/// Names that INQUIRY returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Vendor: eight characters.
    pub vendor: String,
    /// Product: sixteen characters.
    pub product: String,
    /// Revision: four characters.
    pub revision: String,
}

/// Reads a LUN of eight bytes: of the peripheral device or the flat space addressing method (SAM-5 §4.7). `None`: another.
pub fn parse_lun(bytes: [u8; 8]) -> Option<Lun> {
    let [high, low, rest @ ..] = bytes;
    let number = match high >> 6 {
        0 if high == 0 => low.into(),
        1 => u16::from_be_bytes([high & 0x3f, low]),
        _ => return None,
    };
    Some(number).filter(|number| rest == [0; 6] && usize::from(*number) < UNITS_MAX)
}

/// Returns the LUN of eight bytes.
pub fn lun_bytes(lun: Lun) -> [u8; 8] {
    let [_, low] = lun.to_be_bytes();
    [0, low, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_methods_are_read() {
        assert_eq!(parse_lun(lun_bytes(200)), Some(200));
        assert_eq!(parse_lun([0x40, 7, 0, 0, 0, 0, 0, 0]), Some(7));
        // The first one is on another bus, the next is too large, then a well-known unit, then a second level.
        for wrong in [[1, 7, 0, 0], [0x41, 0, 0, 0], [0xc1, 1, 0, 0], [0, 1, 0, 1]] {
            let [a, b, c, d] = wrong;
            assert_eq!(parse_lun([a, b, c, d, 0, 0, 0, 0]), None, "{wrong:?}");
        }
        assert_eq!(LogicalUnit { identifier: 0x1234_5678_9abc_def0, ..unit() }.naa()[0], 0x31);
    }

    fn unit() -> LogicalUnit {
        LogicalUnit { blocks: 8, block_shift: 9, identifier: 0, serial: String::new(), read_only: false }
    }
}
