//! One direction of a TCP connection: bytes in order, delivered in any pieces, at any time.

use std::collections::VecDeque;

use crate::Rng;

/// The bytes on their way.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    /// Bytes put in so far.
    pub total: u64,
    /// Position of a byte to damage.
    pub damage_at: Option<u64>,
    /// The sender has shut it down.
    pub is_shut: bool,
}

impl Pipe {
    pub fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let damaged = self.damage_at == Some(self.total);
            self.bytes.push_back(if damaged { byte ^ 0x10 } else { byte });
            self.total += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the bytes of one receive: one, a few, or many.
    pub fn take(&mut self, rng: &mut Rng) -> Vec<u8> {
        let most = rng.pick(&[1, 3, 40, 1448, 9000, 100_000]);
        let len = rng.range(1, most).min(self.bytes.len() as u64) as usize;
        self.bytes.drain(..len).collect()
    }
}
