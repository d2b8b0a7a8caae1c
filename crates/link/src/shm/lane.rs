//! A lane: a ring of slots with one writing process and one reading process. A frame is one slot or several consecutive
//! ones; its stamp, written last, makes it valid. The stamp combines the lane's key and the position, so that neither
//! an old lap nor payload can pass for a frame. Payload therefore never leaves a part of an old stamp: that part, with
//! payload beside it, could be the stamp of a later position. Positions count slots and never wrap. Each side keeps its
//! own; only the reader publishes its position, so that the writer knows its room.

use weft_sys::sync::Ordering;

use weft_sys::shared::Shared;
use weft_transport::same_host::{FRAME_BYTES_MAX, Frame, HostRange, Outgoing};

use super::copy::{copy, deliver, is_null, pointer};
use super::frame::{HEAD_BYTES, PAD, decode, encode, is_pad, slots_of};
use super::layout::{LANE_SLOTS, LINE, Side};

/// Bytes of a gather list's element in a frame: address, length, key.
const SGE_BYTES: usize = 16;
/// Bytes of a stamp.
const STAMP_BYTES: usize = size_of::<u64>();

/// Returns the key of the lane from one process to another, which both can compute.
pub(super) fn lane_key(from: u64, to: u64) -> u64 {
    let mut x = from ^ to.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // Positions never have this bit, so no stamp is zero as in a fresh ring.
    (x ^ (x >> 31)) | 1 << 63
}

#[inline]
fn at(ring: usize, position: u64) -> usize {
    ring + (position % LANE_SLOTS) as usize * LINE
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Writer {
    ring: usize,
    /// Position of the word where the other side publishes its progress.
    told: usize,
    key: u64,
    head: u64,
    /// The other side's progress at the last check.
    taken: u64,
}

/// The other side's position is impossible.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Writer {
    /// Makes the writer of `side`'s lane, read by `reader`.
    pub fn new(side: Side, reader: Side, key: u64) -> Writer {
        Writer { ring: side.lane(), told: reader.taken(), key, head: 0, taken: 0 }
    }

    /// Returns the position up to which the lane is written.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the position up to which the lane is read.
    #[inline]
    pub fn taken(&self, pair: &Shared) -> u64 {
        pair.word(self.told).load(Ordering::Acquire)
    }

    /// Writes a frame; returns whether there was room.
    #[inline]
    pub fn push(&mut self, pair: &Shared, frame: &Frame, payload: Outgoing<'_>) -> Result<bool, Broken> {
        let len = payload.len();
        if len > u64::from(FRAME_BYTES_MAX) {
            debug_assert!(false, "a frame of {len} bytes");
            return Ok(false);
        }
        let slots = slots_of(len as u32);
        let lap_left = LANE_SLOTS - self.head % LANE_SLOTS;
        let pad = if slots > lap_left { lap_left } else { 0 };
        if self.head + pad + slots - self.taken > LANE_SLOTS && !self.has_room(pair, pad + slots)? {
            return Ok(false);
        }
        if pad > 0 {
            self.stamp(pair, PAD);
            self.head += pad;
        }
        let start = at(self.ring, self.head);
        let in_last_slot = (HEAD_BYTES + len as usize) % LINE;
        if (1..STAMP_BYTES).contains(&in_last_slot) {
            pair.word(start + HEAD_BYTES + len as usize - in_last_slot).store(0, Ordering::Relaxed);
        }
        if len > 0 {
            // SAFETY: inside the ring, checked by `write`; `payload` names bytes that this process may read, and the
            // ring is no part of them. The reader reads the frame only after it is stamped.
            pair.write(start + HEAD_BYTES, len as usize, |to| unsafe { write_payload(payload, to) });
        }
        self.stamp(pair, encode(frame, len as u32));
        self.head += slots;
        Ok(true)
    }

    #[cold]
    fn has_room(&mut self, pair: &Shared, slots: u64) -> Result<bool, Broken> {
        let taken = self.taken(pair);
        if taken < self.taken || taken > self.head {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(self.head + slots - taken <= LANE_SLOTS)
    }

    #[inline]
    fn stamp(&self, pair: &Shared, words: [u64; 6]) {
        let [stamp, a, b, c, d, e, f] = pair.words::<7>(at(self.ring, self.head));
        a.store(words[0], Ordering::Relaxed);
        b.store(words[1], Ordering::Relaxed);
        c.store(words[2], Ordering::Relaxed);
        d.store(words[3], Ordering::Relaxed);
        e.store(words[4], Ordering::Relaxed);
        f.store(words[5], Ordering::Relaxed);
        stamp.store(self.key ^ self.head, Ordering::Release);
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
pub(super) struct Reader {
    ring: usize,
    /// Position of the word where this side publishes its progress.
    tells: usize,
    key: u64,
    tail: u64,
}

impl Reader {
    /// Makes the reader of `side`'s lane, read by `reader`.
    pub fn new(side: Side, reader: Side, key: u64) -> Reader {
        Reader { ring: side.lane(), tells: reader.taken(), key, tail: 0 }
    }

    /// Returns the position and the value of the next frame's stamp.
    #[inline]
    pub fn next(&self) -> (usize, u64) {
        (at(self.ring, self.tail), self.key ^ self.tail)
    }

    /// Returns the next frame, if it is there.
    #[inline]
    pub fn look(&mut self, pair: &Shared) -> Result<Option<Frame>, Broken> {
        let Some(mut words) = self.words(pair) else { return Ok(None) };
        if is_pad(&words) {
            match self.look_over(pair)? {
                Some(behind) => words = behind,
                None => return Ok(None),
            }
        }
        let frame = decode(words).ok_or(Broken)?;
        match slots_of(frame.bytes) > LANE_SLOTS - self.tail % LANE_SLOTS {
            true => Err(Broken),
            false => Ok(Some(frame)),
        }
    }

    /// Skips a pad, which honest writers put anywhere but at the ring's beginning.
    #[cold]
    fn look_over(&mut self, pair: &Shared) -> Result<Option<[u64; 6]>, Broken> {
        let passed = self.tail % LANE_SLOTS;
        if passed == 0 {
            return Err(Broken);
        }
        self.pass(pair, LANE_SLOTS - passed);
        match self.words(pair) {
            Some(words) if is_pad(&words) => Err(Broken),
            words => Ok(words),
        }
    }

    /// Returns the words after the next stamp, if that is there.
    #[inline]
    fn words(&self, pair: &Shared) -> Option<[u64; 6]> {
        let (at, expected) = self.next();
        let [stamp, a, b, c, d, e, f] = pair.words::<7>(at);
        (stamp.load(Ordering::Acquire) == expected).then(|| [a, b, c, d, e, f].map(|word| word.load(Ordering::Relaxed)))
    }

    /// Ends the current frame, of `bytes` payload.
    #[inline]
    pub fn end(&mut self, pair: &Shared, bytes: u32) {
        self.pass(pair, slots_of(bytes));
    }

    #[inline]
    fn pass(&mut self, pair: &Shared, slots: u64) {
        self.tail += slots;
        pair.word(self.tells).store(self.tail, Ordering::Release);
    }

    /// Copies payload of the current frame, which is `bytes` long, to this process's memory.
    #[inline]
    pub fn place(&self, pair: &Shared, bytes: u32, offset: u32, to: HostRange) {
        let len = to.len.min(u64::from(bytes.saturating_sub(offset))) as usize;
        if len > 0 && !is_null(to) {
            let from = at(self.ring, self.tail) + HEAD_BYTES + offset as usize;
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
            let from = at(self.ring, self.tail) + HEAD_BYTES + offset as usize;
            // SAFETY: the source is inside the ring, the target is borrowed exclusively.
            pair.read(from, len, |from| unsafe { copy(from, out.as_mut_ptr(), len) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::PAIR_BYTES;
    use super::*;
    use weft_transport::same_host::FrameKind;

    /// One lap leaves a stamp in every slot. In the next, payload whose last bytes are chosen for it overwrites the first
    /// bytes of each second stamp, so that the rest completes the stamp that the reader expects there a lap later.
    #[test]
    fn payload_over_a_part_of_an_old_stamp_is_no_stamp() {
        for spilled in 1..STAMP_BYTES {
            let pair = Shared::private(PAIR_BYTES).unwrap();
            let key = lane_key(0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321);
            let (mut writer, mut reader) = (Writer::new(Side(0), Side(0), key), Reader::new(Side(0), Side(0), key));
            let mut pass = |payload: &[u8]| {
                let frame = Frame::new(FrameKind::Send, 1, 2);
                assert_eq!(writer.push(&pair, &frame, Outgoing::Bytes(payload)), Ok(true));
                let got = reader.look(&pair).unwrap().expect("the frame");
                assert_eq!(got.bytes as usize, payload.len());
                reader.end(&pair, got.bytes);
                assert_eq!(reader.look(&pair), Ok(None), "nothing else was written ({spilled} bytes)");
                reader.tail
            };
            let mut at = 0;
            while at < LANE_SLOTS {
                at = pass(&[]);
            }
            while at < 2 * LANE_SLOTS {
                let stamp = key ^ (at + 1 + LANE_SLOTS);
                let mut payload = vec![0; LINE - HEAD_BYTES];
                payload.extend_from_slice(&stamp.to_ne_bytes()[..spilled]);
                at = pass(&payload);
            }
            while at < 3 * LANE_SLOTS {
                at = pass(&[]);
            }
        }
    }
}
