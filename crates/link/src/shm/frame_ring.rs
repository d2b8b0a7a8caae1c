//! Ring of frames: a stamped ring ([`weft_shm::ring`]) between two processes. A frame is one slot or several
//! consecutive ones, of which the first is stamped; a pad fills the slots before the ring's end that a frame has no
//! room in.

use weft_shm::ring::STAMP_BYTES;
use weft_shm::{Broken, Consumer, Layout, Producer, Stamps};
use weft_sys::shared::Shared;
use weft_transport::frame::{FRAME_BYTES_MAX, Frame, HostRange, Outgoing};

use super::copy::{copy, deliver, is_null, pointer};
use super::frame::{HEAD_BYTES, PAD, decode, encode, is_pad, slots_of};
use super::layout::{LINE, RING_SLOTS, Side};

/// Bytes of a gather list's element in a frame: address, length, key.
const SGE_BYTES: usize = 16;

/// Makes the layout of `side`'s ring, read by `reader`.
fn layout(side: Side, reader: Side) -> Layout {
    Layout { slots_at: side.ring(), taken_at: reader.taken() }
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Writer(Producer<Stamps, RING_SLOTS, LINE>);

impl Writer {
    /// Makes the writer of `side`'s ring, read by `reader`.
    pub fn new(side: Side, reader: Side, stamps: Stamps) -> Writer {
        Writer(Producer::new(layout(side, reader), stamps))
    }

    /// Returns the position up to which the ring is written.
    #[inline]
    pub fn head(&self) -> u64 {
        self.0.written()
    }

    /// Returns the position up to which the ring is read.
    #[inline]
    pub fn taken(&self, pair: &Shared) -> u64 {
        self.0.taken(pair)
    }

    /// Writes a frame; returns whether there was room.
    #[inline]
    pub fn push(&mut self, pair: &Shared, frame: &Frame, payload: Outgoing<'_>) -> Result<bool, Broken> {
        let len = payload.len();
        if len > u64::from(FRAME_BYTES_MAX) {
            debug_assert!(false, "a frame of {len} bytes");
            return Ok(false);
        }
        let (slots, lap_left) = (slots_of(len as u32), self.0.lap_left());
        let pad = if slots > lap_left { lap_left } else { 0 };
        if !self.0.has_room(pair, pad + slots)? {
            return Ok(false);
        }
        if pad > 0 {
            self.0.publish(pair, pad, PAD);
        }
        let start = self.0.slot_at();
        let in_last_slot = (HEAD_BYTES + len as usize) % LINE;
        if (1..STAMP_BYTES).contains(&in_last_slot) {
            self.0.clear_stamp(pair, start + HEAD_BYTES + len as usize - in_last_slot);
        }
        if len > 0 {
            // SAFETY: inside the ring, checked by `write`; `payload` names bytes that this process may read, and the
            // ring is no part of them. The reader reads the frame only after it is stamped.
            pair.write(start + HEAD_BYTES, len as usize, |to| unsafe { write_payload(payload, to) });
        }
        self.0.publish(pair, slots, encode(frame, len as u32));
        Ok(true)
    }
}

/// # Safety
/// `to` has room for the payload, and no part of the payload is there; all addresses in the payload are readable.
#[inline]
unsafe fn write_payload(payload: Outgoing<'_>, mut to: *mut u8) {
    // SAFETY: as the caller promised, piece by piece.
    unsafe {
        match payload {
            Outgoing::Bytes(bytes) => copy(bytes.as_ptr(), to, bytes.len()),
            Outgoing::Memory(ranges) => {
                for range in ranges {
                    let len = range.len as usize;
                    match is_null(*range) {
                        true => to.write_bytes(0, len),
                        false => copy(pointer(range.addr), to, len),
                    }
                    to = to.add(len);
                }
            }
            Outgoing::List(list) => {
                for sge in list {
                    let mut element = [0; SGE_BYTES];
                    element[..8].copy_from_slice(&sge.addr.to_ne_bytes());
                    element[8..12].copy_from_slice(&sge.length.to_ne_bytes());
                    element[12..].copy_from_slice(&sge.lkey.to_ne_bytes());
                    copy(element.as_ptr(), to, SGE_BYTES);
                    to = to.add(SGE_BYTES);
                }
            }
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Reader(Consumer<Stamps, RING_SLOTS, LINE>);

impl Reader {
    /// Makes the reader of `side`'s ring, read by `reader`.
    pub fn new(side: Side, reader: Side, stamps: Stamps) -> Reader {
        Reader(Consumer::new(layout(side, reader), stamps))
    }

    /// Returns whether a frame, or a pad, is there.
    #[inline]
    pub fn has_frame(&self, pair: &Shared) -> bool {
        self.0.has_slot(pair)
    }

    /// Returns the position and the value of the next frame's stamp.
    pub fn next(&self) -> (usize, u64) {
        (self.0.slot_at(), self.0.stamp())
    }

    /// Returns the next frame, if it is there.
    #[inline]
    pub fn look(&mut self, pair: &Shared) -> Result<Option<Frame>, Broken> {
        let Some(mut words) = self.0.head(pair) else { return Ok(None) };
        if is_pad(&words) {
            match self.look_over(pair)? {
                Some(behind) => words = behind,
                None => return Ok(None),
            }
        }
        let frame = decode(words).ok_or(Broken)?;
        match slots_of(frame.bytes) > self.0.lap_left() {
            true => Err(Broken),
            false => Ok(Some(frame)),
        }
    }

    /// Skips a pad, which honest writers put anywhere but at the ring's beginning.
    #[cold]
    fn look_over(&mut self, pair: &Shared) -> Result<Option<[u64; 6]>, Broken> {
        let skipped = self.0.lap_left();
        if skipped == RING_SLOTS {
            return Err(Broken);
        }
        self.0.take(pair, skipped);
        match self.0.head(pair) {
            Some(words) if is_pad(&words) => Err(Broken),
            words => Ok(words),
        }
    }

    /// Ends the current frame, of `bytes` payload.
    #[inline]
    pub fn end(&mut self, pair: &Shared, bytes: u32) {
        self.0.take(pair, slots_of(bytes));
    }

    /// Copies payload of the current frame, which is `bytes` long, to this process's memory.
    #[inline]
    pub fn place(&self, pair: &Shared, bytes: u32, offset: u32, to: HostRange) {
        let len = to.len.min(u64::from(bytes.saturating_sub(offset))) as usize;
        if len > 0 && !is_null(to) {
            let from = self.0.slot_at() + HEAD_BYTES + offset as usize;
            // SAFETY: the source is inside the ring; the target is memory that the adapter checked to be registered and
            // writable, and no program registers the ring.
            pair.read(from, len, |from| unsafe { deliver(from, pointer(to.addr), len) });
        }
    }

    /// Copies payload of the current frame; likewise.
    #[inline]
    pub fn peek(&self, pair: &Shared, bytes: u32, offset: u32, out: &mut [u8]) {
        let len = out.len().min(bytes.saturating_sub(offset) as usize);
        if len > 0 {
            let from = self.0.slot_at() + HEAD_BYTES + offset as usize;
            // SAFETY: the source is inside the ring, the target is borrowed exclusively.
            pair.read(from, len, |from| unsafe { copy(from, out.as_mut_ptr(), len) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::PAIR_BYTES;
    use super::*;
    use weft_transport::frame::FrameKind;

    /// One lap leaves a stamp in every slot. In the next, payload whose last bytes are chosen for it overwrites the first
    /// bytes of each second stamp, so that the rest completes the stamp that the reader expects there a lap later.
    #[test]
    fn payload_over_a_part_of_an_old_stamp_is_no_stamp() {
        for spilled in 1..STAMP_BYTES {
            let pair = Shared::private(PAIR_BYTES).unwrap();
            let stamps = Stamps::between(0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321);
            let (mut writer, mut reader) =
                (Writer::new(Side(0), Side(0), stamps), Reader::new(Side(0), Side(0), stamps));
            let mut pass = |payload: &[u8]| {
                let frame = Frame::new(FrameKind::Send, 1, 2);
                assert_eq!(writer.push(&pair, &frame, Outgoing::Bytes(payload)), Ok(true));
                let got = reader.look(&pair).unwrap().expect("the frame");
                assert_eq!(got.bytes as usize, payload.len());
                reader.end(&pair, got.bytes);
                assert_eq!(reader.look(&pair), Ok(None), "nothing else was written ({spilled} bytes)");
                reader.0.taken()
            };
            let mut at = 0;
            while at < RING_SLOTS {
                at = pass(&[]);
            }
            while at < 2 * RING_SLOTS {
                let stamp = stamps.of(at + 1 + RING_SLOTS);
                let mut payload = vec![0; LINE - HEAD_BYTES];
                payload.extend_from_slice(&stamp.to_ne_bytes()[..spilled]);
                at = pass(&payload);
            }
            while at < 3 * RING_SLOTS {
                at = pass(&[]);
            }
        }
    }
}
