//! A program's buffers as one sequence of bytes, to send from or to receive into.

use libc::iovec;

use super::memory::Region;
use super::proto::inbound::Piece;

/// A call's position in the buffers.
pub(crate) struct Gather<'a> {
    buffers: &'a [iovec],
    /// Bytes of the first buffer that are already used.
    done: usize,
    left: usize,
}

impl<'a> Gather<'a> {
    /// Starts at the first buffer.
    ///
    /// # Safety
    /// Each buffer's bytes must stay readable, or writable if they are written, for as long as this lives.
    pub(crate) unsafe fn new(buffers: &'a [iovec]) -> Gather<'a> {
        let left = buffers.iter().fold(0usize, |sum, buffer| sum.saturating_add(buffer.iov_len));
        Gather { buffers, done: 0, left }
    }

    /// Returns the number of unused bytes.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns the next contiguous bytes, at most `limit`; never none while any are left.
    fn next(&mut self, limit: usize) -> Option<(*mut u8, usize)> {
        loop {
            let first = self.buffers.first()?;
            let bytes = first.iov_len - self.done;
            if bytes > 0 {
                return Some((first.iov_base.cast::<u8>().wrapping_add(self.done), bytes.min(limit)));
            }
            self.buffers = self.buffers.get(1..)?;
            self.done = 0;
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        self.left -= bytes;
    }

    /// Takes the next `bytes` in place, if they are contiguous.
    pub(crate) fn together(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (at, found) = self.next(bytes)?;
        if found < bytes {
            return None;
        }
        self.advance(bytes);
        // SAFETY: bytes of the program's buffer, which it does not touch during the call.
        Some(unsafe { std::slice::from_raw_parts(at, bytes) })
    }

    /// Takes the next contiguous bytes, however many.
    pub(crate) fn some(&mut self) -> Option<&'a [u8]> {
        let (at, bytes) = self.next(usize::MAX)?;
        self.advance(bytes);
        // SAFETY: as in `together`.
        Some(unsafe { std::slice::from_raw_parts(at, bytes) })
    }

    /// Copies the next bytes into a piece of registered memory.
    pub(crate) fn copy_to(&mut self, region: &Region, piece: Piece) {
        let mut offset = piece.offset as usize;
        let end = offset + piece.length as usize;
        while offset < end {
            let Some((at, bytes)) = self.next(end - offset) else { return };
            // SAFETY: bytes of the program's buffer, which it does not touch during the call.
            region.write(offset, unsafe { std::slice::from_raw_parts(at, bytes) });
            offset += bytes;
            self.advance(bytes);
        }
    }

    /// Copies bytes of registered memory into the buffers; returns how many fit.
    pub(crate) fn copy_from(&mut self, region: &Region, piece: Piece) -> u32 {
        let mut copied = 0;
        while copied < piece.length {
            let Some((at, bytes)) = self.next((piece.length - copied) as usize) else { break };
            let from = Piece { offset: piece.offset + copied, length: bytes as u32 };
            // SAFETY: room in the program's buffer, which it does not touch during the call.
            unsafe { region.read_to(from, at) };
            copied += from.length;
            self.advance(bytes);
        }
        copied
    }

    /// Copies bytes into the buffers; returns how many fit.
    pub(crate) fn copy_bytes(&mut self, mut from: &[u8]) -> usize {
        let before = from.len();
        while !from.is_empty() {
            let Some((at, bytes)) = self.next(from.len()) else { break };
            // SAFETY: room in the program's buffer, which it does not touch during the call.
            unsafe { at.copy_from_nonoverlapping(from.as_ptr(), bytes) };
            from = &from[bytes..];
            self.advance(bytes);
        }
        before - from.len()
    }
}
