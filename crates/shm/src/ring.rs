//! Ring of slots between one producer and one consumer. Positions count slots and never wrap; each end keeps its own in
//! private memory, and believes of the other's no more than is possible.
//!
//! ```text
//!            taken                    written
//!   ───────────┼────────────────────────┼───────────  taken ≤ written ≤ taken + SLOTS
//!     free     │  published             │ free
//!   consumer ──┘ stores it, the         └── producer: publishes each slot
//!                producer loads it only
//!                when room is short
//! ```
//!
//! The producer publishes in one of two ways, because rings differ in what costs most:
//! - by a [`Counter`]: it stores its position in a word. The consumer loads that word when it has taken all that it
//!   knows of, so a run of slots costs one load; a lone slot costs two cache lines, the word's and its own;
//! - by [`Stamps`]: the slot's first word, stored last, says that the slot is complete. A lone slot costs one cache line
//!   from one processor to the other, half the way of a message within the host.
//!
//! The slot's content is the owner's business: a frame over several slots, records of bytes, a datagram a slot.

use weft_sys::shared::Shared;
use weft_sys::sync::Ordering;

/// The other end's position is impossible, or its content breaks the ring's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Offsets of a ring in its memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The first slot.
    pub slots_at: usize,
    /// The word with the consumer's position.
    pub taken_at: usize,
}

/// Publication by a word with the producer's position.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    written_at: usize,
    /// The position at the consumer's last load.
    seen: u64,
}

impl Counter {
    /// Describes the word at an offset.
    pub const fn at(written_at: usize) -> Counter {
        Counter { written_at, seen: 0 }
    }
}

/// Publication by a stamp in the slot's first word. The stamp combines the ring's key and the position, so that neither
/// an old lap nor content can pass for a slot.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    key: u64,
}

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = size_of::<u64>();

/// Words after the stamp that are written and read with it. With one word of content they fill a cache line.
pub const HEAD_WORDS: usize = 6;

impl Stamps {
    /// Returns the stamps of the ring from one process to another, which both can compute from numbers of their own.
    pub fn between(from: u64, to: u64) -> Stamps {
        let mut x = from ^ to.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Positions never have this bit, so no stamp is zero as in a fresh ring.
        Stamps { key: (x ^ (x >> 31)) | 1 << 63 }
    }

    /// Returns the stamp of a slot at a position.
    #[inline]
    pub fn of(self, position: u64) -> u64 {
        self.key ^ position
    }
}

/// The writing end, of a ring of `SLOTS` slots of `SLOT_BYTES` bytes, with publication by `S`.
#[derive(Debug)]
pub struct Producer<S, const SLOTS: u64, const SLOT_BYTES: usize> {
    layout: Layout,
    scheme: S,
    written: u64,
    /// The consumer's position at the last check.
    taken: u64,
}

impl<S, const SLOTS: u64, const SLOT_BYTES: usize> Producer<S, SLOTS, SLOT_BYTES> {
    /// Makes the writing end of an empty ring.
    pub const fn new(layout: Layout, scheme: S) -> Self {
        Producer { layout, scheme, written: 0, taken: 0 }
    }

    /// Returns the number of slots ever written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of slots that the consumer claims to have taken.
    #[inline]
    pub fn taken(&self, memory: &Shared) -> u64 {
        memory.word(self.layout.taken_at).load(Ordering::Acquire)
    }

    /// Returns the offset of the next slot.
    #[inline]
    pub fn slot_at(&self) -> usize {
        self.layout.slots_at + (self.written % SLOTS) as usize * SLOT_BYTES
    }

    /// Returns the number of slots from the next one to the end of the ring's memory.
    #[inline]
    pub fn lap_left(&self) -> u64 {
        SLOTS - self.written % SLOTS
    }

    /// Returns whether the next `slots` slots are free.
    ///
    /// # Errors
    /// The consumer's position is impossible.
    #[inline]
    pub fn has_room(&mut self, memory: &Shared, slots: u64) -> Result<bool, Broken> {
        let taken_at = self.layout.taken_at;
        self.has_room_with(slots, || memory.word(taken_at).load(Ordering::Acquire))
    }

    /// Does the same where the consumer's position is not a word of its own: `load` acquires it.
    #[inline]
    pub fn has_room_with(&mut self, slots: u64, load: impl FnOnce() -> u64) -> Result<bool, Broken> {
        if self.free() >= slots { Ok(true) } else { self.has_room_now(slots, load) }
    }

    #[cold]
    fn has_room_now(&mut self, slots: u64, load: impl FnOnce() -> u64) -> Result<bool, Broken> {
        let taken = load();
        if taken.wrapping_sub(self.taken) > self.written.wrapping_sub(self.taken) {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(self.free() >= slots)
    }

    #[inline]
    fn free(&self) -> u64 {
        SLOTS - self.written.wrapping_sub(self.taken)
    }
}

impl<const SLOTS: u64, const SLOT_BYTES: usize> Producer<Counter, SLOTS, SLOT_BYTES> {
    /// Publishes the next `slots` slots, which are written.
    #[inline]
    pub fn publish(&mut self, memory: &Shared, slots: u64) {
        self.written = self.written.wrapping_add(slots);
        memory.word(self.scheme.written_at).store(self.written, Ordering::Release);
    }
}

impl<const SLOTS: u64, const SLOT_BYTES: usize> Producer<Stamps, SLOTS, SLOT_BYTES> {
    /// Writes the head of the next slot, and publishes it and those behind it, `slots` in all, whose other content is
    /// written. Content must not leave a part of an old stamp ([`Producer::clear_stamp`]).
    #[inline]
    pub fn publish(&mut self, memory: &Shared, slots: u64, head: [u64; HEAD_WORDS]) {
        let [stamp, a, b, c, d, e, f] = memory.words::<{ 1 + HEAD_WORDS }>(self.slot_at());
        a.store(head[0], Ordering::Relaxed);
        b.store(head[1], Ordering::Relaxed);
        c.store(head[2], Ordering::Relaxed);
        d.store(head[3], Ordering::Relaxed);
        e.store(head[4], Ordering::Relaxed);
        f.store(head[5], Ordering::Relaxed);
        stamp.store(self.scheme.of(self.written), Ordering::Release);
        self.written += slots;
    }

    /// Erases the stamp of a slot at an offset before content that is shorter than a stamp overwrites its beginning:
    /// the rest of the old stamp, with the content before it, could be the stamp of a later position.
    #[inline]
    pub fn clear_stamp(&self, memory: &Shared, slot_at: usize) {
        memory.word(slot_at).store(0, Ordering::Relaxed);
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer<S, const SLOTS: u64, const SLOT_BYTES: usize> {
    layout: Layout,
    scheme: S,
    taken: u64,
}

impl<S, const SLOTS: u64, const SLOT_BYTES: usize> Consumer<S, SLOTS, SLOT_BYTES> {
    /// Makes the reading end of an empty ring.
    pub const fn new(layout: Layout, scheme: S) -> Self {
        Consumer { layout, scheme, taken: 0 }
    }

    /// Returns the number of slots ever taken.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the offset of the next slot.
    #[inline]
    pub fn slot_at(&self) -> usize {
        self.layout.slots_at + (self.taken % SLOTS) as usize * SLOT_BYTES
    }

    /// Returns the number of slots from the next one to the end of the ring's memory.
    #[inline]
    pub fn lap_left(&self) -> u64 {
        SLOTS - self.taken % SLOTS
    }

    /// Takes the next `slots` slots, whose content was copied out or used: the producer may write them again.
    #[inline]
    pub fn take(&mut self, memory: &Shared, slots: u64) {
        self.taken = self.taken.wrapping_add(slots);
        memory.word(self.layout.taken_at).store(self.taken, Ordering::Release);
    }
}

impl<const SLOTS: u64, const SLOT_BYTES: usize> Consumer<Counter, SLOTS, SLOT_BYTES> {
    /// Returns the number of slots to read. Loads the producer's position only if none are left of those that it
    /// published before.
    ///
    /// # Errors
    /// The producer's position is impossible.
    #[inline]
    pub fn available(&mut self, memory: &Shared) -> Result<u64, Broken> {
        if self.taken == self.scheme.seen {
            let written = memory.word(self.scheme.written_at).load(Ordering::Acquire);
            if written.wrapping_sub(self.taken) > SLOTS {
                return Err(Broken);
            }
            self.scheme.seen = written;
        }
        Ok(self.scheme.seen.wrapping_sub(self.taken))
    }
}

impl<const SLOTS: u64, const SLOT_BYTES: usize> Consumer<Stamps, SLOTS, SLOT_BYTES> {
    /// Returns the next slot's stamp.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.scheme.of(self.taken)
    }

    /// Returns whether the next slot is published.
    #[inline]
    pub fn has_slot(&self, memory: &Shared) -> bool {
        memory.word(self.slot_at()).load(Ordering::Acquire) == self.stamp()
    }

    /// Returns the head of the next slot, if that is published.
    #[inline]
    pub fn head(&self, memory: &Shared) -> Option<[u64; HEAD_WORDS]> {
        let [stamp, a, b, c, d, e, f] = memory.words::<{ 1 + HEAD_WORDS }>(self.slot_at());
        let is_there = stamp.load(Ordering::Acquire) == self.stamp();
        is_there.then(|| [a, b, c, d, e, f].map(|word| word.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SLOTS: u64 = 8;
    const LAYOUT: Layout = Layout { slots_at: 256, taken_at: 128 };

    fn counted() -> (Shared, Producer<Counter, SLOTS, 8>, Consumer<Counter, SLOTS, 8>) {
        let memory = Shared::private(4096).unwrap();
        (memory, Producer::new(LAYOUT, Counter::at(0)), Consumer::new(LAYOUT, Counter::at(0)))
    }

    fn stamped() -> (Shared, Producer<Stamps, SLOTS, 64>, Consumer<Stamps, SLOTS, 64>) {
        let (memory, stamps) = (Shared::private(4096).unwrap(), Stamps::between(1, 2));
        (memory, Producer::new(LAYOUT, stamps), Consumer::new(LAYOUT, stamps))
    }

    #[test]
    fn counted_slots_pass_in_order_lap_after_lap() {
        let (memory, mut producer, mut consumer) = counted();
        for round in 0..100 {
            let run = 1 + round % SLOTS;
            for n in 0..run {
                assert_eq!(producer.has_room(&memory, 1), Ok(true));
                memory.word(producer.slot_at()).store(round << 8 | n, Ordering::Relaxed);
                producer.publish(&memory, 1);
            }
            assert_eq!(producer.has_room(&memory, SLOTS - run + 1), Ok(false));
            for n in 0..run {
                assert_eq!(consumer.available(&memory), Ok(run - n));
                assert_eq!(memory.word(consumer.slot_at()).load(Ordering::Relaxed), round << 8 | n);
                assert_eq!(consumer.lap_left(), SLOTS - consumer.taken() % SLOTS);
                consumer.take(&memory, 1);
            }
            assert_eq!((consumer.available(&memory), producer.taken(&memory)), (Ok(0), producer.written()));
        }
    }

    #[test]
    fn a_stamped_slot_is_seen_once_and_only_when_published() {
        let (memory, mut producer, mut consumer) = stamped();
        for n in 0..3 * SLOTS {
            assert!(!consumer.has_slot(&memory) && consumer.head(&memory).is_none());
            assert_eq!(producer.has_room(&memory, 1), Ok(true));
            producer.publish(&memory, 1, [n; HEAD_WORDS]);
            assert!(consumer.has_slot(&memory));
            assert_eq!(consumer.head(&memory), Some([n; HEAD_WORDS]));
            consumer.take(&memory, 1);
        }
        assert_eq!(producer.has_room(&memory, SLOTS), Ok(true));
    }

    #[test]
    fn rings_of_other_processes_have_other_stamps() {
        let keys = [(1, 2), (2, 1), (1, 1), (0, 0)].map(|(from, to)| Stamps::between(from, to).of(0));
        for (n, key) in keys.iter().enumerate() {
            assert!(*key >> 63 == 1 && !keys[..n].contains(key));
        }
    }

    #[test]
    fn an_impossible_position_is_not_believed() {
        let (memory, mut producer, mut consumer) = counted();
        for lie in [u64::MAX, SLOTS + 1, 1 << 40] {
            memory.word(0).store(lie, Ordering::Relaxed);
            assert_eq!(consumer.available(&memory), Err(Broken));
        }
        memory.word(0).store(2, Ordering::Relaxed);
        assert_eq!(consumer.available(&memory), Ok(2), "a possible one is");
        producer.publish(&memory, SLOTS);
        for lie in [SLOTS + 1, u64::MAX] {
            memory.word(LAYOUT.taken_at).store(lie, Ordering::Relaxed);
            assert_eq!(producer.has_room(&memory, 1), Err(Broken));
        }
        memory.word(LAYOUT.taken_at).store(3, Ordering::Relaxed);
        assert_eq!((producer.has_room(&memory, 3), producer.has_room(&memory, 4)), (Ok(true), Ok(false)));
        memory.word(LAYOUT.taken_at).store(2, Ordering::Relaxed);
        assert_eq!(producer.has_room(&memory, 4), Err(Broken), "it moved back");
    }
}
