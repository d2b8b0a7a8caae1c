//! Private data, which two consumers exchange inside CM messages. Each message has room for a fixed number of bytes and
//! no length field; unused bytes are zeros.

use std::fmt;

use super::layout::{At, Bytes};

/// More private data than the message has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// Length given, in bytes.
    pub len: usize,
    /// Room, in bytes.
    pub max: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of private data, room for {}", self.len, self.max)
    }
}

impl std::error::Error for TooLong {}

/// The private data of a message with room for `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrivateData<const N: usize>(pub [u8; N]);

impl<const N: usize> PrivateData<N> {
    /// Room, in bytes.
    pub const MAX: usize = N;

    /// Creates private data from these bytes, padded with zeros.
    pub fn new(bytes: &[u8]) -> Result<PrivateData<N>, TooLong> {
        let mut data = [0; N];
        let room = data.get_mut(..bytes.len()).ok_or(TooLong { len: bytes.len(), max: N })?;
        room.copy_from_slice(bytes);
        Ok(PrivateData(data))
    }

    /// Returns all bytes, trailing zeros included: the message does not carry the sender's length.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> PrivateData<N> {
        PrivateData([0; N])
    }
}

impl<const N: usize> AsRef<[u8]> for PrivateData<N> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for PrivateData<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = self.0.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        write!(f, "{:02x?}", &self.0[..meant])
    }
}

impl<const N: usize> At<PrivateData<N>> for Bytes {
    fn take(&self, data: &[u8]) -> PrivateData<N> {
        PrivateData(self.take(data))
    }
    fn put(&self, data: &mut [u8], value: &PrivateData<N>) {
        self.put(data, &value.0);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        At::<[u8; N]>::spans(self)
    }
}
