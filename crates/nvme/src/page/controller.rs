//! Identify Controller (NVM Express 1.4 §5.15.2.2, NVMe-oF 1.1 §4.1).

use super::builder::Builder;
use crate::limits::{ASYNC_EVENTS_MAX, KEEP_ALIVE_GRANULARITY, NAMESPACE_ID_MAX, QUEUE_ENTRIES_MAX, TRANSFER_SHIFT};
use crate::wire::{COMMAND_LEN, COMPLETION_LEN};

/// Bytes of a structure that Identify returns.
pub const IDENTIFY_LEN: usize = 4096;

/// Bits of Optional NVM Command Support: Compare, Dataset Management, Write Zeroes.
const ONCS: u16 = 1 << 0 | 1 << 2 | 1 << 3;
/// SGLs are supported, keyed ones too, and offsets into the capsule.
const SGLS: u32 = 1 << 0 | 1 << 2 | 1 << 20;
/// Log page attributes: commands supported and effects; extended data (lengths above 4 KiB, and offsets).
const LPA: u8 = 1 << 1 | 1 << 2;
/// Controller attributes: a 128-bit host identifier; traffic restarts the keep-alive timer.
const CTRATT: u32 = 1 << 0 | 1 << 6;
/// Sizes of queue entries, as powers of two: the required and the maximum one.
const SQES: u8 = 0x66;
const CQES: u8 = 0x44;
/// Volatile write cache: present; Flush takes one namespace.
const WRITE_CACHE: u8 = 1 << 0 | 0b10 << 1;

/// Properties of a controller that differ from one to another.
#[derive(Clone, Copy, Debug)]
pub struct ControllerPage<'a> {
    /// Controller identifier.
    pub id: u16,
    /// Version property.
    pub version: u32,
    /// Whether it is a discovery controller.
    pub is_discovery: bool,
    /// Serial number.
    pub serial: &'a str,
    /// Model number.
    pub model: &'a str,
    /// Firmware revision.
    pub firmware: &'a str,
    /// Name of the subsystem.
    pub subsystem: &'a str,
    /// Data that a capsule has room for, in bytes.
    pub in_capsule_bytes: u32,
}

impl ControllerPage<'_> {
    /// Returns the structure.
    pub fn to_bytes(self) -> Vec<u8> {
        let granularity = u16::try_from(KEEP_ALIVE_GRANULARITY.as_millis() / 100).unwrap_or(u16::MAX);
        let page = Builder::new(IDENTIFY_LEN)
            .padded(4, 20, self.serial)
            .padded(24, 40, self.model)
            .padded(64, 8, self.firmware)
            // Several controllers and ports may exist.
            .u8(76, 1 << 0 | 1 << 1)
            .u8(77, TRANSFER_SHIFT)
            .u16(78, self.id)
            .u32(80, self.version)
            .u32(96, CTRATT)
            // I/O controller, or discovery controller.
            .u8(111, if self.is_discovery { 2 } else { 1 })
            .u8(258, 3)
            .u8(259, ASYNC_EVENTS_MAX as u8 - 1)
            // Firmware slot 1 is the only one, and read-only.
            .u8(260, 1 << 0 | 1 << 1)
            .u8(261, LPA)
            .u16(320, granularity)
            .u8(512, SQES)
            .u8(513, CQES)
            .u16(514, QUEUE_ENTRIES_MAX)
            .u32(536, SGLS)
            .text(768, 256, self.subsystem)
            // Capsules in units of 16 bytes.
            .u32(1792, (COMMAND_LEN as u32 + self.in_capsule_bytes) / 16)
            .u32(1796, (COMPLETION_LEN / 16) as u32)
            // One descriptor a command.
            .u8(1803, 1);
        if self.is_discovery {
            return page.finish();
        }
        // A volatile write cache is present: data is safe after Flush of its namespace, or with Force Unit Access.
        page.u32(516, NAMESPACE_ID_MAX).u16(520, ONCS).u8(525, WRITE_CACHE).u32(540, NAMESPACE_ID_MAX).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_finds_the_fields_it_insists_on() {
        let page = ControllerPage {
            id: 7,
            version: 0x1_0400,
            is_discovery: false,
            serial: "1",
            model: "Weft",
            firmware: "0.1",
            subsystem: "nqn.2026-01.io.weft:disk",
            in_capsule_bytes: 4096,
        };
        let bytes = page.to_bytes();
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert_eq!((bytes.len(), &bytes[24..30], bytes[78], bytes[79]), (4096, &b"Weft  "[..], 7, 0));
        // In-capsule data, keyed descriptors; capsules of 4160 and 16 bytes.
        assert_eq!((word(536) & 0x10_0005, word(1792), word(1796)), (0x10_0005, 260, 1));
        // Keep-alive in units of 100 ms, queue entries, namespaces, volatile write cache.
        assert_eq!((bytes[320], bytes[514], word(516), bytes[525]), (10, 128, 1024, 5));
        let discovery = ControllerPage { is_discovery: true, ..page }.to_bytes();
        assert_eq!((discovery[111], discovery[516], discovery[320]), (2, 0, 10));
    }
}
