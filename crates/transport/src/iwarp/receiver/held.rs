//! Bytes that a receiver was given and cannot handle yet.

/// Bytes behind a message that waits for a receive: the rest of one read of the socket at most, as no more is read then.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// How many of them are handled.
    at: usize,
}

impl Held {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Keeps the last `len` bytes.
    pub fn keep(&mut self, len: usize) {
        self.at = self.bytes.len().saturating_sub(len);
    }
}
