//! Forged messages: honest ones with changes that a hostile peer would make.

use weft_rpcrdma::wire::{Body, Header, Segment};

use crate::rng::Rng;

/// Values of words that meet limits and signs.
const WORDS: [u32; 9] = [0, 1, 2, 3, 4, 0x7fff_ffff, 0xffff_ffff, 0xffff_fffc, 65536];

/// Changes a message.
pub fn forge(rng: &mut Rng, message: Vec<u8>) -> Vec<u8> {
    match Header::parse(&message) {
        Ok((header, len)) if rng.once_in(3) => forge_segment(rng, header, &message[len..]),
        _ => forge_bytes(rng, message),
    }
}

/// Changes one segment of a header that stays well-formed.
fn forge_segment(rng: &mut Rng, mut header: Header, body: &[u8]) -> Vec<u8> {
    if let Body::Msg(lists) | Body::NoMsg(lists) = &mut header.body {
        let reads = lists.reads.iter_mut().map(|read| &mut read.segment);
        let written = lists.writes.iter_mut().chain(&mut lists.reply).flat_map(|chunk| &mut chunk.segments);
        let mut segments: Vec<&mut Segment> = reads.chain(written).collect();
        let at = rng.within(0..=segments.len().max(1) - 1);
        if let Some(segment) = segments.get_mut(at) {
            match rng.within(0..=5) {
                0 => segment.length = segment.length.saturating_add(1),
                1 => segment.length = segment.length.saturating_sub(1),
                2 => segment.length = segment.length.saturating_mul(2),
                3 => segment.length /= 2,
                4 => segment.offset = segment.offset.wrapping_add(1),
                _ => segment.handle ^= 1,
            }
        }
    }
    [header.to_bytes(), body.to_vec()].concat()
}

/// Changes bytes and words wherever they are.
fn forge_bytes(rng: &mut Rng, mut message: Vec<u8>) -> Vec<u8> {
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
