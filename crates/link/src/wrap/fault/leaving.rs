//! Packets about to leave, as faults see them. The ICRC does not exist yet, and covers fields that the sender's sockets
//! choose: a damaged packet leaves with a changed bit in its ICRC, which no receiver can tell from one elsewhere.

use weft_transport::{TxBatch, TxPacket};

use super::held::{CONGESTION_EXPERIENCED, Kept};
use super::scope::Flow;
use crate::gather::{each_piece, header};
use crate::seal;

/// A packet of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The batch.
    pub batch: &'a TxBatch,
    /// The packet.
    pub packet: &'a TxPacket,
}

/// A copy of a packet, with the payload that its memory held when the program's request was due.
#[derive(Debug)]
pub struct LeavingCopy {
    /// Its header and payload.
    own: TxBatch,
    packet: TxPacket,
}

impl Kept for LeavingCopy {
    type View<'a> = Leaving<'a>;

    fn of(from: &Leaving<'_>) -> LeavingCopy {
        let (header, payload) = (header(from.batch, from.packet), from.packet.payload_len as usize);
        let mut own = TxBatch::default();
        own.arena.reserve_exact(header.len() + payload);
        own.begin_as(from.packet, header);
        each_piece(from.batch, from.packet, |bytes, _| own.bytes(bytes));
        let packet = std::mem::take(&mut own.packets).pop().unwrap_or_else(|| from.packet.clone());
        LeavingCopy { own, packet }
    }

    fn view(&self) -> Leaving<'_> {
        Leaving { batch: &self.own, packet: &self.packet }
    }

    fn flip(&mut self, bit: u64) -> bool {
        self.packet.icrc_damage ^= 1 << (bit % 32);
        true
    }

    fn mark(&mut self) {
        self.packet.av.traffic_class |= CONGESTION_EXPERIENCED;
    }

    fn flow(from: &Leaving<'_>) -> Flow {
        let av = &from.packet.av;
        Flow { peer: av.dgid.ip(), local: av.sgid.ip(), qpn: Some(from.packet.src_qpn) }
    }

    fn bytes<'p>(from: &'p Leaving<'_>) -> &'p [u8] {
        header(from.batch, from.packet)
    }

    fn len(from: &Leaving<'_>) -> usize {
        seal::sealed_len(from.packet)
    }
}

/// Packets that leave now, in order. Their memory is kept for the next ones.
#[derive(Debug, Default)]
pub struct Batches {
    /// The last one in use is not full.
    batches: Vec<TxBatch>,
    used: usize,
}

impl Batches {
    /// Adds a packet. Its payload stays in its place if it is registered memory.
    pub fn push(&mut self, from: &Leaving<'_>) {
        if self.used == 0 || self.batches.get(self.used - 1).is_some_and(|batch| !batch.has_room()) {
            self.used += 1;
        }
        if self.batches.len() < self.used {
            self.batches.push(TxBatch::default());
        }
        let Some(batch) = self.batches.get_mut(self.used - 1) else { return };
        batch.begin_as(from.packet, header(from.batch, from.packet));
        each_piece(from.batch, from.packet, |bytes, host| match host {
            Some(addr) => batch.piece(addr, bytes.len() as u32),
            None => batch.bytes(bytes),
        });
    }

    /// Returns the batches to send.
    pub fn iter(&self) -> impl Iterator<Item = &TxBatch> {
        self.batches.iter().take(self.used)
    }

    /// Forgets the packets, and keeps the memory of one batch.
    pub fn clear(&mut self) {
        self.batches.truncate(1);
        self.batches.iter_mut().for_each(TxBatch::clear);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
