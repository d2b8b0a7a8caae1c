//! Byte arrays of a fixed length: a block of a table, a vendor-defined area.

use std::fmt;

use crate::layout::{At, Bytes};

/// `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Block<N> {
    fn default() -> Block<N> {
        Block([0; N])
    }
}

impl<const N: usize> fmt::Debug for Block<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.0)
    }
}

impl<const N: usize> std::ops::Deref for Block<N> {
    type Target = [u8; N];
    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> std::ops::DerefMut for Block<N> {
    fn deref_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> At<Block<N>> for Bytes {
    #[inline]
    fn take(&self, data: &[u8]) -> Block<N> {
        Block(self.take(data))
    }
    #[inline]
    fn put(&self, data: &mut [u8], value: &Block<N>) {
        self.put(data, &value.0);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        At::<[u8; N]>::spans(self)
    }
}
