//! Data of a read: the peer left it in lent memory, piece by piece, and it stays there until it is sent or copied.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use weft_nbd::ReplyData;

use crate::lending::EndedLoan;

/// Data of a read.
#[derive(Default, Debug)]
pub struct ReadData {
    /// By their offsets.
    pieces: BTreeMap<usize, EndedLoan>,
}

impl ReadData {
    /// Adds a piece at an offset. It replaces one that arrived there before.
    pub fn insert(&mut self, offset: usize, piece: EndedLoan) {
        self.pieces.insert(offset, piece);
    }

    /// Number of bytes without a gap from the first one on.
    pub fn len(&self) -> usize {
        self.pieces.iter().fold(0, |end, (offset, piece)| match piece.data() {
            Some((_, length)) if *offset == end => end + length,
            _ => end,
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        for (offset, piece) in &self.pieces {
            let into = bytes.get_mut(*offset..).unwrap_or_default();
            if let Some((memory, length)) = piece.data()
                && let Some(into) = into.get_mut(..length)
            {
                memory.read(0, into);
            }
        }
        bytes
    }

    /// Sends bytes to a socket from this one on, without waiting. Returns the number of those sent.
    ///
    /// # Errors
    /// The socket does not take them.
    pub fn send(&self, socket: impl AsFd, from: usize) -> io::Result<usize> {
        let piece = self.pieces.range(..=from).next_back().and_then(|(offset, piece)| {
            let (memory, length) = piece.data()?;
            let at = from - offset;
            (at < length).then_some((memory, at, length))
        });
        let (memory, at, length) = piece.ok_or(io::ErrorKind::InvalidInput)?;
        memory.send(socket, at, length - at)
    }
}

impl ReplyData for ReadData {
    fn byte_count(&self) -> usize {
        self.len()
    }
}
