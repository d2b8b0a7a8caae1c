//! SGL descriptor, which names a command's data. Over RDMA a command has one (RDMA Transport 1.0 §7.2): data in the capsule,
//! or memory of the host behind a key.
//!
//! ```text
//! | offset (8 bytes)  | length (4 bytes) | reserved (3)              | type 0, subtype 1 |      in the capsule
//! | address (8 bytes) | length (3 bytes) | key (4 bytes)             | type 4, subtype   |      host memory
//! ```

use crate::Status;

/// Type and subtype of data in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Type of a keyed data block, subtype address.
const KEYED: u8 = 0x40;
/// The same, with the request to invalidate the key by the response.
const KEYED_INVALIDATE: u8 = 0x4f;

/// Memory of the host that the target reaches by RDMA READ and WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostMemory {
    /// Address.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// R_Key.
    pub key: u32,
    /// Whether the response's SEND invalidates the key.
    pub invalidate: bool,
}

/// Descriptor of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor {
    /// Data in the capsule, behind the command.
    InCapsule {
        /// Offset from the end of the command, in bytes.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Data in the host's memory.
    Host(HostMemory),
}

impl Descriptor {
    /// Reads a descriptor.
    ///
    /// # Errors
    /// [`Status::SGL_TYPE_INVALID`] for types that this transport does not have.
    pub fn parse(bytes: &[u8; 16]) -> Result<Descriptor, Status> {
        let [a, b, c, d, e, f, g, h, l0, l1, l2, x0, x1, x2, x3, kind] = *bytes;
        let address = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        match kind {
            IN_CAPSULE => Ok(Descriptor::InCapsule { offset: address, length: u32::from_le_bytes([l0, l1, l2, x0]) }),
            KEYED | KEYED_INVALIDATE => Ok(Descriptor::Host(HostMemory {
                address,
                length: u32::from_le_bytes([l0, l1, l2, 0]),
                key: u32::from_le_bytes([x0, x1, x2, x3]),
                invalidate: kind == KEYED_INVALIDATE,
            })),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }

    /// Returns the bytes. Lengths of host memory have 24 bits.
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self {
            Descriptor::InCapsule { offset, length } => {
                bytes[..8].copy_from_slice(&offset.to_le_bytes());
                bytes[8..12].copy_from_slice(&length.to_le_bytes());
                bytes[15] = IN_CAPSULE;
            }
            Descriptor::Host(memory) => {
                bytes[..8].copy_from_slice(&memory.address.to_le_bytes());
                bytes[8..12].copy_from_slice(&memory.length.to_le_bytes());
                bytes[11..15].copy_from_slice(&memory.key.to_le_bytes());
                bytes[15] = if memory.invalidate { KEYED_INVALIDATE } else { KEYED };
            }
        }
        bytes
    }

    /// Length of the data in bytes.
    pub fn length(&self) -> u32 {
        match self {
            Descriptor::InCapsule { length, .. } => *length,
            Descriptor::Host(memory) => memory.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_behind_three_bytes_of_length() {
        let memory = HostMemory { address: 0x1122, length: 0x01_0203, key: 0xaabb_ccdd, invalidate: true };
        let bytes = Descriptor::Host(memory).to_bytes();
        assert_eq!(bytes, [0x22, 0x11, 0, 0, 0, 0, 0, 0, 3, 2, 1, 0xdd, 0xcc, 0xbb, 0xaa, 0x4f]);
        assert_eq!(Descriptor::parse(&bytes), Ok(Descriptor::Host(memory)));
        let in_capsule = Descriptor::InCapsule { offset: 8, length: 4096 };
        assert_eq!(Descriptor::parse(&in_capsule.to_bytes()), Ok(in_capsule));
    }

    #[test]
    fn other_types_and_subtypes_are_refused() {
        for kind in (0..=255).filter(|kind| ![IN_CAPSULE, KEYED, KEYED_INVALIDATE].contains(kind)) {
            let mut bytes = [0; 16];
            bytes[15] = kind;
            assert_eq!(Descriptor::parse(&bytes), Err(Status::SGL_TYPE_INVALID), "{kind:#x}");
        }
    }
}
