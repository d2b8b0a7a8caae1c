//! Bytes for the client.

use std::collections::VecDeque;

/// Bytes to send.
#[derive(Debug, Default)]
pub struct Output {
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that are sent.
    sent: usize,
    len: usize,
}

impl Output {
    /// Appends bytes.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.len += bytes.len();
        if !bytes.is_empty() {
            self.parts.push_back(bytes);
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the next bytes.
    pub fn next(&self) -> Option<&[u8]> {
        self.parts.front()?.get(self.sent..)
    }

    /// Removes the first bytes, which are sent.
    pub fn advance(&mut self, count: usize) {
        self.len -= count.min(self.len);
        self.sent += count;
        while let Some(first) = self.parts.front().map(Vec::len).filter(|first| *first <= self.sent) {
            self.sent -= first;
            self.parts.pop_front();
        }
    }
}
