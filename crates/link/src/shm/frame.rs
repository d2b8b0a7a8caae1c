//! The head of a frame in a ring: a stamp, which is written last, and six words. The payload follows directly, so that
//! a frame with eight bytes of it is one cache line.
//!
//! ```text
//! stamp u64 | kind u8 flags u8 epoch u8 code u8 dest_qpn u32 | src_qpn seq | ack imm | total key | srqn bytes | addr u64
//! ```

use weft_transport::frame::{FRAME_BYTES_MAX, Frame, FrameFlags, FrameKind};

use super::layout::LINE;

/// Bytes before the payload.
pub(super) const HEAD_BYTES: usize = 56;

/// Returns the slots that a frame with this much payload takes.
#[inline]
pub(super) fn slots_of(bytes: u32) -> u64 {
    (HEAD_BYTES + bytes as usize).div_ceil(LINE) as u64
}

/// Encodes the words after the stamp.
#[inline]
pub(super) fn encode(frame: &Frame, bytes: u32) -> [u64; 6] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let first = [frame.kind as u8, frame.flags.bits(), frame.epoch, frame.code];
    [
        pair(u32::from_le_bytes(first), frame.dest_qpn),
        pair(frame.src_qpn, frame.seq),
        pair(frame.ack, frame.imm),
        pair(frame.total, frame.key),
        pair(frame.srqn, bytes),
        frame.addr,
    ]
}

/// The words of a head with nothing behind it until the end of the ring.
pub(super) const PAD: [u64; 6] = [0; 6];

/// Whether the words are a pad's.
#[inline]
pub(super) fn is_pad(words: &[u64; 6]) -> bool {
    words[0] as u8 == PAD[0] as u8
}

/// Decodes a frame from words that are not a pad's; `None` if no honest process writes them.
#[inline]
pub(super) fn decode(words: [u64; 6]) -> Option<Frame> {
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    let [kind, flags, epoch, code] = low(words[0]).to_le_bytes();
    let bytes = high(words[4]);
    if bytes > FRAME_BYTES_MAX {
        return None;
    }
    Some(Frame {
        kind: FrameKind::from_number(kind)?,
        flags: FrameFlags::from_bits_retain(flags),
        epoch,
        code,
        dest_qpn: high(words[0]),
        src_qpn: low(words[1]),
        seq: high(words[1]),
        ack: low(words[2]),
        imm: high(words[2]),
        total: low(words[3]),
        key: high(words[3]),
        srqn: low(words[4]),
        bytes,
        addr: words[5],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let mut frame = Frame::new(FrameKind::Datagram, 0x11_2233, 0x44_5566);
        (frame.flags, frame.epoch, frame.code) = (FrameFlags::all(), 7, 0xff);
        (frame.seq, frame.ack, frame.imm, frame.total, frame.key) = (1, 2, 3, 4, 5);
        (frame.addr, frame.srqn, frame.bytes) = (u64::MAX - 1, 6, FRAME_BYTES_MAX);
        assert_eq!(decode(encode(&frame, frame.bytes)), Some(frame));
        assert!(is_pad(&PAD) && !is_pad(&encode(&frame, 0)));
        assert_eq!(decode(encode(&frame, FRAME_BYTES_MAX + 1)), None);
        assert_eq!(decode([15, 0, 0, 0, 0, 0]), None, "no such kind");
        assert_eq!((slots_of(0), slots_of(8), slots_of(9)), (1, 1, 2));
    }
}
