//! A direction of a port's memory: a counted ring ([`weft_shm::ring`]) with a datagram in each slot, and the end that
//! fills it.

use std::sync::Arc;
use weft_sys::sync::{AtomicU64, Ordering};

use weft_shm::{Counter, Layout, Producer};
use weft_sys::processors;
use weft_sys::shared::Shared;
use zerocopy::IntoBytes;

use super::slot::{Slot, UMAD_RING_MAD_BYTES, UMAD_RING_SLOTS, UMAD_SLOT_BYTES};
use crate::umad::{UMAD_HEAD_BYTES, UmadHead};

const SLOT_WORDS: usize = UMAD_SLOT_BYTES / 8;

/// Offsets of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub written_at: usize,
    pub taken_at: usize,
    pub slots_at: usize,
}

impl Direction {
    pub const fn layout(self) -> Layout {
        Layout { slots_at: self.slots_at, taken_at: self.taken_at }
    }

    /// Copies the slot with a number out.
    pub fn load(&self, memory: &Shared, number: u64, out: &mut Slot) {
        load(memory, self.slots_at + (number % UMAD_RING_SLOTS) as usize * UMAD_SLOT_BYTES, out);
    }
}

/// Copies a slot at an offset out.
pub(super) fn load(memory: &Shared, slot_at: usize, out: &mut Slot) {
    for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(memory.words::<SLOT_WORDS>(slot_at)) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Returns whether anything lies between these positions. A ring with impossible positions is empty.
pub(super) fn holds_some(taken: u64, written: u64) -> bool {
    (1..=UMAD_RING_SLOTS).contains(&written.wrapping_sub(taken))
}

/// The end that fills a ring.
#[derive(Debug)]
pub(super) struct Writer {
    pub memory: Arc<Shared>,
    ring: Producer<Counter, UMAD_RING_SLOTS, UMAD_SLOT_BYTES>,
}

impl Writer {
    pub fn new(memory: Arc<Shared>, direction: Direction) -> Writer {
        Writer { memory, ring: Producer::new(direction.layout(), Counter::at(direction.written_at)) }
    }

    /// Returns the number of datagrams ever put into the ring.
    pub fn written(&self) -> u64 {
        self.ring.written()
    }

    /// Puts a datagram into the ring; returns false if it is full. `taken` reads how many the other end has taken.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES], taken: impl Fn(&Shared) -> u64) -> bool {
        if self.ring.has_room_with(1, || taken(&self.memory)) != Ok(true) {
            return false;
        }
        let slot = self.memory.words::<SLOT_WORDS>(self.ring.slot_at());
        let (head_words, mad_words) = slot.split_at(UMAD_HEAD_BYTES / 8);
        store(head_words, head.as_bytes());
        store(mad_words, mad);
        self.ring.publish(&self.memory, 1);
        // The other end read that slot a lap ago, so its lines are in another cache.
        self.memory.expect_write(self.ring.slot_at(), UMAD_SLOT_BYTES);
        true
    }
}

fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

/// Changes a word if it has this value.
pub(super) fn change(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Returns the processor's number plus one for a word, or 0 if it is unknown.
pub(super) fn processor_here() -> u64 {
    if cfg!(loom) {
        // A model's runs must not differ by where it runs.
        return 1;
    }
    processors::current().map_or(0, |number| number as u64 + 1)
}
