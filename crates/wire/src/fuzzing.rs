//! Fuzz targets: one function each, shared by the fuzz crate, the example that runs without a nightly compiler, and the
//! test that replays the corpus. A target panics if this crate breaks a promise. [`Script`] serves the targets of other
//! crates, whose input is a sequence of steps.

use crate::cm::{self, CmMessage, IpCmHeader};
use crate::icrc::{self, Flow};
use crate::iwarp::{Body, MpaFlags, NegotiationFrame, SegmentHeader, Terminate};
use crate::mad::{self, Gmp, Mad};
use crate::packet::HeaderBuf;
use crate::{Packet, pcapng, roce};

/// Parses any bytes as a packet; a parsed packet is written again with the same header bytes.
pub fn packet(bytes: &[u8]) {
    if let Ok(packet) = Packet::parse(bytes) {
        let again = HeaderBuf::write(packet.bth, &packet.ext, packet.payload.len());
        let len = packet.info.header_len;
        assert_eq!(again.as_slice().len(), len);
        let reread = [again.as_slice(), &bytes[len..]].concat();
        // Our writer computes the pad count; another sender may announce more than the payload needs.
        if crate::packet::pad_for(packet.payload.len()) == packet.bth.pad_count() {
            let reread = Packet::parse(&reread).expect("what was written parses");
            assert_eq!(reread.ext, packet.ext);
            assert_eq!(reread.payload, packet.payload);
        }
    }
    let flow = Flow::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), sport: 49152 };
    let _ = icrc::verify(&flow, bytes, 0);
}

/// Parses any bytes as a frame and as a capture.
pub fn frame(bytes: &[u8]) {
    if let Some((meta, ib)) = roce::parse_v2_frame(bytes) {
        packet(ib);
        let mut again = bytes[..14].to_vec();
        if again[12..14] != [0x81, 0] {
            roce::put_v2(&mut again, &meta, ib);
            assert_eq!(roce::parse_v2_frame(&again), Some((meta, ib)));
        }
    }
    let _ = roce::parse_v1_frame(bytes);
    pcapng::frames(bytes).for_each(packet);
}

/// Parses any bytes as a GMP, as a CM message of any kind and as an IP CM header; a parsed message is written and read
/// again unchanged.
pub fn cm(bytes: &[u8]) {
    if let Ok(packet) = Packet::parse(bytes) {
        let _ = Gmp::from_packet(&packet).map(|gmp| CmMessage::from_mad(&gmp.mad));
    }
    let mut whole = [0; mad::MAD_LEN];
    let len = bytes.len().min(mad::MAD_LEN);
    whole[..len].copy_from_slice(&bytes[..len]);
    let datagram = Mad::parse(&whole).expect("256 bytes");
    if let Ok(message) = CmMessage::from_mad(&datagram) {
        assert_eq!(CmMessage::from_mad(&message.to_mad(datagram.header.tid())), Ok(message));
    }
    for (id, name) in CmMessage::ALL {
        let message = CmMessage::parse(*id, &datagram.data).expect(name);
        let written = message.encode();
        assert!(written.iter().zip(datagram.data).all(|(w, b)| w & !b == 0), "{name}: a bit from nowhere");
        assert_eq!(CmMessage::parse(*id, &written).as_ref(), Some(&message));
        if let CmMessage::Rej(rej) = &message {
            assert!(rej.ari().len() <= cm::ARI_MAX);
        }
        ip_cm(message.private_data());
    }
    ip_cm(bytes);
}

fn ip_cm(private: &[u8]) {
    if let Ok((header, rest)) = IpCmHeader::parse(private) {
        assert_eq!(IpCmHeader::parse(&[&header.encode()[..], rest].concat()), Ok((header, rest)));
    }
}

/// Reads any bytes as every attribute of every class, and as an SMP; each is written and read again unchanged.
pub fn mad(bytes: &[u8]) {
    mad::round_trip(bytes);
    mad::subn::round_trip(bytes);
    mad::perf::round_trip(bytes);
    mad::sa::round_trip(bytes);
    let mut whole = [0; mad::MAD_LEN];
    let len = bytes.len().min(mad::MAD_LEN);
    whole[..len].copy_from_slice(&bytes[..len]);
    let datagram = Mad::parse(&whole).expect("256 bytes");
    let smp = mad::subn::Smp::from_mad(datagram);
    assert_eq!(smp.to_mad(), datagram);
    mad::subn::round_trip(&smp.data);
}

/// Reads any bytes as a frame that negotiates an iWARP connection; a frame that was read is written again unchanged,
/// except for the S flag of revisions that reserve it.
pub fn mpa(bytes: &[u8]) {
    if let Ok(Some((frame, len))) = NegotiationFrame::parse(bytes) {
        let mut again = Vec::new();
        frame.write(&mut again);
        let mut read = bytes[..len].to_vec();
        if frame.revision < 2 {
            read[16] &= !MpaFlags::ENHANCED.bits();
        }
        assert_eq!(again, read);
    }
}

/// Reads any bytes as a segment of DDP with its RDMAP header; a header that was read is written again unchanged, except
/// for reserved bits.
pub fn ddp(bytes: &[u8]) {
    let Ok(header) = SegmentHeader::parse(bytes) else { return };
    let written = header.write();
    let len = written.as_slice().len();
    assert_eq!(written.as_slice(), &bytes[..len]);
    if let Body::Terminate(_, control) = header.body {
        rdmap(&[&control[..], &bytes[len..]].concat());
    }
}

/// Reads any bytes as the content of a TERMINATE; one that was read means the same when it is written and read again.
pub fn rdmap(bytes: &[u8]) {
    if let Some((terminate, order)) = Terminate::parse(bytes) {
        let mut again = Vec::new();
        terminate.write(order, &mut again);
        let (reread, order) = Terminate::parse(&again).expect("a TERMINATE");
        assert_eq!(reread.copied, terminate.copied);
        // Without the bits that tell the orders apart, the specification's is preferred.
        if terminate.copied.is_some() {
            assert_eq!(reread.error, terminate.error);
        }
        let _ = (order, terminate.copied.and_then(|copied| copied.untagged()));
    }
}

/// Decisions read from a fuzzer's bytes, followed by endless zeros.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// Creates a script of these bytes.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script(bytes)
    }

    /// Whether the script has read every byte.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// Returns a number from eight bytes, or a small one from two: positions and lengths near zero reach further than
    /// random ones.
    pub fn word(&mut self) -> u64 {
        let small = self.byte();
        match small & 3 {
            0 => self.number(8),
            1 => u64::MAX - u64::from(small >> 2),
            2 => u64::from(small >> 2),
            _ => self.number(2),
        }
    }

    /// Returns an index below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number(4) as usize).checked_rem(bound).unwrap_or_default()
    }

    /// Returns at most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn number(&mut self, len: usize) -> u64 {
        self.bytes(len).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// Runs a target on random scripts, for tests without coverage guidance. The same seed yields the same scripts.
pub fn random_scripts(target: Target, seed: u64, scripts: u32, len_max: usize) {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    for _ in 0..scripts {
        let len = random() as usize % (len_max + 1);
        let bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        target(&bytes);
    }
}

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 7] =
    [("packet", packet), ("frame", frame), ("cm", cm), ("mad", mad), ("mpa", mpa), ("ddp", ddp), ("rdmap", rdmap)];

#[cfg(test)]
mod tests {
    #[test]
    fn the_s_flag_of_revision_1_is_reserved() {
        super::mpa(&[b"MPA ID Req Frame", &[0x10, 1, 0, 9][..], &[9; 9]].concat());
    }
}
