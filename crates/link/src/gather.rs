//! Access to the pieces of a packet's payload in place. On the send path, only this module dereferences addresses that
//! the program registered.
//!
//! Registered memory belongs to the program, which may write to it while the link reads: the packet then holds some
//! mixture, as with a hardware adapter. A packet that the transport marks `copy_before_send` is one copy, with the ICRC
//! of that copy. In other packets the ICRC may be wrong; the peer treats such a packet as damaged, and its
//! retransmission is marked `copy_before_send`. A program that unmaps registered memory and still sends from it gets
//! the signal that touching that memory raises: there are no pinned pages as a fallback.

use std::ops::Range;

use weft_transport::{Piece, TxBatch, TxPacket};

/// Addresses of the null region, which reads as zeros: in the half of the address space that no program can use, so
/// that nothing needs to be mapped there. Long enough for the longest message.
pub const NULL_MEMORY: Range<u64> = 1 << 63..(1 << 63) + weft_verbs::MSG_SIZE_MAX as u64;

/// Source of the null region's pieces.
static ZEROS: [u8; 4096] = [0; 4096];

/// Calls `each` with every piece of a packet's payload, in order.
#[inline]
pub fn each_piece(batch: &TxBatch, packet: &TxPacket, mut each: impl FnMut(&[u8], Option<u64>)) {
    let pieces = batch.pieces.get(packet.pieces.start as usize..packet.pieces.end as usize).unwrap_or_default();
    for piece in pieces {
        match *piece {
            Piece::Host { addr, len } if NULL_MEMORY.contains(&addr) => {
                let mut left = len as usize;
                while left > 0 {
                    let bytes = &ZEROS[..left.min(ZEROS.len())];
                    each(bytes, Some(bytes.as_ptr().expose_provenance() as u64));
                    left -= bytes.len();
                }
            }
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

/// Returns the BTH and extended headers of a packet.
#[inline]
pub fn header<'a>(batch: &'a TxBatch, packet: &TxPacket) -> &'a [u8] {
    batch.arena.get(packet.header.start as usize..packet.header.end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_region_is_sent_as_zeros() {
        let mut batch = TxBatch::default();
        let av = crate::testing::av(weft_verbs::Gid::ZERO, weft_verbs::Gid::ZERO);
        batch.begin(av, 1, 1, &[1; 12]);
        batch.piece(NULL_MEMORY.start + 5, 5000);
        let mut sum = 0;
        each_piece(&batch, &batch.packets[0], |bytes, _| {
            assert!(bytes.iter().all(|b| *b == 0));
            sum += bytes.len();
        });
        assert_eq!(sum, 5000);
    }
}
