//! Placement of arrived bytes. An adapter may write the bytes of a message, and of several WRITEs, in any order (IBA 9.5, o9-20):
//! only a completion, or a later operation of the peer that sees them, promises that they are there. So pieces gather while
//! packets are handled, and go to memory in random order before the engine sends, reads memory, or unlocks. Pieces that overlap
//! keep their order. Naturally aligned pieces of at most eight bytes stay whole, since processors and adapters write those at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::dice;

/// Bytes that wait; more are written at once.
const BYTES_MAX: usize = 1 << 20;
/// Pieces that wait.
const PIECES_MAX: usize = 256;
/// Pieces of at most this many bytes are not cut.
const WHOLE: usize = 8;
/// One in so many pieces comes after a pause, of at most so many microseconds.
const PAUSE: (u64, u64) = (8, 150);

#[derive(Debug)]
struct Piece {
    addr: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn overlaps(&self, other: &Piece) -> bool {
        self.addr < other.addr + other.bytes.len() as u64 && other.addr < self.addr + self.bytes.len() as u64
    }
}

static PIECES: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Takes bytes for an address. `write` writes bytes to memory; it may get some at once.
pub fn defer(addr: u64, data: &[u8], write: &mut impl FnMut(u64, &[u8])) {
    let mut pieces = PIECES.lock();
    let waiting: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
    if waiting + data.len() > BYTES_MAX || pieces.len() + 2 > PIECES_MAX {
        write_all(&mut pieces, write);
    }
    let cut = if data.len() > WHOLE { 1 + dice::below(data.len() as u64 - 1) as usize } else { data.len() };
    let (head, tail) = data.split_at(cut);
    for (at, bytes) in [(0, head), (cut, tail)] {
        if !bytes.is_empty() {
            pieces.push(Piece { addr: addr + at as u64, bytes: bytes.to_vec() });
        }
    }
    ANY.store(true, Ordering::Relaxed);
}

/// Writes all bytes that wait.
#[inline]
pub fn place(write: &mut impl FnMut(u64, &[u8])) {
    if ANY.load(Ordering::Relaxed) {
        write_all(&mut PIECES.lock(), write);
    }
}

#[cold]
fn write_all(pieces: &mut Vec<Piece>, write: &mut impl FnMut(u64, &[u8])) {
    while !pieces.is_empty() {
        let mut chosen = dice::below(pieces.len() as u64) as usize;
        // The first piece that it overlaps goes first; that one may overlap an earlier one.
        while let Some(earlier) = (0..chosen).find(|earlier| pieces[*earlier].overlaps(&pieces[chosen])) {
            chosen = earlier;
        }
        let piece = pieces.remove(chosen);
        write(piece.addr, &piece.bytes);
        if dice::below(PAUSE.0) == 0 {
            std::thread::sleep(Duration::from_micros(dice::below(PAUSE.1)));
        }
    }
    ANY.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_in_any_order_but_overlapping_ones_in_theirs() {
        dice::seed(3);
        let (mut swapped, mut torn) = (0, 0);
        for _ in 0..200 {
            let mut memory = [0; 64];
            let mut order = Vec::new();
            let mut write = |addr: u64, bytes: &[u8]| {
                memory[addr as usize..addr as usize + bytes.len()].copy_from_slice(bytes);
                order.push(addr);
            };
            defer(0, &[1; 32], &mut write);
            defer(40, &[2; 8], &mut write);
            defer(8, &[3; 8], &mut write);
            place(&mut write);
            assert_eq!(memory[..8], [1; 8]);
            assert_eq!((&memory[8..16], &memory[16..32], &memory[40..48]), (&[3; 8][..], &[1; 16][..], &[2; 8][..]));
            torn += usize::from(order.iter().filter(|addr| **addr < 32).count() == 3);
            swapped +=
                usize::from(order.iter().position(|addr| *addr == 40) < order.iter().position(|addr| *addr == 0));
        }
        assert!(swapped > 20 && torn == 200, "{swapped} {torn}");
    }
}
