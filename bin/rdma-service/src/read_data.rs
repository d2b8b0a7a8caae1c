//! Data of a read: the peer left it in lent memory, piece by piece, and it stays there until it is sent or copied.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use weft_nbd::ReplyData;

use crate::lending::EndedLoan;
use crate::limits::PIECES_SENT_MAX;

/// Data of a read.
#[derive(Default, Debug)]
pub struct ReadData {
    /// By their offsets.
    pieces: BTreeMap<usize, EndedLoan>,
    /// Bytes without a gap from the first one on.
    len: usize,
}

impl ReadData {
    /// Adds a piece at an offset. Bytes that arrived before stay.
    pub fn insert(&mut self, offset: usize, piece: EndedLoan) {
        if !piece.is_empty() && offset >= self.len {
            self.pieces.entry(offset).or_insert(piece);
        }
        while let Some(next) = self.pieces.get(&self.len) {
            self.len += next.len();
        }
    }

    /// Number of bytes without a gap from the first one on.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a copy.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        while let Some(piece) = self.pieces.get(&bytes.len()) {
            piece.append_to(&mut bytes);
        }
        bytes
    }

    /// Returns the data in one piece, if a target has cut it into many: each takes a system call.
    #[must_use]
    pub fn in_few_pieces(self) -> ReadData {
        if self.pieces.len() <= PIECES_SENT_MAX {
            return self;
        }
        let mut whole = ReadData::default();
        whole.insert(0, EndedLoan::copied(self.to_bytes()));
        whole
    }

    /// Sends bytes to a socket from this one on, without waiting. Returns the number of those sent.
    ///
    /// # Errors
    /// The socket does not take them.
    pub fn send(&self, socket: impl AsFd, from: usize) -> io::Result<usize> {
        let (offset, piece) = self.pieces.range(..=from).next_back().ok_or(io::ErrorKind::InvalidInput)?;
        piece.send(socket, from - offset)
    }
}

impl ReplyData for ReadData {
    fn byte_count(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn data(pieces: &[(usize, &[u8])]) -> ReadData {
        let mut data = ReadData::default();
        pieces.iter().for_each(|(offset, bytes)| data.insert(*offset, EndedLoan::copied(bytes.to_vec())));
        data
    }

    #[test]
    fn pieces_arrive_in_any_order_and_count_up_to_a_gap() {
        assert_eq!(data(&[(3, b"def"), (0, b"abc"), (6, b"g")]).to_bytes(), b"abcdefg");
        let with_gap = data(&[(0, b"abc"), (4, b"efg")]);
        assert_eq!((with_gap.len(), with_gap.to_bytes()), (3, b"abc".to_vec()));
        assert!(data(&[(1, b"abc")]).is_empty());
        assert_eq!(data(&[(0, b"abc"), (0, b"xyz"), (3, b""), (1, b"xyz")]).to_bytes(), b"abc");
    }

    #[test]
    fn sending_goes_on_behind_each_piece() {
        let (to, mut from) = UnixStream::pair().expect("a pair");
        let data = data(&[(0, b"abc"), (3, b"defg")]);
        let mut sent = 1;
        while sent < data.len() {
            sent += data.send(&to, sent).expect("sent");
        }
        drop(to);
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        assert_eq!(text, "bcdefg");
    }

    #[test]
    fn many_pieces_become_one() {
        let many = (0..=PIECES_SENT_MAX).fold(ReadData::default(), |mut data, at| {
            data.insert(at, EndedLoan::copied(vec![at as u8]));
            data
        });
        let bytes = many.to_bytes();
        let whole = many.in_few_pieces();
        assert_eq!((whole.pieces.len(), whole.to_bytes()), (1, bytes));
        assert_eq!(data(&[(0, b"a"), (1, b"b")]).in_few_pieces().pieces.len(), 2);
    }
}
