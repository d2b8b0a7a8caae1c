//! Forged messages: honest ones with changes that a hostile peer would make.

use crate::rng::Rng;

/// Values of words that meet limits and signs.
const WORDS: [u32; 9] = [0, 1, 2, 3, 4, 0x7fff_ffff, 0xffff_ffff, 0xffff_fffc, 65536];

/// Changes a message.
pub fn forge(rng: &mut Rng, mut message: Vec<u8>) -> Vec<u8> {
    for _ in 0..rng.within(1..=3) {
        let words = message.len() / 4;
        match rng.within(0..=5) {
            0 => message.truncate(rng.within(0..=message.len())),
            1 => {
                let more = rng.within(0..=64);
                message.extend(rng.bytes(more));
            }
            // A word of the header, or of the first words of the RPC message.
            2 | 3 if words > 0 => {
                let at = rng.within(0..=words.min(40) - 1) * 4;
                let word = WORDS[rng.within(0..=WORDS.len() - 1)];
                message[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
            4 if words > 0 => {
                // One more or less: a length that exceeds its chunk by a byte, a neighbour's address.
                let at = rng.within(0..=words.min(40) - 1) * 4 + 3;
                message[at] = message[at].wrapping_add(if rng.once_in(2) { 1 } else { 255 });
            }
            _ if !message.is_empty() => {
                let at = rng.within(0..=message.len() - 1);
                message[at] ^= 1 << rng.within(0..=7);
            }
            _ => {}
        }
    }
    message
}
