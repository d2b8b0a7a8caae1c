//! Requests that arrived behind a gap. Go-back-N lets a responder drop them; keeping them means that one lost packet
//! costs one packet. The room is bounded, made when the first gap shows, and given back when the last one closes.

use std::collections::BTreeMap;

use weft_wire::{Bth, Headers, OpcodeInfo, Packet};

/// Packets kept for one queue pair.
const PACKETS_MAX: usize = 1024;
/// Payload bytes kept for one queue pair.
const BYTES_MAX: usize = 1 << 20;

/// A packet that waits.
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

/// What became of a packet behind a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// It is kept.
    Stored,
    /// It was kept already.
    Again,
    /// There is no room; it will have to be sent again.
    Full,
}

/// The packets behind gaps, by PSN counted without wrapping.
#[derive(Debug, Default)]
pub(crate) struct Reorder {
    packets: BTreeMap<u64, Stored>,
    bytes: usize,
}

impl Reorder {
    pub fn insert(&mut self, psn: u64, packet: &Packet<'_>) -> Kept {
        if self.packets.contains_key(&psn) {
            return Kept::Again;
        }
        let len = packet.payload.len();
        if self.packets.len() >= PACKETS_MAX || self.bytes + len > BYTES_MAX {
            return Kept::Full;
        }
        self.bytes += len;
        let stored = Stored { bth: packet.bth, info: packet.info, ext: packet.ext, payload: packet.payload.into() };
        self.packets.insert(psn, stored);
        Kept::Stored
    }

    /// Take the packet `psn`, if it is the next; packets before it are forgotten.
    pub fn take(&mut self, psn: u64) -> Option<Stored> {
        loop {
            let entry = self.packets.first_entry()?;
            if *entry.key() > psn {
                return None;
            }
            let found = *entry.key() == psn;
            let stored = entry.remove();
            self.bytes -= stored.payload.len();
            if found {
                return Some(stored);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
