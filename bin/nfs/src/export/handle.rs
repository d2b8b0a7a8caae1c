//! File handles. A handle names a file by its inode, and carries one byte of each directory above it, so that a server
//! that was started again finds the file without a search of the whole tree:
//!
//! ```text
//! | form 1 | depth 1 | 0 0 | export 4 | device 8 | inode 8 | birth 8 | one byte of each directory, root's child first |
//! ```

use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::xdr::Reader;

const FIXED: usize = 32;
/// Directories whose bytes fit. Deeper files are found only while the server remembers them.
pub const STEPS_MAX: usize = HANDLE_MAX - FIXED;
const FORM: u8 = 1;

/// Identity of a file while it exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId {
    /// Device of its file system.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// A file handle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handle {
    /// Number of the exported tree.
    pub export: u32,
    /// The file.
    pub id: FileId,
    /// Time of its creation, which tells it from a later file with the same inode; 0 if the file system has none.
    pub birth: u64,
    /// Bytes of the directories above it, without the exported one.
    pub steps: Vec<u8>,
}

impl Handle {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + self.steps.len());
        out.extend_from_slice(&[FORM, self.steps.len() as u8, 0, 0]);
        out.extend_from_slice(&self.export.to_be_bytes());
        for number in [self.id.device, self.id.inode, self.birth] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.steps);
        out
    }

    /// Reads a handle; `None`: it is not one of this server's.
    pub fn parse(bytes: &[u8]) -> Option<Handle> {
        let mut xdr = Reader::new(bytes);
        let [FORM, depth, 0, 0] = *xdr.take(4)? else { return None };
        let export = xdr.u32()?;
        let id = FileId { device: xdr.u64()?, inode: xdr.u64()? };
        let birth = xdr.u64()?;
        let steps = bytes.get(FIXED..)?;
        let is_whole = steps.len() == usize::from(depth) && steps.len() <= STEPS_MAX;
        is_whole.then(|| Handle { export, id, birth, steps: steps.to_vec() })
    }
}

/// Returns the byte of a directory in the handles of files below it.
pub fn step(inode: u64) -> u8 {
    inode.to_le_bytes().into_iter().fold(0, |hash: u8, byte| hash.wrapping_mul(31).wrapping_add(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_wire_and_others_are_refused() {
        let id = FileId { device: 5, inode: 1 << 40 };
        let handle = Handle { export: 9, id, birth: 77, steps: (0..STEPS_MAX as u8).collect() };
        let bytes = handle.to_bytes();
        assert_eq!((bytes.len(), Handle::parse(&bytes)), (HANDLE_MAX, Some(handle)));
        assert_eq!(Handle::parse(&bytes[..63]), None);
        assert_eq!(Handle::parse(&[]), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Handle::parse(&other), None);
    }
}
