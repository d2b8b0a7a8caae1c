//! Submission queue entry (NVM Express 1.4 §4.2), the first 64 bytes of a command capsule:
//!
//! ```text
//!  0 | opcode | flags | command identifier |  4 | namespace identifier | 8 | CDW2, CDW3 | 16 | metadata pointer |
//! 24 | data descriptor (16 bytes)          | 40 | CDW10 ... CDW15                                             |
//! ```
//!
//! Fabrics commands have a type in the place of the namespace identifier's first byte (NVMe-oF 1.1 §2.1).

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::FabricsType;
use super::descriptor::{Descriptor, HostMemory};

/// Bytes of a command.
pub const COMMAND_LEN: usize = 64;

/// Command: a submission queue entry.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Command {
    /// Opcode, of the queue's command set.
    pub opcode: u8,
    /// Fused operation, and the form of the data pointer.
    pub flags: u8,
    id: U16,
    nsid: U32,
    cdw2: U32,
    cdw3: U32,
    metadata: U64,
    /// Data descriptor.
    pub descriptor: [u8; 16],
    cdw: [U32; 6],
}

const _: () = assert!(size_of::<Command>() == COMMAND_LEN);

impl Command {
    /// Reads the command at the start of a capsule, and returns the capsule's data.
    pub fn parse(capsule: &[u8]) -> Option<(Command, &[u8])> {
        Command::read_from_prefix(capsule).ok()
    }

    /// Creates a command without data.
    pub fn new(opcode: u8, id: u16, nsid: u32) -> Command {
        // Linux's target refuses other types even where there is no data.
        let nothing = HostMemory { address: 0, length: 0, key: 0, invalidate: false };
        let descriptor = Descriptor::Host(nothing).to_bytes();
        Command { opcode, flags: 0x40, id: id.into(), nsid: nsid.into(), descriptor, ..Command::default() }
    }

    /// Command identifier.
    pub fn id(&self) -> u16 {
        self.id.get()
    }

    /// Returns the command with this identifier.
    #[must_use]
    pub fn with_id(mut self, id: u16) -> Command {
        self.id = id.into();
        self
    }

    /// Namespace identifier.
    pub fn nsid(&self) -> u32 {
        self.nsid.get()
    }

    /// Command dword 10 + `index`; 0 beyond dword 15.
    pub fn cdw(&self, index: usize) -> u32 {
        index.checked_sub(10).and_then(|index| self.cdw.get(index)).map_or(0, |dword| dword.get())
    }

    /// Returns the command with this dword, 10 to 15.
    #[must_use]
    pub fn with_cdw(mut self, index: usize, value: u32) -> Command {
        if let Some(dword) = index.checked_sub(10).and_then(|index| self.cdw.get_mut(index)) {
            *dword = value.into();
        }
        self
    }

    /// Two dwords as one number: the lower one first.
    pub fn cdw_pair(&self, index: usize) -> u64 {
        u64::from(self.cdw(index)) | u64::from(self.cdw(index + 1)) << 32
    }

    /// Type of a Fabrics command.
    pub fn fabrics_type(&self) -> FabricsType {
        FabricsType(self.nsid().to_le_bytes()[0])
    }

    /// Whether the command is half of a fused operation.
    pub fn is_fused(&self) -> bool {
        self.flags & 0x03 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut bytes = [0; COMMAND_LEN + 3];
        bytes[..8].copy_from_slice(&[0x02, 0x40, 0x34, 0x12, 7, 0, 0, 0]);
        bytes[40..48].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        bytes[60] = 9;
        let (command, data) = Command::parse(&bytes).expect("a command");
        assert_eq!((command.opcode, command.id(), command.nsid(), data.len()), (2, 0x1234, 7, 3));
        assert_eq!((command.cdw(10), command.cdw(15), command.cdw(16), command.cdw(9)), (0x0403_0201, 9, 0, 0));
        assert_eq!(command.cdw_pair(10), 0x0807_0605_0403_0201);
        assert_eq!(command.fabrics_type(), FabricsType(7));
        assert!(Command::parse(&bytes[..63]).is_none());
    }
}
