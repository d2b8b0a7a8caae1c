//! Registered memory for data, reused: registering costs more than most requests.

use std::io;

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE};
use weft_client::verbs::{Buffer, Pd};

use crate::limits::POOL_KEEPS_MAX;

/// Smallest block, in bytes; each class is twice as large as the one before.
const SMALLEST: usize = 8 << 10;
/// Number of classes: up to 8 MiB.
const CLASSES: usize = 11;

/// Blocks of registered memory that only the local adapter may write.
#[derive(Debug)]
pub struct Pool {
    pd: Pd,
    access: u32,
    free: [Vec<Buffer>; CLASSES],
    kept: usize,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(pd: &Pd) -> Pool {
        // On iWARP the target of a READ is tagged memory that the peer's response writes (RFC 5040 §5.2).
        let remote = if pd.context().is_iwarp() { IBV_ACCESS_REMOTE_WRITE } else { 0 };
        Pool { pd: pd.clone(), access: IBV_ACCESS_LOCAL_WRITE | remote, free: Default::default(), kept: 0 }
    }

    /// Takes a block of at least `len` bytes.
    ///
    /// # Errors
    /// No memory can be registered, or no class is that large.
    pub fn take(&mut self, len: usize) -> io::Result<Buffer> {
        let class = class(len).ok_or(io::ErrorKind::InvalidInput)?;
        match self.free.get_mut(class).and_then(Vec::pop) {
            Some(block) => {
                self.kept -= block.len();
                Ok(block)
            }
            None => Buffer::new(&self.pd, SMALLEST << class, self.access, false),
        }
    }

    /// Takes a block back.
    pub fn give(&mut self, block: Buffer) {
        let list = class(block.len()).and_then(|class| self.free.get_mut(class));
        if let Some(list) = list.filter(|_| self.kept + block.len() <= POOL_KEEPS_MAX) {
            self.kept += block.len();
            list.push(block);
        }
    }
}

/// Returns the length of the blocks for `len` bytes; `None`: no class is that large.
pub fn size_class(len: usize) -> Option<usize> {
    class(len).map(|class| SMALLEST << class)
}

/// Returns the class of blocks for `len` bytes.
fn class(len: usize) -> Option<usize> {
    let class = len.max(SMALLEST).next_power_of_two().trailing_zeros() - SMALLEST.trailing_zeros();
    Some(class as usize).filter(|class| *class < CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double_up_to_eight_mebibytes() {
        assert_eq!([0, 1, 8192, 8193, 1 << 20].map(class), [Some(0), Some(0), Some(0), Some(1), Some(7)]);
        assert_eq!(class((8 << 20) + 1), None);
    }
}
