//! Requests that arrived behind a gap. Go-back-N lets a responder drop them; if it keeps them, one lost packet costs
//! one packet. The memory is limited, for each queue pair and for all of them together, allocated when the first gap
//! appears, and freed when the last one closes.

use std::collections::BTreeMap;

use weft_wire::{Bth, Headers, OpcodeInfo, Packet};

use crate::Budget;

/// Packets kept for one queue pair.
const PACKETS_MAX: usize = 1024;
/// Payload bytes kept for one queue pair.
const BYTES_MAX: usize = 1 << 20;
/// Bytes of the common budget that a packet takes beside its payload.
const PACKET_BYTES: usize = 2 * size_of::<Stored>();

/// A kept packet.
#[derive(Debug)]
pub(crate) struct Stored {
    bth: Bth,
    info: &'static OpcodeInfo,
    ext: Headers,
    payload: Box<[u8]>,
}

impl Stored {
    pub fn packet(&self) -> Packet<'_> {
        Packet { bth: self.bth, info: self.info, ext: self.ext, payload: &self.payload }
    }
}

/// Result for a packet behind a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// It is kept.
    Stored,
    /// It was kept already.
    Again,
    /// There is no room; the requester must retransmit it.
    Full,
}

/// The packets behind gaps, by PSN counted without wrapping.
#[derive(Debug)]
pub(crate) struct Reorder {
    packets: BTreeMap<u64, Stored>,
    bytes: usize,
    budget: Budget,
}

impl Reorder {
    /// Creates an empty buffer that takes its memory from the budget.
    pub fn new(budget: &Budget) -> Reorder {
        Reorder { packets: BTreeMap::new(), bytes: 0, budget: budget.clone() }
    }

    pub fn insert(&mut self, psn: u64, packet: &Packet<'_>) -> Kept {
        if self.packets.contains_key(&psn) {
            return Kept::Again;
        }
        let len = packet.payload.len();
        if self.packets.len() >= PACKETS_MAX || self.bytes + len > BYTES_MAX || !self.budget.take(PACKET_BYTES + len) {
            return Kept::Full;
        }
        self.bytes += len;
        let stored = Stored { bth: packet.bth, info: packet.info, ext: packet.ext, payload: packet.payload.into() };
        self.packets.insert(psn, stored);
        Kept::Stored
    }

    /// Takes the packet `psn`, if it is the next; packets before it are dropped.
    pub fn take(&mut self, psn: u64) -> Option<Stored> {
        loop {
            let entry = self.packets.first_entry()?;
            if *entry.key() > psn {
                return None;
            }
            let found = *entry.key() == psn;
            let stored = entry.remove();
            self.bytes -= stored.payload.len();
            self.budget.give(PACKET_BYTES + stored.payload.len());
            if found {
                return Some(stored);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

impl Drop for Reorder {
    fn drop(&mut self) {
        self.budget.give(self.packets.len() * PACKET_BYTES + self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::DEFAULT_PKEY;
    use weft_wire::packet::HeaderBuf;
    use weft_wire::{Kind, Opcode, Psn, Service};

    fn bytes(len: usize) -> Vec<u8> {
        let opcode = Opcode::of(Service::Rc, Kind::SendMiddle).unwrap();
        let head = HeaderBuf::write(Bth::new(opcode, DEFAULT_PKEY, 7, Psn::new(1)), &Headers::default(), len);
        [head.as_slice(), &vec![1; len], &[0; 4]].concat()
    }

    #[test]
    fn all_queue_pairs_together_are_bounded() {
        let bytes = bytes(1024);
        let packet = Packet::parse(&bytes).unwrap();
        let budget = Budget::new(10 * (1024 + PACKET_BYTES));
        let mut queue_pairs: Vec<Reorder> = (0..4).map(|_| Reorder::new(&budget)).collect();
        let kept = |reorder: &mut Reorder, psn| reorder.insert(psn, &packet);
        for psn in 0..5 {
            assert_eq!(kept(&mut queue_pairs[0], psn), Kept::Stored);
            assert_eq!(kept(&mut queue_pairs[1], psn), Kept::Stored);
        }
        assert_eq!(kept(&mut queue_pairs[2], 0), Kept::Full);
        assert_eq!(kept(&mut queue_pairs[0], 4), Kept::Again);
        assert!(queue_pairs[0].take(0).is_some());
        assert_eq!(kept(&mut queue_pairs[2], 0), Kept::Stored);
        assert_eq!(kept(&mut queue_pairs[3], 0), Kept::Full);
        // Earlier packets are dropped, and a dropped queue pair frees its packets.
        assert!(queue_pairs[1].take(3).is_some());
        queue_pairs.clear();
        assert_eq!(budget.left(), 10 * (1024 + PACKET_BYTES));
    }
}
