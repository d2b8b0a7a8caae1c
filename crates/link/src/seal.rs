//! Sealing: padding and ICRC of an outgoing packet, either in one piece (short packets, packets marked
//! `copy_before_send`, captures) or as a gather list (the payload stays in place).

use weft_sys::udp::Outbox;
use weft_transport::{TxBatch, TxPacket};
use weft_wire::icrc::{self, Flow, Icrc};
use weft_wire::packet::{ICRC_LEN, pad_for};

use crate::gather::{each_piece, header};

/// Payloads up to this length are copied next to their headers: one piece for the kernel instead of three, and a CRC
/// over one stretch of cached bytes.
pub const COPY_BYTES_MAX: usize = 512;

/// Whether the payload is copied. If it stays in place, the ICRC covers its contents now, and the kernel sends its
/// contents a little later.
#[inline]
fn is_copied(packet: &TxPacket) -> bool {
    packet.copy_before_send || packet.payload_len as usize <= COPY_BYTES_MAX
}

/// Returns the number of bytes from BTH to ICRC.
#[inline]
pub fn sealed_len(packet: &TxPacket) -> usize {
    let payload = packet.payload_len as usize;
    packet.header.len() + payload + pad_for(payload) + ICRC_LEN
}

/// Returns the maximum number of pieces in the packet's gather list.
#[inline]
pub fn pieces_max(packet: &TxPacket) -> usize {
    packet.pieces.len() + 2
}

/// Returns the maximum number of the outbox's own bytes that the packet takes.
#[inline]
pub fn stage_max(batch: &TxBatch, packet: &TxPacket) -> usize {
    if is_copied(packet) {
        return sealed_len(packet);
    }
    let mut len = packet.header.len() + 3 + ICRC_LEN;
    each_piece(batch, packet, |bytes, host| {
        len += if host.is_none() { bytes.len() } else { 0 };
    });
    len
}

/// Appends the packet to the message under construction.
#[inline]
pub fn put(out: &mut Outbox, batch: &TxBatch, packet: &TxPacket, seed: u32) {
    if is_copied(packet) {
        copy_into(out.stage(sealed_len(packet)), batch, packet, seed);
        return;
    }
    let head = header(batch, packet);
    out.stage(head.len()).copy_from_slice(head);
    let mut crc = Icrc::begin(seed, head);
    each_piece(batch, packet, |bytes, host| {
        crc.update(bytes);
        match host {
            Some(addr) => out.host(addr, bytes.len()),
            None => out.stage(bytes.len()).copy_from_slice(bytes),
        }
    });
    let pad = pad_for(packet.payload_len as usize);
    let tail = out.stage(pad + ICRC_LEN);
    tail[..pad].fill(0);
    crc.update(&tail[..pad]);
    tail[pad..].copy_from_slice(&(crc.finish() ^ packet.icrc_damage).to_le_bytes());
}

/// Writes the packet, BTH to ICRC, into `room`, which is [`sealed_len`] long.
pub fn copy_into(room: &mut [u8], batch: &TxBatch, packet: &TxPacket, seed: u32) {
    let head = header(batch, packet);
    room[..head.len()].copy_from_slice(head);
    let mut at = head.len();
    each_piece(batch, packet, |bytes, _| {
        room[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    });
    let end = room.len() - ICRC_LEN;
    room[at..end].fill(0);
    let crc =
        if packet.flush_for_rxe { icrc::of_flush_by_rxe(seed, room) } else { Icrc::begin(seed, &room[..end]).finish() };
    room[end..].copy_from_slice(&(crc ^ packet.icrc_damage).to_le_bytes());
}

/// Number of lengths per flow whose seeds are kept: full packets, and short ones of several kinds.
const LENGTHS_KEPT: usize = 4;

/// Seeds of one flow: the CRC over the headers beneath the BTH, which depends on the length and, on IPv4, on the
/// identification. The last used lengths keep theirs.
#[derive(Clone, Debug)]
pub struct Seeds {
    flow: Flow,
    /// Length, and seed for identification 0.
    kept: [(u32, u32); LENGTHS_KEPT],
}

impl Seeds {
    /// Makes seeds of a flow, with none kept yet.
    pub fn new(flow: Flow) -> Seeds {
        Seeds { flow, kept: [(0, 0); LENGTHS_KEPT] }
    }

    /// Returns the flow.
    #[inline]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns the seed of a packet of `len` bytes from BTH to ICRC with this identification.
    #[inline]
    pub fn seed(&mut self, len: usize, ip_id: u16) -> u32 {
        // Lengths are multiples of four.
        let kept = &mut self.kept[len / 4 % LENGTHS_KEPT];
        if kept.0 != len as u32 {
            *kept = (len as u32, self.flow.seed(len, 0));
        }
        self.flow.with_ip_id(kept.1, ip_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use weft_verbs::{AddressVector, Gid};
    use weft_wire::packet::HeaderBuf;
    use weft_wire::{Bth, Headers, Opcode, Psn, icrc};

    fn av() -> AddressVector {
        crate::testing::av(Gid::ZERO, Gid::ZERO)
    }

    #[test]
    fn the_crc_over_scattered_pieces_is_the_crc_over_the_whole() {
        let memory: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
        let flow = Flow::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2), sport: 50_000 };
        let mut seeds = Seeds::new(flow);
        for payload in [0usize, 1, 2, 3, 4, 100, 511, 512, 513, 1001, 4096] {
            let mut batch = TxBatch::default();
            let bth = Bth::new(Opcode(4), 0xffff, 0x12_3456, Psn::new(7));
            let head = HeaderBuf::write(bth, &Headers::default(), payload);
            batch.begin(av(), 0x12_3456, 1, head.as_slice());
            let cut = payload / 3;
            batch.piece(memory.as_ptr() as u64, cut as u32);
            batch.piece(memory[cut..].as_ptr() as u64, (payload - cut) as u32);
            let packet = &batch.packets[0];
            let len = sealed_len(packet);
            let mut whole = vec![0; len];
            copy_into(&mut whole, &batch, packet, seeds.seed(len, 3));
            assert_eq!(icrc::verify(&flow, &whole, 0), Some(3));
            assert_eq!(weft_wire::Packet::parse(&whole).unwrap().payload, &memory[..payload]);

            // The gather list, sent over loopback, gives the same bytes.
            use weft_sys::{roce_port::Family, udp};
            let (tx, _) = udp::sender(Family::V4, len as u32).unwrap();
            let (rx, port) = udp::sender(Family::V4, len as u32).unwrap();
            weft_sys::sockopt::set_int(&rx, 0, 8, 1).unwrap();
            let mut out = Outbox::new();
            put(&mut out, &batch, packet, seeds.seed(len, 3));
            let path = udp::Path {
                src: Ipv4Addr::LOCALHOST.into(),
                dst: Ipv4Addr::LOCALHOST.into(),
                port,
                ifindex: 0,
                traffic_class: 0,
                hop_limit: 64,
            };
            out.end(&path, 0);
            assert!(out.hand_over(&tx).error.is_none());
            let mut inbox = udp::Inbox::new(1);
            assert_eq!(inbox.receive(&rx, 1).unwrap(), 1);
            assert_eq!(inbox.message(0).unwrap().bytes, whole);
        }
    }

    #[test]
    fn a_program_may_write_to_what_is_unsteady() {
        use weft_sys::{roce_port::Family, udp};
        let flow = Flow::V4 { src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST, sport: 50_000 };
        let (tx, _) = udp::sender(Family::V4, 4200).unwrap();
        let (rx, port) = udp::sender(Family::V4, 4200).unwrap();
        weft_sys::sockopt::set_int(&rx, 0, 8, 1).unwrap();
        let src = Ipv4Addr::LOCALHOST.into();
        let path = udp::Path { src, dst: src, port, ifindex: 0, traffic_class: 0, hop_limit: 64 };
        for copy_before_send in [false, true] {
            let mut memory = vec![7u8; 4096];
            let at = (&raw mut memory[0]).expose_provenance();
            let mut batch = TxBatch::default();
            let head = HeaderBuf::write(Bth::new(Opcode(4), 0xffff, 0x12_3456, Psn::new(7)), &Headers::default(), 4096);
            batch.begin(av(), 0x12_3456, 1, head.as_slice());
            batch.piece(at as u64, 4096);
            if copy_before_send {
                batch.copy_before_send();
            }
            let mut out = Outbox::new();
            let seed = Seeds::new(flow).seed(sealed_len(&batch.packets[0]), 0);
            put(&mut out, &batch, &batch.packets[0], seed);
            memory[1000] = 8;
            out.end(&path, 0);
            assert!(out.hand_over(&tx).error.is_none());
            let mut inbox = udp::Inbox::new(1);
            assert_eq!(inbox.receive(&rx, 1).unwrap(), 1);
            let holds = icrc::verify(&flow, inbox.message(0).unwrap().bytes, 0).is_some();
            assert_eq!(holds, copy_before_send, "what stays in its place is sent as it is when the kernel reads it");
        }
    }
}
