//! The bytes of a packet's payload pieces, where they stand. This is the one place where the link follows an address
//! that a program registered.
//!
//! Registered memory belongs to the program, which may write to it while we read (verbs forbid it, programs do it): the
//! bytes sent are then some mixture and the ICRC may be wrong, which the peer takes for a damaged packet. A program that
//! unmaps registered memory and still sends from it gets the signal that touching that memory raises: there are no
//! pinned pages to fall back on.

use weft_transport::{Piece, TxBatch, TxPacket};

/// Calls `each` with every piece of a packet's payload, in order.
#[inline]
pub fn each_piece(batch: &TxBatch, packet: &TxPacket, mut each: impl FnMut(&[u8], Option<u64>)) {
    let pieces = batch.pieces.get(packet.pieces.start as usize..packet.pieces.end as usize).unwrap_or_default();
    for piece in pieces {
        match *piece {
            Piece::Host { addr, len } => {
                // SAFETY: the transport got the address from the adapter's check of a registered region, whose owner
                // promised the range; it is mapped (checked at registration) unless the program broke its word. Only
                // plain reads are made; see the module's words about concurrent writers.
                let bytes = unsafe {
                    std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(addr as usize), len as usize)
                };
                each(bytes, Some(addr));
            }
            Piece::Arena { start, len } => {
                let start = start as usize;
                each(batch.arena.get(start..start + len as usize).unwrap_or_default(), None);
            }
        }
    }
}

/// BTH and extended headers of a packet.
#[inline]
pub fn header<'a>(batch: &'a TxBatch, packet: &TxPacket) -> &'a [u8] {
    batch.arena.get(packet.header.start as usize..packet.header.end as usize).unwrap_or_default()
}
