//! The send buffer: a ring that keeps data until the peer has it, and the sizes of transfers.

use super::inbound::Piece;

/// A stream with less free space than this is not writable.
pub const SEND_LOW_WATER: u32 = 2048;
/// Size of a call's first transfer; each later one is twice as large, so that copying and sending overlap.
const TRANSFER_FIRST: u32 = 2048;
/// Maximum size of a transfer in a call that has more to send.
const TRANSFER_MAX: u32 = 65536;

/// The state of a send buffer.
#[derive(Debug)]
pub struct Outbound {
    size: u32,
    next: u32,
    free: u32,
}

impl Outbound {
    /// Creates a buffer of `size` bytes.
    pub fn new(size: u32) -> Outbound {
        Outbound { size, next: 0, free: size }
    }

    /// Returns the size of the whole ring in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of free bytes.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether enough space is free for the stream to be writable.
    pub fn writable(&self) -> bool {
        self.free >= SEND_LOW_WATER
    }

    /// Counts `bytes` as in flight without space in the ring (they travel in the work request itself).
    pub fn charge(&mut self, bytes: u32) {
        self.free = self.free.saturating_sub(bytes);
    }

    /// Takes space for `bytes` (no more than are free): one piece, or two if it wraps around the end.
    pub fn take(&mut self, bytes: u32) -> (Piece, Option<Piece>) {
        let bytes = bytes.min(self.free);
        self.charge(bytes);
        let first = Piece { offset: self.next, length: bytes.min(self.size - self.next) };
        self.next += first.length;
        if self.next == self.size {
            self.next = 0;
        }
        let rest = bytes - first.length;
        if rest == 0 {
            return (first, None);
        }
        self.next = rest;
        (first, Some(Piece { offset: 0, length: rest }))
    }

    /// Records that the peer received this many more bytes.
    pub fn complete(&mut self, bytes: u32) {
        self.free = self.size.min(self.free.saturating_add(bytes));
    }
}

/// Size of each transfer in a call.
#[derive(Debug)]
pub struct Pace(u32);

impl Pace {
    /// Starts a call.
    pub fn new() -> Pace {
        Pace(TRANSFER_FIRST)
    }

    /// Returns the size of the next transfer when `left` bytes remain.
    pub fn next(&mut self, left: usize) -> u32 {
        let Some(small) = u32::try_from(left).ok().filter(|left| *left <= self.0) else {
            let now = self.0;
            self.0 = (now * 2).min(TRANSFER_MAX);
            return now;
        };
        small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_never_given_out_again() {
        let mut ring = Outbound::new(100);
        let mut owner = [None::<usize>; 100];
        let mut flight = std::collections::VecDeque::new();
        for number in 0..10_000usize {
            let want = (number * 7 % 40 + 1) as u32;
            while ring.free() < want {
                let (id, bytes): (usize, u32) = flight.pop_front().unwrap();
                owner.iter_mut().filter(|o| **o == Some(id)).for_each(|o| *o = None);
                ring.complete(bytes);
            }
            let (first, second) = ring.take(want);
            assert_eq!(first.length + second.map_or(0, |p| p.length), want);
            for piece in [Some(first), second].into_iter().flatten() {
                for place in &mut owner[piece.offset as usize..(piece.offset + piece.length) as usize] {
                    assert_eq!(place.replace(number), None, "two transfers share a byte");
                }
            }
            flight.push_back((number, want));
        }
    }

    #[test]
    fn charges_count_as_bytes_do() {
        let mut ring = Outbound::new(4096);
        ring.charge(2049);
        assert!(!ring.writable());
        ring.complete(2049);
        assert!(ring.writable());
        ring.complete(1000);
        assert_eq!(ring.free(), 4096);
    }

    #[test]
    fn transfers_double_up_to_the_largest() {
        let mut pace = Pace::new();
        let mut left = 300_000;
        let mut sizes = Vec::new();
        while left > 0 {
            let now = pace.next(left);
            sizes.push(now);
            left -= now as usize;
        }
        assert_eq!(sizes[..6], [2048, 4096, 8192, 16384, 32768, 65536]);
        assert_eq!(sizes.iter().sum::<u32>(), 300_000);
        assert!(sizes.iter().all(|s| *s <= TRANSFER_MAX));
        assert_eq!(Pace::new().next(2048), 2048);
        assert_eq!(Pace::new().next(1), 1);
    }
}
