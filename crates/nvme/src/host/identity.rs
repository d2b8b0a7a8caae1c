//! Properties and Identify structures as a host reads them (NVM Express 1.4 §3.1 and §5.15.2).

use std::time::Duration;

use super::breach::Breach;
use crate::limits::{NAMESPACES_OF_HOST_MAX, QUEUE_ENTRIES_MAX, QUEUE_ENTRIES_MIN, TRANSFER_BYTES_MAX};
use crate::wire::COMMAND_LEN;

/// Bytes of a structure that Identify returns.
pub const PAGE_LEN: u32 = 4096;

/// Shortest time for a controller to become ready.
const READY_WITHIN_MIN: Duration = Duration::from_secs(5);
/// Identify Controller: keyed data blocks, and offsets into the capsule (bits of SGLS).
const SGLS_KEYED: u32 = 1 << 2;
const SGLS_OFFSET: u32 = 1 << 20;
/// Identify Namespace: the namespace is write-protected (bit of NSATTR).
const WRITE_PROTECTED: u8 = 1 << 0;
/// Sizes of blocks, as powers of two: 512 bytes to 64 KiB.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 9..=16;

/// Fields of a structure.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(self.0.iter().skip(at)).for_each(|(to, byte)| *to = *byte);
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// Returns a text without the spaces and zeros that fill it up. Terminals must not see what a target may write here.
    fn text(&self, at: usize, len: usize) -> String {
        let field = self.0.get(at..at + len).unwrap_or_default();
        let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(field);
        text.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// Controller capabilities (CAP).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Entries of a queue at most.
    pub entries_max: u16,
    /// Time for the controller to become ready.
    pub ready_within: Duration,
    /// Smallest page size as a power of two of 4096 bytes.
    pub page_shift: u8,
}

impl Capabilities {
    /// Reads the property.
    ///
    /// # Errors
    /// No queue has so few entries.
    pub fn parse(value: u64) -> Result<Capabilities, Breach> {
        let last = (value & 0xffff) as u16;
        if last < QUEUE_ENTRIES_MIN - 1 {
            return Err(Breach::Page("it offers queues of one entry"));
        }
        Ok(Capabilities {
            entries_max: last.saturating_add(1),
            ready_within: (Duration::from_millis(500) * ((value >> 24) as u32 & 0xff)).max(READY_WITHIN_MIN),
            page_shift: (value >> 48) as u8 & 0xf,
        })
    }
}

/// Controller, as Identify describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerInfo {
    /// Identifier.
    pub id: u16,
    /// Serial number.
    pub serial: String,
    /// Model number.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// Commands on a queue at most; 0: no limit but the queue's.
    pub commands_max: u16,
    /// Most data of one command, in bytes.
    pub transfer_bytes: u32,
    /// Data that a capsule has room for, in bytes.
    pub in_capsule_bytes: u32,
    /// Whether the controller has a volatile write cache, which Flush empties.
    pub has_write_cache: bool,
    /// Whether it executes Compare.
    pub has_compare: bool,
    /// Whether it executes Dataset Management.
    pub has_deallocate: bool,
    /// Whether it executes Write Zeroes.
    pub has_write_zeroes: bool,
}

impl ControllerInfo {
    /// Reads Identify Controller.
    ///
    /// # Errors
    /// A field contradicts the specification, or this host cannot use such a controller.
    pub fn parse(page: &[u8], capabilities: &Capabilities) -> Result<ControllerInfo, Breach> {
        let fields = Fields(page);
        let sgls = fields.u32(536);
        if sgls & SGLS_KEYED == 0 {
            return Err(Breach::Page("it has no keyed data blocks, which RDMA needs"));
        }
        if fields.u8(512) & 0xf > 6 || fields.u8(513) & 0xf > 4 {
            return Err(Breach::Page("it wants other sizes of queue entries than 64 and 16 bytes"));
        }
        let capsule = u64::from(fields.u32(1792)) * 16;
        let in_capsule = capsule.checked_sub(COMMAND_LEN as u64);
        let in_capsule = in_capsule.ok_or(Breach::Page("it takes capsules that are shorter than a command"))?;
        // Data that does not follow the command at once (ICDOFF) is not worth its padding.
        let has_in_capsule = sgls & SGLS_OFFSET != 0 && fields.u16(1800) == 0;
        let optional = fields.u16(520);
        Ok(ControllerInfo {
            id: fields.u16(78),
            serial: fields.text(4, 20),
            model: fields.text(24, 40),
            firmware: fields.text(64, 8),
            commands_max: fields.u16(514),
            transfer_bytes: transfer_bytes(fields.u8(77), capabilities.page_shift),
            in_capsule_bytes: if has_in_capsule { in_capsule.min(IN_CAPSULE_USED_MAX) as u32 } else { 0 },
            has_write_cache: fields.u8(525) & 1 != 0,
            has_compare: optional & 1 << 0 != 0,
            has_deallocate: optional & 1 << 2 != 0,
            has_write_zeroes: optional & 1 << 3 != 0,
        })
    }
}

/// Most data in a capsule that this host makes use of: each entry of a queue has memory for it.
const IN_CAPSULE_USED_MAX: u64 = crate::limits::IN_CAPSULE_BYTES_MAX as u64;

/// Returns the bytes for MDTS: a power of two of the smallest page; 0 is no limit.
fn transfer_bytes(mdts: u8, page_shift: u8) -> u32 {
    let shift = 12 + u32::from(page_shift) + u32::from(mdts);
    match mdts {
        0 => TRANSFER_BYTES_MAX,
        _ => 1_u32.checked_shl(shift).unwrap_or(TRANSFER_BYTES_MAX).min(TRANSFER_BYTES_MAX),
    }
}

/// Unique identifiers of a namespace; zeros where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamespaceIds {
    /// IEEE extended unique identifier.
    pub eui64: [u8; 8],
    /// Globally unique identifier.
    pub nguid: [u8; 16],
    /// UUID.
    pub uuid: [u8; 16],
}

/// Namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceInfo {
    /// Identifier.
    pub id: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Size of a block as a power of two.
    pub block_shift: u8,
    /// Writes are refused.
    pub read_only: bool,
    /// Unique identifiers.
    pub ids: NamespaceIds,
}

impl NamespaceInfo {
    /// Reads Identify Namespace.
    ///
    /// # Errors
    /// The reason why this host cannot use the namespace.
    pub fn parse(id: u32, page: &[u8]) -> Result<NamespaceInfo, &'static str> {
        let fields = Fields(page);
        // The format in use: bits 3:0, and 6:5 above them.
        let format = usize::from(fields.u8(26) & 0xf | (fields.u8(26) & 0x60) >> 1);
        let format = fields.u32(128 + 4 * format);
        let (metadata, block_shift) = (format as u16, (format >> 16) as u8);
        let blocks = fields.u64(0);
        if metadata != 0 {
            return Err("its blocks have metadata");
        }
        if fields.u8(29) & 7 != 0 {
            return Err("its blocks have protection information");
        }
        if !BLOCK_SHIFTS.contains(&block_shift) {
            return Err("its block size is not between 512 bytes and 64 KiB");
        }
        if blocks == 0 {
            return Err("it has no blocks");
        }
        if blocks > i64::MAX as u64 >> block_shift {
            return Err("its size is beyond 63 bits");
        }
        Ok(NamespaceInfo {
            id,
            blocks,
            used_blocks: fields.u64(16).min(blocks),
            block_shift,
            read_only: fields.u8(99) & WRITE_PROTECTED != 0,
            ids: NamespaceIds { eui64: fields.array(120), nguid: fields.array(104), uuid: [0; 16] },
        })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }

    /// Adds the identifiers of a Namespace Identification Descriptor list.
    pub fn add_ids(&mut self, list: &[u8]) {
        let mut rest = list;
        while let [kind, length, _, _, descriptor @ ..] = rest {
            let Some((id, after)) = descriptor.split_at_checked(usize::from(*length)) else { return };
            if id.is_empty() {
                return;
            }
            let fields = Fields(id);
            match (kind, length) {
                (1, 8) => self.ids.eui64 = fields.array(0),
                (2, 16) => self.ids.nguid = fields.array(0),
                (3, 16) => self.ids.uuid = fields.array(0),
                _ => {}
            }
            rest = after;
        }
    }

    /// Whether this is the namespace that the other one was: its requests mean the same blocks.
    pub fn is_same(&self, other: &NamespaceInfo) -> bool {
        self.block_shift == other.block_shift && self.ids == other.ids
    }
}

/// Reads a list of active namespaces, and returns identifiers above `after`.
///
/// # Errors
/// The list does not ascend, or is too long.
pub fn namespace_list(page: &[u8], after: u32) -> Result<Vec<u32>, Breach> {
    let entries = page.chunks_exact(4).map(|entry| Fields(entry).u32(0));
    let ids: Vec<u32> = entries.take_while(|id| *id != 0).collect();
    let ascends = std::iter::once(&after).chain(&ids).is_sorted_by(|left, right| left < right);
    if !ascends {
        return Err(Breach::Page("its list of namespaces does not ascend"));
    }
    if ids.len() > NAMESPACES_OF_HOST_MAX {
        return Err(Breach::Page("it has more than 1023 namespaces"));
    }
    Ok(ids)
}

/// Returns the entries of a queue: those that the host asks for, within the controller's limits.
pub fn queue_entries(asked: u16, capabilities: &Capabilities, commands_max: u16) -> u16 {
    let limit = if commands_max == 0 { u16::MAX } else { commands_max.max(QUEUE_ENTRIES_MIN) };
    asked.min(capabilities.entries_max).min(limit).clamp(QUEUE_ENTRIES_MIN, QUEUE_ENTRIES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{namespace_ids, namespace_page, unique_ids};

    const CAP: u64 = 0x20_0f01_007f;

    #[test]
    fn capabilities_limit_queues_and_time() {
        let capabilities = Capabilities::parse(CAP).expect("capabilities");
        assert_eq!(
            (capabilities.entries_max, capabilities.ready_within, capabilities.page_shift),
            (128, Duration::from_millis(7500), 0)
        );
        assert_eq!([0, 16].map(|max| queue_entries(128, &capabilities, max)), [128, 16]);
        assert_eq!(queue_entries(128, &Capabilities { entries_max: 32, ..capabilities }, 0), 32);
        assert!(Capabilities::parse(0).is_err());
        assert_eq!(Capabilities::parse(u64::MAX).map(|found| found.entries_max), Ok(u16::MAX));
    }

    #[test]
    fn transfers_are_powers_of_two_of_the_smallest_page() {
        assert_eq!(
            [0, 1, 5, 8, 20, 255].map(|mdts| transfer_bytes(mdts, 0)),
            [1 << 20, 8192, 1 << 17, 1 << 20, 1 << 20, 1 << 20]
        );
        assert_eq!((transfer_bytes(1, 2), transfer_bytes(255, 15)), (32768, 1 << 20));
    }

    #[test]
    fn namespaces_that_cannot_be_used_are_refused() {
        let page = namespace_page(100, 9, &[7; 16], true);
        let mut info = NamespaceInfo::parse(3, &page).expect("a namespace");
        assert_eq!((info.id, info.bytes(), info.read_only, info.ids.nguid), (3, 51200, true, [7; 16]));
        info.add_ids(&unique_ids(&[8; 16], &[9; 16]));
        assert_eq!((info.ids.nguid, info.ids.uuid), ([8; 16], [9; 16]));
        let refused = |at: usize, value: u8| {
            let mut page = page.clone();
            page[at] = value;
            NamespaceInfo::parse(1, &page).is_err()
        };
        // Metadata, another format, protection information, block sizes, too many blocks.
        assert!(
            refused(128, 8)
                && refused(26, 1)
                && refused(29, 1)
                && refused(130, 8)
                && refused(130, 17)
                && refused(7, 0x80)
        );
        assert!(NamespaceInfo::parse(1, &[0; 10]).is_err());
    }

    #[test]
    fn identification_lists_of_any_shape_are_read() {
        let mut info = NamespaceInfo::parse(1, &namespace_page(1, 9, &[0; 16], false)).expect("a namespace");
        for list in [&[][..], &[3, 16, 0, 0, 1], &[3, 0, 0, 0], &[9, 2, 0, 0, 1, 1, 1, 8, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5]]
        {
            info.add_ids(list);
        }
        assert_eq!(info.ids, NamespaceIds { eui64: [5; 8], ..NamespaceIds::default() });
    }

    #[test]
    fn lists_ascend() {
        assert_eq!(namespace_list(&namespace_ids([1, 5].into_iter()), 0), Ok(vec![1, 5]));
        assert!(namespace_list(&namespace_ids([5, 5].into_iter()), 0).is_err());
        assert!(namespace_list(&namespace_ids([5].into_iter()), 5).is_err());
        assert!(namespace_list(&namespace_ids(1..=1024), 0).is_err());
        assert_eq!(namespace_list(&[1, 0, 0], 0), Ok(vec![]));
    }
}
