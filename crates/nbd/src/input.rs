//! Bytes that arrived and are not read yet.

use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Received bytes.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns a structure without taking it, if it is complete.
    pub fn peek<T: FromBytes + KnownLayout + Immutable>(&self) -> Option<T> {
        T::read_from_prefix(self.rest()).ok().map(|(found, _)| found)
    }

    /// Takes a structure, if it is complete.
    pub fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        let found = self.peek()?;
        self.at += size_of::<T>();
        Some(found)
    }

    /// Takes up to so many bytes.
    pub fn take_some(&mut self, most: usize) -> &[u8] {
        let from = self.at;
        self.at += most.min(self.len());
        self.bytes.get(from..self.at).unwrap_or_default()
    }
}
