//! The receive buffer: a ring of two halves that are lent to the peer in turn, and the lengths of the messages that it
//! wrote.
//!
//! ```text
//!      read                 (written, not read)               lent, not written
//! 0 ----|========================================|.......................... size
//! ```
//! Bytes that the program has read become free; when half of the buffer is free it is lent again.

use std::collections::VecDeque;

/// A run of bytes of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Start offset.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

/// The peer announced more bytes than it was lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrun;

/// The state of a receive buffer.
#[derive(Debug)]
pub struct Inbound {
    size: u32,
    /// Offset of the next byte for the program.
    read: u32,
    /// Bytes that were read and not lent again.
    free: u32,
    /// Offset of the next half to lend.
    lend: u32,
    /// Bytes that the peer may still write.
    lent: u32,
    /// Bytes in `messages`.
    unread: u32,
    /// Remaining length of each message.
    messages: VecDeque<u32>,
    messages_max: usize,
}

impl Inbound {
    /// Creates a buffer of `size` bytes (even, at least 2) for at most `messages_max` messages at a time; the peer
    /// knows its first half from the connection's data.
    pub fn new(size: u32, messages_max: usize) -> Inbound {
        let half = size / 2;
        let size = half * 2;
        Inbound {
            size,
            read: 0,
            free: half,
            lend: half,
            lent: half,
            unread: 0,
            messages: VecDeque::new(),
            messages_max,
        }
    }

    /// Returns the size of a half in bytes.
    pub fn half(&self) -> u32 {
        self.size / 2
    }

    /// Records a message that the peer wrote.
    pub fn push(&mut self, length: u32) -> Result<(), Overrun> {
        if length > self.lent || self.messages.len() >= self.messages_max {
            return Err(Overrun);
        }
        self.lent -= length;
        self.unread += length;
        self.messages.push_back(length);
        Ok(())
    }

    /// Whether a message waits.
    pub fn has_data(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Returns the number of waiting bytes.
    pub fn unread(&self) -> u32 {
        self.unread
    }

    /// Returns the next bytes to read, at most `limit`, `skip` bytes from the first; fewer at the buffer's end.
    pub fn peek(&self, skip: u32, limit: usize) -> Option<Piece> {
        let left = self.unread.checked_sub(skip).filter(|left| *left > 0)?;
        let offset = (self.read + skip) % self.size;
        let length = left.min(self.size - offset).min(u32::try_from(limit).unwrap_or(u32::MAX));
        (length > 0).then_some(Piece { offset, length })
    }

    /// Records that the program read this many bytes; returns the number of messages that this finished. Empty messages
    /// before the next byte count as finished too.
    pub fn consume(&mut self, bytes: u32) -> u32 {
        let bytes = bytes.min(self.unread);
        self.read = (self.read + bytes) % self.size;
        self.free += bytes;
        self.unread -= bytes;
        let mut left = bytes;
        let mut finished = 0;
        while let Some(first) = self.messages.front_mut() {
            if *first > left {
                *first -= left;
                break;
            }
            left -= *first;
            self.messages.pop_front();
            finished += 1;
        }
        finished
    }

    /// Whether a half is free.
    pub fn can_lend(&self) -> bool {
        self.free >= self.half()
    }

    /// Lends a half, if one is free; returns it.
    pub fn lend(&mut self) -> Option<Piece> {
        if !self.can_lend() {
            return None;
        }
        let piece = Piece { offset: self.lend, length: self.half() };
        self.free -= piece.length;
        self.lent += piece.length;
        self.lend = (self.lend + piece.length) % self.size;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as a peer does: into the halves in the order in which they were lent.
    struct Peer {
        memory: Vec<u8>,
        halves: VecDeque<Piece>,
        next: u8,
    }

    impl Peer {
        fn write(&mut self, inbound: &mut Inbound, limit: u32) -> bool {
            let Some(piece) = self.halves.front_mut() else { return false };
            let length = piece.length.min(limit);
            for at in piece.offset..piece.offset + length {
                self.memory[at as usize] = self.next;
                self.next = self.next.wrapping_add(1);
            }
            piece.offset += length;
            piece.length -= length;
            if piece.length == 0 {
                self.halves.pop_front();
            }
            inbound.push(length).unwrap();
            true
        }
    }

    #[test]
    fn bytes_come_out_in_order_whatever_the_sizes() {
        for (size, writes, reads) in [(64, 7, 5), (64, 32, 64), (64, 1, 64), (2, 1, 1), (128, 64, 3)] {
            let mut inbound = Inbound::new(size, 1000);
            let first = Piece { offset: 0, length: inbound.half() };
            let mut peer = Peer { memory: vec![0; size as usize], halves: [first].into(), next: 0 };
            let (mut expected, mut total) = (0u8, 0u64);
            for _ in 0..2000 {
                peer.halves.extend(inbound.lend());
                peer.write(&mut inbound, writes);
                let mut left = reads;
                while let Some(piece) = inbound.peek(0, left) {
                    for at in piece.offset..piece.offset + piece.length {
                        assert_eq!(peer.memory[at as usize], expected);
                        expected = expected.wrapping_add(1);
                    }
                    inbound.consume(piece.length);
                    total += u64::from(piece.length);
                    left -= piece.length as usize;
                }
            }
            assert!(total >= 1000, "the stream stalled after {total} bytes");
        }
    }

    #[test]
    fn both_halves_are_lent_before_anything_is_read_and_no_more() {
        let mut inbound = Inbound::new(64, 10);
        assert_eq!(inbound.lend(), Some(Piece { offset: 32, length: 32 }));
        assert_eq!(inbound.lend(), None);
    }

    #[test]
    fn a_peer_cannot_claim_more_than_it_was_lent() {
        let mut inbound = Inbound::new(64, 10);
        assert_eq!(inbound.push(33), Err(Overrun));
        assert_eq!(inbound.push(32), Ok(()));
        assert_eq!(inbound.push(1), Err(Overrun));
        assert_eq!(inbound.push(u32::MAX), Err(Overrun));
    }

    #[test]
    fn a_peer_cannot_queue_more_messages_than_there_are_receives() {
        let mut inbound = Inbound::new(64, 2);
        assert_eq!(inbound.push(0), Ok(()));
        assert_eq!(inbound.push(0), Ok(()));
        assert_eq!(inbound.push(0), Err(Overrun));
    }

    #[test]
    fn a_message_counts_when_its_last_byte_is_read() {
        let mut inbound = Inbound::new(64, 10);
        inbound.push(10).unwrap();
        inbound.push(5).unwrap();
        inbound.push(0).unwrap();
        assert_eq!(inbound.consume(9), 0);
        assert_eq!(inbound.consume(1), 1);
        assert_eq!(inbound.consume(5), 2);
        assert!(!inbound.has_data());
    }

    #[test]
    fn peeking_leaves_everything_where_it_is() {
        let mut inbound = Inbound::new(64, 10);
        inbound.lend();
        inbound.push(32).unwrap();
        inbound.consume(30);
        inbound.push(32).unwrap();
        assert_eq!(inbound.peek(0, 100), Some(Piece { offset: 30, length: 34 }));
        assert_eq!(inbound.peek(34, 100), None);
        assert_eq!(inbound.peek(33, 100), Some(Piece { offset: 63, length: 1 }));
        assert_eq!(inbound.unread(), 34);
    }
}
