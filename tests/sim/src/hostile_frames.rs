//! A hostile process: puts frames with random and with mutated fields into the rings to honest processes.

use weft_transport::frame::{FRAME_BYTES_MAX, Frame, FrameFlags, FrameKind};

use crate::machine::Held;
use crate::rng::Rng;

/// Frame kinds are numbered from one to this.
const KINDS: u64 = 14;

fn kind(rng: &mut Rng) -> FrameKind {
    FrameKind::from_number(rng.range(1, KINDS) as u8).expect("a kind")
}

fn payload(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(4) {
        0 => 0,
        1 => rng.range(1, 64),
        2 => rng.range(1, u64::from(FRAME_BYTES_MAX)),
        _ => rng.pick(&[8, 16, 32, u64::from(FRAME_BYTES_MAX)]),
    };
    (0..len).map(|_| rng.bits() as u8).collect()
}

/// Makes up a frame for a queue pair, sometimes with valid keys and addresses.
pub fn invent(rng: &mut Rng, qpns: &[u32], keys: &[u32], addrs: &[u64]) -> Held {
    let mut frame = Frame::new(kind(rng), rng.pick(qpns), rng.pick(qpns));
    frame.flags = FrameFlags::from_bits_truncate(rng.bits() as u8);
    frame.epoch = rng.below(3) as u8;
    frame.code = rng.bits() as u8;
    frame.seq = rng.pick(&[0, 1, 2, 7, u32::MAX, 1 << 31]).wrapping_add(rng.below(8) as u32);
    frame.ack = rng.pick(&[0, 1, 2, 7, u32::MAX, 1 << 31]).wrapping_add(rng.below(8) as u32);
    frame.imm = rng.bits() as u32;
    frame.total = rng.pick(&[0, 1, 64, FRAME_BYTES_MAX, 1 << 31, u32::MAX]);
    frame.key = if rng.chance(1, 2) { rng.pick(keys) } else { rng.bits() as u32 };
    frame.addr = if rng.chance(1, 2) { rng.pick(addrs) } else { rng.bits() };
    frame.srqn = rng.below(4) as u32;
    Held { frame, payload: payload(rng) }
}

/// Changes one or more fields of a genuine frame.
pub fn mutate(rng: &mut Rng, of: &Held) -> Held {
    let Held { mut frame, payload: mut bytes } = of.clone();
    for _ in 0..rng.range(1, 3) {
        let near = rng.below(64) as u32;
        match rng.below(12) {
            0 => frame.kind = kind(rng),
            1 => frame.flags.toggle(FrameFlags::from_bits_truncate(1 << rng.below(8))),
            2 => frame.epoch = frame.epoch.wrapping_add(rng.below(3) as u8),
            3 => frame.code = rng.bits() as u8,
            4 => frame.seq = frame.seq.wrapping_add(near).wrapping_sub(32),
            5 => frame.ack = frame.ack.wrapping_add(near).wrapping_sub(32),
            6 => frame.total = frame.total.wrapping_add(near).wrapping_sub(32),
            7 => frame.key ^= 1 << rng.below(32),
            8 => frame.addr = frame.addr.wrapping_add(u64::from(near) * 1000).wrapping_sub(32_000),
            9 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
            10 => bytes = payload(rng),
            // Fetched lists, operands, data.
            _ => bytes.iter_mut().take(64).for_each(|byte| *byte ^= rng.bits() as u8 & rng.bits() as u8),
        }
    }
    Held { frame, payload: bytes }
}
