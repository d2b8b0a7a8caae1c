//! Fuzz target: bytes of a server, in the place of each reply that the client reads.

use super::attributes::Attributes;
use super::message::{self, Handle};
use super::procedures::read_listing;
use crate::limits::{DIRECTORY_MAX, NAME_MAX};
use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::xdr::Writer;

/// Reads any bytes as replies of the server. The first byte chooses between directories with attributes and without.
pub fn replies(bytes: &[u8]) {
    let (plus, bytes) = bytes.split_first().map_or((false, bytes), |(first, rest)| (first & 1 != 0, rest));
    let Ok(mut xdr) = message::results(bytes) else { return };
    if let Some(listing) = read_listing(&mut xdr.clone(), plus) {
        assert!(listing.entries.len() <= DIRECTORY_MAX / 24);
        assert!(listing.entries.iter().all(|entry| entry.name.len() <= NAME_MAX && !entry.name.contains(&b'/')));
    }
    if let Some(handle) = Handle::read(&mut xdr.clone()) {
        let mut out = Writer::default();
        handle.write(&mut out);
        assert!(out.0.len() <= 4 + HANDLE_MAX);
    }
    while Attributes::read_wcc(&mut xdr).is_some() {}
}

#[cfg(test)]
mod tests {
    /// Returns pseudo-random words, mostly small ones, as replies have.
    fn words(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut word = || if next() % 9 == 0 { next() as u32 } else { (next() % 4) as u32 };
        let accepted = [9, 1, 0, 0, 0, 0].into_iter();
        std::iter::once(seed as u8).chain(accepted.chain((0..60).map(|_| word())).flat_map(u32::to_be_bytes)).collect()
    }

    #[test]
    fn hostile_bytes_break_nothing() {
        for seed in 0..20_000 {
            super::replies(&words(seed));
        }
    }
}
