//! Ring of InfiniBand packets: a counted ring ([`weft_shm::ring`]) of bytes, which holds records.
//!
//! ```text
//! | head | packet, padded to 8 bytes | head | packet … | SKIP: continue at the beginning
//! head:  length, port, and in the direction of a process the slot of the process that sent the packet
//! ```
//!
//! The other process can change any word at any moment: positions and lengths are checked against the ring, and packets
//! are copied out before they are parsed. An end that breaks the rules of its own words is not read any more.

use std::sync::Arc;

use weft_shm::{Broken, Consumer, Counter, Layout, Producer};
use weft_sys::shared::Shared;
use weft_sys::sync::Ordering;
use weft_verbs::QPN_INDEX_BITS;
use weft_wire::link_packet::LINK_PACKET_MAX;

/// Bytes of a record's head.
const HEAD: usize = 8;
/// In place of a length: the next record is at the ring's beginning.
pub(super) const SKIP: u32 = LENGTH_MASK;
/// Number of bits of a length; those above are the sender's slot, the port's number, and the device.
const LENGTH_BITS: u32 = 14;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const PORT_AT: u32 = 24;
const SLOT_MASK: u32 = (1 << (PORT_AT - LENGTH_BITS)) - 1;
const _: () = assert!(LINK_PACKET_MAX < LENGTH_MASK as usize && PORT_AT - LENGTH_BITS >= 24 - QPN_INDEX_BITS);

/// A port of a process: its device, and its number on the device.
pub type PortName = (u32, u8);

/// A port, and the slot of the process that sent a packet to it. The slot is unused in the direction of the switches,
/// which know the process of their channel.
pub(super) type Label = (PortName, u32);

/// Offsets of one direction, of which the words of different writers are in cache lines of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub written_at: usize,
    pub taken_at: usize,
    pub ring_at: usize,
}

impl Direction {
    fn layout(self) -> Layout {
        Layout { slots_at: self.ring_at, taken_at: self.taken_at }
    }
}

/// Returns the bytes that a packet takes in a ring.
const fn record(len: usize) -> u64 {
    (HEAD + len.next_multiple_of(8)) as u64
}

/// The writing end of a ring of `BYTES` bytes.
#[derive(Debug)]
pub(super) struct Writer<const BYTES: u64> {
    pub memory: Arc<Shared>,
    ring: Producer<Counter, BYTES, 1>,
}

impl<const BYTES: u64> Writer<BYTES> {
    pub fn new(memory: Arc<Shared>, direction: Direction) -> Writer<BYTES> {
        Writer { memory, ring: Producer::new(direction.layout(), Counter::at(direction.written_at)) }
    }

    /// Puts a packet into the ring; returns `false` if there is no room. A receiver that claims more than was written
    /// gets none.
    pub fn push(&mut self, label: Label, packet: &[u8]) -> bool {
        let (need, lap_left) = (record(packet.len()), self.ring.lap_left());
        // A packet is contiguous.
        let skipped = if lap_left < need { lap_left } else { 0 };
        if packet.len() > LINK_PACKET_MAX || self.ring.has_room(&self.memory, skipped + need) != Ok(true) {
            return false;
        }
        let at = self.ring.slot_at();
        let at = if skipped > 0 {
            self.head(at, SKIP, ((0, 0), 0));
            at + skipped as usize - BYTES as usize
        } else {
            at
        };
        self.head(at, packet.len() as u32, label);
        self.memory.write(at + HEAD, packet.len(), |to| {
            // SAFETY: the target is within the ring, which nothing borrows; the source is borrowed and elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len()) };
        });
        self.ring.publish(&self.memory, skipped + need);
        true
    }

    fn head(&self, at: usize, len: u32, ((device, port), slot): Label) {
        let low = u32::from(port) << PORT_AT | (slot & SLOT_MASK) << LENGTH_BITS | len;
        let word = u64::from(device) << 32 | u64::from(low);
        self.memory.word(at).store(word, Ordering::Relaxed);
    }

    /// Returns whether the other end has taken everything.
    pub fn is_taken(&self) -> bool {
        self.ring.taken(&self.memory) == self.ring.written()
    }
}

/// The reading end of a ring of `BYTES` bytes.
#[derive(Debug)]
pub(super) struct Reader<const BYTES: u64> {
    pub memory: Arc<Shared>,
    ring: Consumer<Counter, BYTES, 1>,
}

impl<const BYTES: u64> Reader<BYTES> {
    pub fn new(memory: Arc<Shared>, direction: Direction) -> Reader<BYTES> {
        Reader { memory, ring: Consumer::new(direction.layout(), Counter::at(direction.written_at)) }
    }

    /// Returns whether there is something to read, if only words that break the rules.
    #[inline]
    pub fn has_some(&mut self) -> bool {
        self.ring.available(&self.memory) != Ok(0)
    }

    /// Copies the next packet into `out`; returns its destination or source port, and its sender.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> Result<Option<Label>, Broken> {
        let there = self.ring.available(&self.memory)?;
        if there == 0 {
            return Ok(None);
        }
        if !there.is_multiple_of(8) {
            return Err(Broken);
        }
        let (at, lap_left) = (self.ring.slot_at(), self.ring.lap_left());
        let (len, label) = self.head(at);
        let (skipped, at, room, len, label) = match len {
            SKIP if lap_left < BYTES => {
                if there < lap_left + HEAD as u64 {
                    return Err(Broken);
                }
                let first = at + lap_left as usize - BYTES as usize;
                let (len, label) = self.head(first);
                (lap_left, first, BYTES, len, label)
            }
            len => (0, at, lap_left, len, label),
        };
        let len = len as usize;
        let need = record(len.min(LINK_PACKET_MAX));
        if len > LINK_PACKET_MAX || there < skipped + need || room < need {
            return Err(Broken);
        }
        out.clear();
        out.reserve(len);
        // SAFETY: the source is within the ring; the target has room for so many bytes, and is ours alone. Bytes that
        // change meanwhile are still valid bytes.
        self.memory.read(at + HEAD, len, |from| unsafe {
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), len);
            out.set_len(len);
        });
        self.ring.take(&self.memory, skipped + need);
        Ok(Some(label))
    }

    fn head(&self, at: usize) -> (u32, Label) {
        let word = self.memory.word(at).load(Ordering::Relaxed);
        let low = word as u32;
        (low & LENGTH_MASK, (((word >> 32) as u32, (low >> PORT_AT) as u8), low >> LENGTH_BITS & SLOT_MASK))
    }
}
