//! Bytes for the client.

use std::collections::VecDeque;

use crate::reply::ReplyData;

#[derive(Debug)]
enum Part<D> {
    Bytes(Vec<u8>),
    Data(D),
}

impl<D: ReplyData> Part<D> {
    fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Data(data) => data.byte_count(),
        }
    }
}

/// The next part of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit<'a, D> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Data, from this byte of it on.
    Data(&'a D, usize),
}

/// Bytes to send.
#[derive(Debug)]
pub struct Output<D> {
    parts: VecDeque<Part<D>>,
    /// Bytes of the first part that are sent.
    sent: usize,
    len: usize,
}

impl<D> Default for Output<D> {
    fn default() -> Output<D> {
        Output { parts: VecDeque::new(), sent: 0, len: 0 }
    }
}

impl<D: ReplyData> Output<D> {
    /// Appends bytes.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.append(Part::Bytes(bytes));
    }

    /// Appends data.
    pub fn push_data(&mut self, data: D) {
        self.append(Part::Data(data));
    }

    fn append(&mut self, part: Part<D>) {
        self.len += part.len();
        if part.len() > 0 {
            self.parts.push_back(part);
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns what is next.
    pub fn next(&self) -> Option<Transmit<'_, D>> {
        Some(match self.parts.front()? {
            Part::Bytes(bytes) => Transmit::Bytes(bytes.get(self.sent..)?),
            Part::Data(data) => Transmit::Data(data, self.sent),
        })
    }

    /// Removes the first bytes, which are sent.
    pub fn advance(&mut self, count: usize) {
        self.len -= count.min(self.len);
        self.sent += count;
        while let Some(first) = self.parts.front().map(Part::len).filter(|first| *first <= self.sent) {
            self.sent -= first;
            self.parts.pop_front();
        }
    }
}
