//! Request and reply that open a connection (RFC 5044 §7.1, RFC 6581 §4):
//!
//! ```text
//! |            key: "MPA ID Req Frame" or "MPA ID Rep Frame" (16)         |
//! |M|C|R|S|Res    |   revision    |     bytes of private data             |
//! |A|B|          IRD              |C|D|          ORD                      |  if S: the first four bytes of private data
//! |                        private data (0..512)                          |
//! ```
//!
//! M: the sender of the frame wants markers in what it receives. C: it wants CRCs. R: it rejects. S: IRD and ORD follow.
//! A: peer to peer; B, C, D: the first FPDU may be one of length zero, a WRITE, or a READ (RFC 6581 §9).

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a frame before its private data.
pub const HEADER_LEN: usize = 20;
/// Most bytes of private data, IRD and ORD included (RFC 5044 §7.1.1).
pub const PRIVATE_DATA_MAX: usize = 512;
/// Longest frame.
pub const FRAME_LEN_MAX: usize = HEADER_LEN + PRIVATE_DATA_MAX;

const REQUEST_KEY: [u8; 16] = *b"MPA ID Req Frame";
const REPLY_KEY: [u8; 16] = *b"MPA ID Rep Frame";
/// First revision with IRD and ORD.
const ENHANCED_REVISION: u8 = 2;
/// Bytes of IRD and ORD.
const ENHANCED_LEN: usize = 4;
/// IRD or ORD without its flags.
const DEPTH_MASK: u16 = 0x3fff;

bitflags::bitflags! {
    /// Flags of a frame; unknown bits survive.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MpaFlags: u8 {
        /// M: the sender wants markers in the stream that it receives.
        const MARKERS = 0x80;
        /// C: the sender wants CRCs; one such wish is enough for both directions.
        const CRC = 0x40;
        /// R: the reply rejects the connection.
        const REJECT = 0x20;
        /// S: IRD, ORD and their flags begin the private data (RFC 6581 §4). Reserved before revision 2.
        const ENHANCED = 0x10;
        /// Of Linux's siw: the sender takes FPDUs longer than a TCP segment.
        const LONG_FPDUS = 0x08;
        /// Of Weft, in a request: the sender knows RFC 7306 as Weft uses it. siw repeats unknown bits in its reply,
        /// so an answer is another bit.
        const OFFERS_EXTENSIONS = 0x04;
        /// Of Weft, in a reply: the sender knows RFC 7306, too.
        const TAKES_EXTENSIONS = 0x02;
        const _ = !0;
    }

    /// Kinds of first FPDU by which an initiator makes the responder ready to send (RFC 6581 §9).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct RtrKinds: u8 {
        /// An FPDU of length zero.
        const FPDU = 1;
        /// A WRITE of length zero.
        const WRITE = 2;
        /// A READ of length zero.
        const READ = 4;
    }
}

/// Kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// From the initiator.
    Request,
    /// From the responder.
    Reply,
}

/// Depths of READs, and peer-to-peer mode (RFC 6581 §4, §9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Enhanced {
    /// READs that the sender of the frame answers at a time.
    pub ird: u16,
    /// READs that it has outstanding at a time.
    pub ord: u16,
    /// Whether the initiator's first FPDU makes the responder ready to send.
    pub peer_to_peer: bool,
    /// The kinds of FPDU for that: offered by a request, chosen by a reply.
    pub rtr: RtrKinds,
}

/// Reason why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MpaError {
    /// The key is another one.
    #[error("not a frame of MPA")]
    Key,
    /// The private data is longer than the specification allows.
    #[error("more than 512 bytes of private data")]
    PrivateData,
    /// The S flag is set, and IRD and ORD do not follow.
    #[error("IRD and ORD are missing")]
    Enhanced,
}

/// A request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NegotiationFrame<'a> {
    /// Its kind.
    pub kind: FrameKind,
    /// Its flags; [`MpaFlags::ENHANCED`] is set exactly if `enhanced` is.
    pub flags: MpaFlags,
    /// Revision of MPA.
    pub revision: u8,
    /// IRD, ORD and flags.
    pub enhanced: Option<Enhanced>,
    /// The program's private data.
    pub private_data: &'a [u8],
}

/// Bytes before the private data.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FrameHeader {
    key: [u8; 16],
    flags: u8,
    revision: u8,
    private_len: U16,
}

const _: () = assert!(size_of::<FrameHeader>() == HEADER_LEN);

impl<'a> NegotiationFrame<'a> {
    /// Reads a frame from the start of a stream. `None`: it is incomplete. Returns the frame and its bytes.
    pub fn parse(stream: &'a [u8]) -> Result<Option<(NegotiationFrame<'a>, usize)>, MpaError> {
        // A wrong key is found as soon as one byte shows it: such a stream may never bring twenty.
        let begins = |key: &[u8; 16]| stream.iter().zip(key).all(|(a, b)| a == b);
        if !begins(&REQUEST_KEY) && !begins(&REPLY_KEY) {
            return Err(MpaError::Key);
        }
        let Ok((header, rest)) = FrameHeader::ref_from_prefix(stream) else { return Ok(None) };
        let len = usize::from(header.private_len.get());
        if len > PRIVATE_DATA_MAX {
            return Err(MpaError::PrivateData);
        }
        let kind = if header.key == REQUEST_KEY { FrameKind::Request } else { FrameKind::Reply };
        let mut flags = MpaFlags::from_bits_retain(header.flags);
        if header.revision < ENHANCED_REVISION {
            flags.remove(MpaFlags::ENHANCED);
        }
        let Some(private) = rest.get(..len) else { return Ok(None) };
        let (enhanced, private_data) = if flags.contains(MpaFlags::ENHANCED) {
            let (words, data) = private.split_first_chunk::<ENHANCED_LEN>().ok_or(MpaError::Enhanced)?;
            (Some(Enhanced::parse(*words)), data)
        } else {
            (None, private)
        };
        let frame = NegotiationFrame { kind, flags, revision: header.revision, enhanced, private_data };
        Ok(Some((frame, HEADER_LEN + len)))
    }

    /// Appends the frame to `out`; private data beyond [`NegotiationFrame::private_max`] is cut off.
    pub fn write(&self, out: &mut Vec<u8>) {
        let data = self.private_data.get(..self.private_max()).unwrap_or(self.private_data);
        let len = data.len() + if self.enhanced.is_some() { ENHANCED_LEN } else { 0 };
        let mut flags = self.flags;
        flags.set(MpaFlags::ENHANCED, self.enhanced.is_some());
        let header = FrameHeader {
            key: if self.kind == FrameKind::Request { REQUEST_KEY } else { REPLY_KEY },
            flags: flags.bits(),
            revision: self.revision,
            private_len: (len as u16).into(),
        };
        out.extend_from_slice(header.as_bytes());
        if let Some(enhanced) = &self.enhanced {
            out.extend_from_slice(&enhanced.to_bytes());
        }
        out.extend_from_slice(data);
    }

    /// Returns the bytes of private data that the program may give.
    pub fn private_max(&self) -> usize {
        PRIVATE_DATA_MAX - if self.enhanced.is_some() { ENHANCED_LEN } else { 0 }
    }
}

impl Enhanced {
    /// The largest depth on the wire. The value itself means that the programs agree on the depth (RFC 6581 §9.1).
    pub const DEPTH_MAX: u16 = DEPTH_MASK;

    fn parse(bytes: [u8; ENHANCED_LEN]) -> Enhanced {
        let [ird, ord] = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]].map(u16::from_be_bytes);
        let mut rtr = RtrKinds::empty();
        rtr.set(RtrKinds::FPDU, ird & 0x4000 != 0);
        rtr.set(RtrKinds::WRITE, ord & 0x8000 != 0);
        rtr.set(RtrKinds::READ, ord & 0x4000 != 0);
        Enhanced { ird: ird & DEPTH_MASK, ord: ord & DEPTH_MASK, peer_to_peer: ird & 0x8000 != 0, rtr }
    }

    fn to_bytes(self) -> [u8; ENHANCED_LEN] {
        let bit = |set: bool, bit: u16| if set { bit } else { 0 };
        let ird = self.ird.min(DEPTH_MASK) | bit(self.peer_to_peer, 0x8000) | bit(self.has(RtrKinds::FPDU), 0x4000);
        let ord =
            self.ord.min(DEPTH_MASK) | bit(self.has(RtrKinds::WRITE), 0x8000) | bit(self.has(RtrKinds::READ), 0x4000);
        let ([a, b], [c, d]) = (ird.to_be_bytes(), ord.to_be_bytes());
        [a, b, c, d]
    }

    fn has(self, kind: RtrKinds) -> bool {
        self.rtr.contains(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back_and_cut_frames_are_incomplete() {
        let enhanced = Enhanced { ird: 7, ord: 9, peer_to_peer: true, rtr: RtrKinds::WRITE | RtrKinds::FPDU };
        let frame = NegotiationFrame {
            kind: FrameKind::Request,
            flags: MpaFlags::CRC | MpaFlags::ENHANCED,
            revision: 2,
            enhanced: Some(enhanced),
            private_data: b"hello",
        };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        assert_eq!(NegotiationFrame::parse(&bytes), Ok(Some((frame, 29))));
        assert!((0..29).all(|cut| NegotiationFrame::parse(&bytes[..cut]) == Ok(None)));
        assert_eq!(NegotiationFrame::parse(b"GET / HTTP"), Err(MpaError::Key));
        assert_eq!(NegotiationFrame::parse(&[&bytes[..18], &[2, 1]].concat()), Err(MpaError::PrivateData));
        assert_eq!(NegotiationFrame::parse(&[&bytes[..18], &[0, 3, 0, 0, 0]].concat()), Err(MpaError::Enhanced));
    }

    #[test]
    fn revision_1_has_no_depths() {
        let bytes = |revision| [&b"MPA ID Req Frame\x10"[..], &[revision, 0, 4, 0, 7, 0, 9]].concat();
        let bytes = [1, 2].map(bytes);
        let [old, new] = bytes.each_ref().map(|bytes| NegotiationFrame::parse(bytes).unwrap().unwrap().0);
        assert_eq!((old.enhanced, old.flags, old.private_data), (None, MpaFlags::empty(), &[0, 7, 0, 9][..]));
        assert_eq!(new.enhanced.map(|enhanced| (enhanced.ird, enhanced.ord)), Some((7, 9)));
    }

    #[test]
    fn private_data_is_bounded_with_ird_and_ord() {
        let mut frame = NegotiationFrame {
            kind: FrameKind::Reply,
            flags: MpaFlags::empty(),
            revision: 2,
            enhanced: None,
            private_data: &[1; 600],
        };
        for enhanced in [None, Some(Enhanced::default())] {
            frame.enhanced = enhanced;
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(bytes.len(), FRAME_LEN_MAX);
            let parsed = NegotiationFrame::parse(&bytes).unwrap().unwrap().0;
            assert_eq!(parsed.private_data.len(), frame.private_max());
        }
    }
}
