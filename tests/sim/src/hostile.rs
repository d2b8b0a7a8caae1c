//! A hostile peer: packets with random and with mutated headers, with a correct ICRC so that nothing stops them before
//! the queue pairs.

use weft_wire::Opcode;

use crate::net::Datagram;
use crate::rng::Rng;
use crate::world::{World, seal};

/// Longest payload of a made-up packet.
const PAYLOAD_MAX: u64 = 5000;

/// Makes up a packet for a queue pair.
pub fn invent(rng: &mut Rng, from: &Datagram, qpns: &[u32]) -> Datagram {
    let opcode = if rng.chance(9, 10) {
        let all: Vec<u8> = Opcode::all().map(|info| info.opcode.0).collect();
        rng.pick(&all)
    } else {
        rng.bits() as u8
    };
    let mut bytes = vec![opcode, 0x40 | (rng.bits() as u8 & 0xb0), 0xff, 0xff, 0];
    bytes.extend_from_slice(&rng.pick(qpns).to_be_bytes()[1..]);
    let psn = rng.bits() as u32;
    bytes.extend_from_slice(&psn.to_be_bytes());
    let header = Opcode(opcode).info().map_or(0, |info| info.header_len.saturating_sub(12));
    let len = header as u64 + if rng.chance(1, 3) { 0 } else { rng.below(PAYLOAD_MAX) };
    bytes.extend((0..len).map(|_| rng.bits() as u8));
    bytes.extend([0; 4]);
    Datagram { bytes, ..from.clone() }
}

/// Changes some bytes of a genuine packet, mostly in its headers.
pub fn mutate(rng: &mut Rng, from: &Datagram) -> Datagram {
    let mut datagram = from.clone();
    for _ in 0..rng.range(1, 4) {
        let len = datagram.bytes.len() as u64;
        match rng.below(8) {
            0 => datagram.bytes[0] = rng.bits() as u8,
            1 => {
                // A PSN near the genuine one: those in the window are the interesting ones.
                let psn = u32::from_be_bytes([0, datagram.bytes[9], datagram.bytes[10], datagram.bytes[11]]);
                let near = psn.wrapping_add(rng.below(64) as u32).wrapping_sub(32);
                datagram.bytes[9..12].copy_from_slice(&near.to_be_bytes()[1..]);
            }
            2 => {
                let cut = rng.range(16, len) as usize;
                datagram.bytes.truncate(cut);
            }
            3 => {
                let more = rng.below(2000) as usize;
                datagram.bytes.resize(len as usize + more, 0x77);
            }
            4 => datagram.bytes[1] ^= 0x30,
            _ => {
                let at = rng.below(len.min(40)) as usize;
                // Keep the destination, so that the packet hits the queue pair.
                if !(4..8).contains(&at) {
                    datagram.bytes[at] = rng.bits() as u8;
                }
            }
        }
    }
    datagram
}

/// Delivers a hostile packet.
pub fn inject(world: &mut World, mut datagram: Datagram) {
    if datagram.bytes.len() < 16 {
        return;
    }
    let (src, dst) = (datagram.src, datagram.dst);
    seal(src, dst, &mut datagram.bytes);
    world.arrive(&datagram);
    world.flush();
}
