//! Disk: a logical unit as INQUIRY, its vital product data pages, READ CAPACITY and MODE SENSE describe it (SPC-4, SBC-3).

use super::address::UnitAddress;
use crate::limits::{INITIATOR_SAME_MAX, INITIATOR_TRANSFER_MAX, INITIATOR_UNITS_MAX};
use crate::scsi::Lun;

/// Vital product data pages that the initiator reads.
pub const PAGE_LIST: u8 = 0x00;
pub const PAGE_IDENTIFICATION: u8 = 0x83;
pub const PAGE_LIMITS: u8 = 0xb0;
pub const PAGE_PROVISIONING: u8 = 0xb2;

/// Block sizes that the initiator uses: 512 bytes to 64 KiB.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u32> = 9..=16;

/// Fields of a big-endian structure: 0 beyond its end.
#[derive(Clone, Copy, Debug)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes([self.u8(at), self.u8(at + 1)])
    }

    fn u32(self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// Returns text without the spaces around it; other characters than ASCII's become `?`.
    fn text(self, at: usize, len: usize) -> String {
        let bytes = self.0.get(at..).unwrap_or_default().iter().take(len);
        let character = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' };
        let text: String = bytes.take_while(|byte| **byte != 0).map(character).collect();
        text.trim().to_owned()
    }
}

/// Way to free blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// UNMAP, of at most so many blocks.
    Unmap(u64),
    /// WRITE SAME (16) with the UNMAP bit.
    WriteSame,
}

/// Disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskInfo {
    /// Number of the logical unit.
    pub lun: Lun,
    /// Vendor.
    pub vendor: String,
    /// Model.
    pub model: String,
    /// Revision.
    pub revision: String,
    /// Designators of the logical unit (page 83h), as the target sent them; empty: it has none.
    pub designators: Vec<u8>,
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two.
    pub block_shift: u8,
    /// Writes are refused.
    pub read_only: bool,
    /// Whether READ and WRITE take Force Unit Access.
    pub has_fua: bool,
    pub(super) address: [u8; 8],
    /// Most blocks of a transfer.
    pub(super) transfer_blocks: u32,
    /// Most blocks of a WRITE SAME (16); 0: the disk does not have it.
    pub(super) same_blocks: u64,
    /// Whether the disk frees blocks of a WRITE SAME, and they read as zeros.
    pub(super) frees_zeroes: bool,
    pub(super) discard: Option<Discard>,
}

impl DiskInfo {
    /// Reads the standard data of INQUIRY.
    ///
    /// # Errors
    /// The logical unit is no disk, for this reason.
    pub fn new(unit: UnitAddress, inquiry: &[u8]) -> Result<DiskInfo, &'static str> {
        let fields = Fields(inquiry);
        match (fields.u8(0) >> 5, fields.u8(0) & 0x1f) {
            _ if inquiry.len() < 36 => return Err("its INQUIRY is too short"),
            (0, 0x00) => {}
            (0, _) => return Err("it is no disk"),
            _ => return Err("there is nothing at its address"),
        }
        Ok(DiskInfo {
            lun: unit.lun,
            vendor: fields.text(8, 8),
            model: fields.text(16, 16),
            revision: fields.text(32, 4),
            designators: Vec::new(),
            blocks: 0,
            block_shift: 9,
            read_only: false,
            has_fua: false,
            address: unit.bytes,
            transfer_blocks: INITIATOR_TRANSFER_MAX >> 9,
            same_blocks: 0,
            frees_zeroes: false,
            discard: None,
        })
    }

    /// Address of the logical unit.
    pub(super) fn unit(&self) -> UnitAddress {
        UnitAddress { lun: self.lun, bytes: self.address }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }

    /// Whether space can be freed.
    pub fn has_discard(&self) -> bool {
        self.discard.is_some()
    }

    /// Whether zeros can be written without sending them all.
    pub fn has_write_zeroes(&self) -> bool {
        self.same_blocks > 0
    }

    /// Takes READ CAPACITY (16)'s data.
    ///
    /// # Errors
    /// The reason why the disk cannot be used.
    pub fn set_capacity(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let fields = Fields(data);
        let (last, size) = (fields.u64(0), fields.u32(8));
        if data.len() < 12 || !size.is_power_of_two() || !BLOCK_SHIFTS.contains(&size.trailing_zeros()) {
            return Err("its block size is not between 512 bytes and 64 KiB");
        }
        if fields.u8(12) & 1 != 0 {
            return Err("its blocks have protection information");
        }
        let shift = size.trailing_zeros();
        if last >= i64::MAX as u64 >> shift {
            return Err("its size is beyond 63 bits");
        }
        (self.blocks, self.block_shift) = (last + 1, shift as u8);
        self.transfer_blocks = INITIATOR_TRANSFER_MAX >> shift;
        Ok(())
    }

    /// Takes the page of block limits.
    pub fn set_limits(&mut self, page: &[u8]) {
        let fields = Fields(page);
        let most = fields.u32(8);
        if most > 0 {
            self.transfer_blocks = self.transfer_blocks.min(most);
        }
        if fields.u16(2) < 0x3c {
            return;
        }
        let (blocks, descriptors) = (fields.u32(20), fields.u32(24));
        if blocks > 0 && descriptors > 0 {
            self.discard = Some(Discard::Unmap(blocks.into()));
        }
        self.same_blocks = fields.u64(36).min(INITIATOR_SAME_MAX >> self.block_shift);
    }

    /// Takes the page of logical block provisioning.
    pub fn set_provisioning(&mut self, page: &[u8]) {
        let bits = Fields(page).u8(5);
        let (unmaps, frees_same, reads_zeroes) = (bits & 0x80 != 0, bits & 0x40 != 0, bits & 0x1c != 0);
        if frees_same && self.same_blocks == 0 {
            self.same_blocks = INITIATOR_SAME_MAX >> self.block_shift;
        }
        self.frees_zeroes = frees_same && reads_zeroes;
        self.discard = match self.discard {
            Some(discard) if unmaps => Some(discard),
            _ if frees_same => Some(Discard::WriteSame),
            _ => None,
        };
    }

    /// Notes that the disk has no page of logical block provisioning.
    pub fn without_provisioning(&mut self) {
        self.discard = None;
    }

    /// Takes the page of identification: descriptors of the logical unit.
    pub fn set_identification(&mut self, page: &[u8]) {
        let body = page.get(4..).unwrap_or_default();
        let mut rest = body.get(..Fields(page).u16(2).into()).unwrap_or(body);
        while let [_, kind, _, length, descriptor @ ..] = rest {
            let Some((id, after)) = descriptor.split_at_checked(usize::from(*length)) else { return };
            // Association 0 is the logical unit; the others are its port and its device.
            if kind & 0x30 == 0 {
                self.designators.push(kind & 0xf);
                self.designators.extend(id);
            }
            rest = after;
        }
    }

    /// Takes MODE SENSE (6)'s header.
    pub fn set_mode(&mut self, data: &[u8]) {
        let specific = Fields(data).u8(2);
        (self.read_only, self.has_fua) = (specific & 0x80 != 0, specific & 0x10 != 0);
    }

    /// Whether this is the disk that the other one was: its requests mean the same blocks.
    pub fn is_same(&self, other: &DiskInfo) -> bool {
        let names = |disk: &DiskInfo| {
            (disk.vendor.clone(), disk.model.clone(), disk.designators.clone(), disk.blocks, disk.block_shift)
        };
        names(self) == names(other)
    }
}

/// Reads REPORT LUNS' data: the logical units with an address of one level, and the number of others that are not used.
pub fn units(data: &[u8]) -> (Vec<UnitAddress>, usize) {
    let fields = Fields(data);
    let announced = fields.u32(0) as usize / 8;
    let entries = data.get(8..).unwrap_or_default().chunks_exact(8).take(announced.min(INITIATOR_UNITS_MAX as usize));
    let found: Vec<UnitAddress> = entries.filter_map(UnitAddress::parse).collect();
    let unknown = announced - found.len();
    (found, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> DiskInfo {
        let mut inquiry = vec![0; 36];
        inquiry[8..15].copy_from_slice(b"LIO-ORG");
        inquiry[16..20].copy_from_slice(b"disk");
        DiskInfo::new(UnitAddress { lun: 3, bytes: [0, 3, 0, 0, 0, 0, 0, 0] }, &inquiry).expect("a disk")
    }

    fn capacity(last: u64, size: u32) -> Vec<u8> {
        [&last.to_be_bytes()[..], &size.to_be_bytes(), &[0; 20]].concat()
    }

    #[test]
    fn other_devices_are_no_disks() {
        assert_eq!((disk().vendor.as_str(), disk().model.as_str()), ("LIO-ORG", "disk"));
        let unit = UnitAddress { lun: 0, bytes: [0; 8] };
        for first in [0x05, 0x3f, 0x7f, 0x20] {
            let mut inquiry = [0; 36];
            inquiry[0] = first;
            assert!(DiskInfo::new(unit, &inquiry).is_err(), "{first:#x}");
        }
        assert!(DiskInfo::new(unit, &[0; 35]).is_err());
    }

    #[test]
    fn capacities_that_cannot_be_used_are_refused() {
        let mut disk = disk();
        assert_eq!(disk.set_capacity(&capacity(99, 4096)), Ok(()));
        assert_eq!((disk.bytes(), disk.transfer_blocks), (409_600, 256));
        for (last, size) in [(99, 0), (99, 520), (99, 256), (99, 1 << 17), (u64::MAX, 512), (i64::MAX as u64 >> 9, 512)]
        {
            assert!(disk.set_capacity(&capacity(last, size)).is_err(), "{last} {size}");
        }
        assert!(disk.set_capacity(&[0; 8]).is_err());
        let mut protected = capacity(99, 512);
        protected[12] = 1;
        assert!(disk.set_capacity(&protected).is_err());
    }

    #[test]
    fn limits_and_provisioning_choose_the_commands() {
        let mut page = vec![0; 64];
        (page[1], page[3], page[10], page[23], page[27], page[43]) = (0xb0, 0x3c, 1, 9, 1, 100);
        let with = |bits: u8| {
            let mut disk = disk();
            disk.set_limits(&page);
            disk.set_provisioning(&[0, 0xb2, 0, 4, 0, bits, 0, 0]);
            disk
        };
        let all = with(0xe4);
        assert_eq!((all.transfer_blocks, all.same_blocks, all.frees_zeroes), (256, 100, true));
        assert_eq!(all.discard, Some(Discard::Unmap(9)));
        assert_eq!((with(0x40).discard, with(0x40).frees_zeroes), (Some(Discard::WriteSame), false));
        assert_eq!((with(0).discard, with(0).has_write_zeroes()), (None, true));
        // An old, short page names the transfer's limit alone.
        let mut short = disk();
        short.set_limits(&[0, 0xb0, 0, 0xc, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
        assert_eq!((short.transfer_blocks, short.discard, short.has_write_zeroes()), (5, None, false));
    }

    #[test]
    fn a_disk_is_known_by_its_names_and_its_size() {
        let mut disk = disk();
        disk.set_identification(&[0, 0x83, 0, 15, 1, 3, 0, 2, 7, 8, 1, 0x13, 0, 2, 9, 9, 1, 3, 0, 1, 3, 0, 1, 4]);
        assert_eq!(disk.designators, [3, 7, 8]);
        let same = disk.clone();
        assert!(disk.is_same(&same));
        assert!(!disk.is_same(&DiskInfo { blocks: 1, ..same.clone() }));
        assert!(!disk.is_same(&DiskInfo { designators: vec![3, 7, 9], ..same }));
        disk.set_mode(&[3, 0, 0x90, 0]);
        assert!(disk.read_only && disk.has_fua);
    }

    #[test]
    fn addresses_of_one_level_are_used() {
        let list = [
            &40_u32.to_be_bytes()[..],
            &[0; 4],
            &[0, 7, 0, 0, 0, 0, 0, 0],
            &[0x41, 0, 0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 1, 0, 0, 0, 0],
            &[0xc1, 1, 0, 0, 0, 0, 0, 0],
        ];
        let (found, unknown) = units(&list.concat());
        assert_eq!((found.iter().map(|unit| unit.lun).collect::<Vec<_>>(), unknown), (vec![7, 256], 3));
        assert_eq!(units(&[]), (vec![], 0));
    }
}
