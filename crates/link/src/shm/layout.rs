//! Layout of the shared memory. Both processes must agree, so every change of this file changes [`LAYOUT`].
//!
//! ```text
//! key directory   0       header: magic, layout, slot, generation, secret and its address
//!                 128     copying: whose memory we copy now      192  asleep      256  tiers of keys in use
//!                 4 KiB   queue pairs, 64 bytes each, by the index bits of their numbers
//!                 ...     keys, 64 bytes each: tiers that grow eightfold, so that few keys touch few pages
//! pair            128     side 0: here, asleep        256  how far side 0 has read
//!                 384     side 1: likewise            512
//!                 4 KiB   ring of side 0              ...  ring of side 1
//! ```

/// Version of the layout; processes with different ones do not meet.
pub(super) const LAYOUT: u64 = 1;
/// First word of a key directory.
pub(super) const DIRECTORY_MAGIC: u64 = u64::from_be_bytes(*b"weftbord");

/// Bytes of a cache line, of a slot of a ring, and of an entry of a table.
pub(super) const LINE: usize = 64;

/// Header of a key directory, in words.
pub(super) mod header {
    pub const MAGIC: usize = 0;
    pub const LAYOUT: usize = 8;
    pub const SLOT: usize = 16;
    pub const GENERATION: usize = 24;
    /// Two words that are also in the process's own memory.
    pub const SECRET: usize = 32;
    /// Address of these words there.
    pub const SECRET_ADDRESS: usize = 48;
}
/// Slot of the process whose memory the process copies.
pub(super) const COPYING: usize = 128;
/// Whether the process sleeps.
pub(super) const ASLEEP: usize = 192;
/// Number of tiers of the key table ever used.
pub(super) const TIERS_USED: usize = 256;

/// Models have small tables and rings, because every word costs time in each of their runs.
const MODELLED: bool = cfg!(loom);

const QPS: usize = if MODELLED { 320 } else { 4096 };
const QPS_MAX: usize = if MODELLED { 1 } else { 1 << weft_verbs::QPN_INDEX_BITS };
const KEYS: usize = QPS + QPS_MAX * LINE;

/// Entries of each tier of the key table; the last has four times as many as there can be keys.
const TIERS: [usize; 6] = if MODELLED { [1; 6] } else { [1 << 6, 1 << 9, 1 << 12, 1 << 15, 1 << 18, 1 << 22] };
pub(super) const TIERS_MAX: usize = TIERS.len();
const _: () =
    assert!(MODELLED || TIERS[TIERS_MAX - 1] >= 2 * (weft_verbs::MR_MAX as usize + weft_verbs::MW_MAX as usize));
/// A key is at its place in a tier or at one of the next ones; this many are probed.
pub(super) const PROBES: usize = if MODELLED { 1 } else { 8 };

/// Size of a key directory in bytes; nearly all of it is holes.
pub const DIRECTORY_BYTES: usize = tier_start(TIERS_MAX).next_multiple_of(if MODELLED { LINE } else { 4096 });

const fn tier_start(tier: usize) -> usize {
    let (mut at, mut n) = (KEYS, 0);
    while n < tier {
        at += (TIERS[n] + PROBES) * LINE;
        n += 1;
    }
    at
}

const TIER_STARTS: [usize; TIERS_MAX] = {
    let (mut starts, mut n) = ([0; TIERS_MAX], 0);
    while n < TIERS_MAX {
        starts[n] = tier_start(n);
        n += 1;
    }
    starts
};

/// Returns the position of a queue pair's entry.
#[inline]
pub(super) fn qp_at(qpn: u32) -> usize {
    QPS + (qpn as usize & (QPS_MAX - 1)) * LINE
}

/// Returns the position of a key's first place in a tier; the tier must be below [`TIERS_MAX`].
#[inline]
pub(super) fn key_at(tier: usize, key: u32) -> usize {
    // The key's index is random; its lowest eight bits are the tag.
    TIER_STARTS[tier] + ((key >> 8) as usize & (TIERS[tier] - 1)) * LINE
}

/// Number of slots of a ring: fifteen of the longest frames.
pub(super) const RING_SLOTS: u64 = if MODELLED { 4 } else { 4096 };
const RING_BYTES: usize = RING_SLOTS as usize * LINE;
const RINGS: usize = if MODELLED { 576 } else { 4096 };

/// Size of a pair of rings in bytes.
pub const PAIR_BYTES: usize = RINGS + 2 * RING_BYTES;

/// One of the two sides of a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side(pub usize);

impl Side {
    pub fn other(self) -> Side {
        Side(1 - self.0)
    }

    /// Returns the position of a word that is non-zero once the side uses the pair.
    pub fn here(self) -> usize {
        128 + self.0 * 256
    }

    /// Returns the position of the word for the side's sleep, for a peer without its key directory.
    pub fn asleep(self) -> usize {
        self.here() + 8
    }

    /// Returns the position of the word for the side's progress in the other's ring.
    pub fn taken(self) -> usize {
        self.here() + 128
    }

    /// Returns the position of the side's ring.
    pub fn ring(self) -> usize {
        RINGS + self.0 * RING_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        assert_eq!(qp_at(0), QPS);
        assert_eq!(qp_at(u32::MAX) + LINE, KEYS);
        for tier in 0..TIERS_MAX {
            let last = key_at(tier, u32::MAX) + PROBES * LINE;
            assert!(key_at(tier, 0) == tier_start(tier) && last <= tier_start(tier + 1));
        }
        assert!(Side(1).taken() + 8 <= Side(0).ring());
        assert_eq!(Side(1).ring() + RING_BYTES, PAIR_BYTES);
    }
}
