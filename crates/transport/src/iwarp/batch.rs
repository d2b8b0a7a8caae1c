//! Bytes of a stream that wait for TCP: control bytes in an arena, payload by name. Unlike packets they may leave in
//! part, so the batch knows how far it is sent.

use std::collections::VecDeque;

use crate::{Memory, Piece};

/// Arena bytes that an idle stream keeps, so that one at work need not allocate for each batch.
const ARENA_KEPT: usize = 32 << 10;

/// Bytes of a stream to send, in order.
#[derive(Debug, Default)]
pub struct StreamBatch {
    arena: Vec<u8>,
    pieces: Vec<Piece>,
    /// First piece that is not sent completely.
    first: usize,
    /// Bytes in pieces from `first` on.
    len: usize,
    /// Bytes of each FPDU that waits, if the owner must send them one by one.
    fpdus: VecDeque<usize>,
}

impl StreamBatch {
    /// Returns the bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the pieces that wait, in order: the elements of one `sendmsg`.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[self.first..]
    }

    /// Returns the bytes of each FPDU that waits, in order; of the first one those that TCP has not taken. If there are
    /// any, the owner sends each FPDU with a `sendmsg` of its own that sets `MSG_EOR`: TCP then begins a new buffer after
    /// it. siw 6.1 and later misread a CRC that two buffers share. Nothing if one `sendmsg` may send the whole batch.
    pub fn fpdus(&self) -> impl Iterator<Item = usize> + '_ {
        self.fpdus.iter().copied()
    }

    /// Returns the bytes of a piece of the arena; nothing for one of registered memory.
    pub fn arena(&self, piece: Piece) -> &[u8] {
        match piece {
            Piece::Arena { start, len } => {
                self.arena.get(start as usize..start as usize + len as usize).unwrap_or_default()
            }
            Piece::Host { .. } => &[],
        }
    }

    /// Appends bytes. They extend the piece before, if that is in the arena, too.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
        self.extend_arena(bytes.len());
    }

    /// Notes that the last `len` bytes are an FPDU, which must be sent on its own.
    pub(super) fn end_fpdu(&mut self, len: usize) {
        self.fpdus.push_back(len);
    }

    /// Appends registered memory.
    pub(super) fn host(&mut self, addr: u64, len: u32) {
        if len != 0 {
            self.pieces.push(Piece::Host { addr, len });
            self.len += len as usize;
        }
    }

    /// Appends a copy of registered memory.
    pub(super) fn copy(&mut self, memory: &impl Memory, addr: u64, len: u32) {
        let start = self.arena.len();
        self.arena.resize(start + len as usize, 0);
        memory.read(addr, &mut self.arena[start..]);
        self.extend_arena(len as usize);
    }

    /// Returns the last `len` bytes of the arena.
    pub(super) fn last(&self, len: usize) -> &[u8] {
        &self.arena[self.arena.len().saturating_sub(len)..]
    }

    /// Counts `len` bytes that were appended to the arena.
    fn extend_arena(&mut self, len: usize) {
        let end = self.arena.len();
        self.len += len;
        match self.pieces.last_mut() {
            Some(Piece::Arena { start, len: before }) if *start as usize + *before as usize + len == end => {
                *before += len as u32;
            }
            _ if len == 0 => {}
            _ => self.pieces.push(Piece::Arena { start: (end - len) as u32, len: len as u32 }),
        }
    }

    /// Drops the first `sent` bytes, which TCP has taken.
    pub(super) fn advance(&mut self, sent: usize) {
        let mut left = sent.min(self.len);
        self.len -= left;
        self.advance_fpdus(left);
        while left != 0 {
            match &mut self.pieces[self.first] {
                Piece::Host { len, .. } | Piece::Arena { len, .. } if *len as usize <= left => {
                    left -= *len as usize;
                    self.first += 1;
                }
                Piece::Host { addr, len } => {
                    (*addr, *len, left) = (addr.wrapping_add(left as u64), *len - left as u32, 0);
                }
                Piece::Arena { start, len } => (*start, *len, left) = (*start + left as u32, *len - left as u32, 0),
            }
        }
        if self.is_empty() {
            self.clear();
        }
    }

    fn advance_fpdus(&mut self, mut sent: usize) {
        while let Some(len) = self.fpdus.front_mut() {
            if *len > sent {
                *len -= sent;
                return;
            }
            sent -= *len;
            self.fpdus.pop_front();
        }
    }

    /// Copies what waits, so that no registered memory is named when the adapter's lock is released.
    pub(super) fn own(&mut self, memory: &impl Memory) {
        for piece in &mut self.pieces[self.first..] {
            if let Piece::Host { addr, len } = *piece {
                let start = self.arena.len();
                self.arena.resize(start + len as usize, 0);
                memory.read(addr, &mut self.arena[start..]);
                *piece = Piece::Arena { start: start as u32, len };
            }
        }
        // A stream whose batch never runs empty leaves sent bytes behind.
        if self.arena.len() > 2 * self.len + ARENA_KEPT {
            self.compact();
        }
    }

    /// Drops sent bytes from the arena, which holds all that waits.
    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(2 * self.len + ARENA_KEPT);
        self.pieces().iter().for_each(|piece| arena.extend_from_slice(self.arena(*piece)));
        let len = arena.len() as u32;
        self.arena = arena;
        self.pieces.clear();
        self.first = 0;
        self.pieces.push(Piece::Arena { start: 0, len });
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.arena.shrink_to(ARENA_KEPT);
        self.pieces.clear();
        self.fpdus.clear();
        (self.first, self.len) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BASE, World};

    #[test]
    fn a_batch_that_never_runs_empty_stays_small() {
        let (mut batch, memory) = (StreamBatch::default(), World::new(0).memory);
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for round in 0..5000_u32 {
            batch.bytes(&round.to_ne_bytes());
            batch.host(BASE + u64::from(round), 1000);
            batch.copy(&memory, BASE, 3);
            expected.extend(round.to_ne_bytes());
            expected.extend_from_slice(memory.at(BASE + u64::from(round), 1000));
            expected.extend_from_slice(memory.at(BASE, 3));
            let sent = if round == 0 { 0 } else { 1007 };
            let mut waiting = Vec::new();
            for piece in batch.pieces() {
                match *piece {
                    Piece::Host { addr, len } => waiting.extend_from_slice(memory.at(addr, len as usize)),
                    Piece::Arena { .. } => waiting.extend_from_slice(batch.arena(*piece)),
                }
            }
            assert_eq!(waiting.len(), batch.len());
            got.extend_from_slice(&waiting[..sent]);
            batch.advance(sent);
            batch.own(&memory);
            assert!(batch.arena.len() <= 4 * ARENA_KEPT && batch.pieces.len() <= 200, "{round}");
        }
        assert!(got == expected[..got.len()]);
        batch.advance(usize::MAX);
        assert!(batch.is_empty() && batch.pieces().is_empty());
    }
}
