//! TERMINATE (RFC 5040 §4.8), after DDP's header: the error, and the headers of the segment that caused it:
//!
//! ```text
//! |layer 4|type 4 | code 8        |M|D|R| reserved 13             |
//! | bytes of the DDP segment 16   |     if M
//! | its DDP header, 14 or 18 bytes|     if D
//! | its RDMAP header, 28 bytes    |     if R
//! ```
//!
//! Linux's siw writes the bit fields of a little-endian machine: layer and type change places, and M, D, R are the
//! lowest bits of their byte (captured). [`Terminate::parse`] tells the two orders apart.

use super::{Control, ReadRequest, Tagged, Untagged};

/// An error: the layer that found it, its type and its code. Unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermError {
    /// Layer: 0 RDMAP, 1 DDP, 2 the layer below (MPA).
    pub layer: u8,
    /// Type within the layer.
    pub etype: u8,
    /// Code within the type.
    pub code: u8,
}

const fn rdmap(etype: u8, code: u8) -> TermError {
    TermError { layer: 0, etype, code }
}
const fn ddp(etype: u8, code: u8) -> TermError {
    TermError { layer: 1, etype, code }
}
const fn mpa(code: u8) -> TermError {
    TermError { layer: 2, etype: 0, code }
}

/// RDMAP (RFC 5040 Figure 9): a local catastrophe, a protection error of the peer's request, an operation error of it.
impl TermError {
    /// This side cannot go on.
    pub const LOCAL_CATASTROPHE: TermError = rdmap(0, 0xff);
    /// A request names an invalid STag.
    pub const READ_STAG: TermError = rdmap(1, 0);
    /// A request exceeds the buffer.
    pub const READ_BOUNDS: TermError = rdmap(1, 1);
    /// The buffer grants no such access.
    pub const READ_ACCESS: TermError = rdmap(1, 2);
    /// The STag belongs to another stream.
    pub const READ_NOT_ASSOCIATED: TermError = rdmap(1, 3);
    /// The STag cannot be invalidated.
    pub const CANNOT_INVALIDATE: TermError = rdmap(1, 9);
    /// Unknown version of RDMAP.
    pub const RDMAP_VERSION: TermError = rdmap(2, 5);
    /// Unexpected opcode.
    pub const OPCODE: TermError = rdmap(2, 6);
    /// A catastrophe of this stream alone: more READs than were agreed on, as siw reports it.
    pub const STREAM_CATASTROPHE: TermError = rdmap(2, 7);
    /// An error without a code of its own.
    pub const UNSPECIFIED: TermError = rdmap(2, 0xff);
}

/// DDP (RFC 5041 §7.1): a local catastrophe, errors of tagged and of untagged buffers.
impl TermError {
    /// The receiver cannot store the segment.
    pub const DDP_CATASTROPHE: TermError = ddp(0, 0);
    /// A tagged segment names an invalid STag.
    pub const TAGGED_STAG: TermError = ddp(1, 0);
    /// A tagged segment exceeds its buffer.
    pub const TAGGED_BOUNDS: TermError = ddp(1, 1);
    /// The STag belongs to another stream.
    pub const TAGGED_NOT_ASSOCIATED: TermError = ddp(1, 2);
    /// Unknown version of DDP in a tagged segment.
    pub const TAGGED_VERSION: TermError = ddp(1, 4);
    /// An untagged segment names an unknown queue.
    pub const UNTAGGED_QUEUE: TermError = ddp(2, 1);
    /// No buffer is posted for the message.
    pub const UNTAGGED_NO_BUFFER: TermError = ddp(2, 2);
    /// The message sequence number is not the next one.
    pub const UNTAGGED_MSN: TermError = ddp(2, 3);
    /// The message offset is not the next one.
    pub const UNTAGGED_OFFSET: TermError = ddp(2, 4);
    /// The message is longer than its buffer.
    pub const UNTAGGED_TOO_LONG: TermError = ddp(2, 5);
    /// Unknown version of DDP in an untagged segment.
    pub const UNTAGGED_VERSION: TermError = ddp(2, 6);
}

/// MPA (RFC 5044 §8, RFC 6581 §8).
impl TermError {
    /// A CRC is wrong.
    pub const MPA_CRC: TermError = mpa(2);
    /// A marker and the ULPDU length disagree.
    pub const MPA_MARKER: TermError = mpa(3);
    /// A request or reply is invalid.
    pub const MPA_FRAME: TermError = mpa(4);
    /// The IRD is too small.
    pub const MPA_IRD: TermError = mpa(6);
    /// No kind of first FPDU suits both sides.
    pub const MPA_RTR: TermError = mpa(7);
}

impl TermError {
    /// Whether it concerns the access of a request of its receiver.
    pub fn is_protection(self) -> bool {
        matches!((self.layer, self.etype), (0, 1) | (1, 1))
    }

    /// Whether the specifications define its layer and type.
    fn is_known(self) -> bool {
        matches!((self.layer, self.etype), (0 | 1, 0..=2) | (2, 0))
    }

    /// Whether the message repeats the segment's headers: not for an error of MPA, and not if their layout is unknown.
    pub fn copies_headers(self) -> bool {
        let unknown_layout =
            matches!(self, Self::RDMAP_VERSION | Self::OPCODE | Self::TAGGED_VERSION | Self::UNTAGGED_VERSION);
        self.layer < 2 && self != Self::LOCAL_CATASTROPHE && self != Self::DDP_CATASTROPHE && !unknown_layout
    }
}

/// Order of the bits in a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminateOrder {
    /// That of RFC 5040.
    Rfc,
    /// That of Linux's siw.
    Siw,
}

/// Bytes of the error.
const CONTROL_LEN: usize = 4;
/// Longest repetition of headers: length, DDP header, Read Request.
const COPIED_LEN_MAX: usize = 2 + 18 + 28;
/// Longest TERMINATE after DDP's header.
pub const TERMINATE_LEN_MAX: usize = CONTROL_LEN + COPIED_LEN_MAX;

/// Headers that a TERMINATE repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopiedHeaders {
    bytes: [u8; COPIED_LEN_MAX],
    len: u8,
    has_rdmap: bool,
}

impl CopiedHeaders {
    /// Copies the headers of a segment of `ulpdu` bytes: DDP's, and that of a Read Request if there is one.
    pub fn new(header: &[u8], ulpdu: u16) -> Option<CopiedHeaders> {
        let ddp = ddp_len(header)?;
        let has_rdmap = header.len() == ddp + size_of::<ReadRequest>();
        let copied = header.get(..if has_rdmap { header.len() } else { ddp })?;
        let mut bytes = [0; COPIED_LEN_MAX];
        bytes[..2].copy_from_slice(&ulpdu.to_be_bytes());
        bytes.get_mut(2..2 + copied.len())?.copy_from_slice(copied);
        Some(CopiedHeaders { bytes, len: (2 + copied.len()) as u8, has_rdmap })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the header from DDP's control fields on.
    pub fn header(&self) -> &[u8] {
        self.as_slice().get(2..).unwrap_or_default()
    }

    /// Returns the untagged part of DDP's header, if it has one: queue and message number of a Read Request, for example.
    pub fn untagged(&self) -> Option<Untagged> {
        use zerocopy::FromBytes;
        let (control, rest) = Control::read_from_prefix(self.header()).ok()?;
        (!control.is_tagged()).then(|| Untagged::read_from_prefix(rest).ok()).flatten().map(|(header, _)| header)
    }
}

/// Returns the bytes of the DDP header that begins here.
fn ddp_len(header: &[u8]) -> Option<usize> {
    use zerocopy::FromBytes;
    let (control, _) = Control::read_from_prefix(header).ok()?;
    Some(2 + if control.is_tagged() { size_of::<Tagged>() } else { size_of::<Untagged>() })
}

/// A TERMINATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terminate {
    /// The error.
    pub error: TermError,
    /// Headers of the segment that caused it.
    pub copied: Option<CopiedHeaders>,
}

impl Terminate {
    /// Composes a message about a segment with this header and length.
    pub fn new(error: TermError, header: &[u8], ulpdu: u16) -> Terminate {
        let copied = if error.copies_headers() { CopiedHeaders::new(header, ulpdu) } else { None };
        Terminate { error, copied }
    }

    /// Reads the bytes after DDP's header. A repetition of headers that is cut short is ignored.
    pub fn parse(bytes: &[u8]) -> Option<(Terminate, TerminateOrder)> {
        let (&[kind, code, flags, _], rest) = bytes.split_first_chunk::<CONTROL_LEN>()?;
        let rfc = TermError { layer: kind >> 4, etype: kind & 0xf, code };
        let siw = TermError { layer: kind & 0xf, etype: kind >> 4, code };
        let is_siw = if flags == 0 { !rfc.is_known() && siw.is_known() } else { flags & 0xe0 == 0 };
        let (error, order, mdr) = if is_siw {
            (siw, TerminateOrder::Siw, [flags & 1, flags & 2, flags & 4])
        } else {
            (rfc, TerminateOrder::Rfc, [flags & 0x80, flags & 0x40, flags & 0x20])
        };
        let [has_len, has_ddp, has_rdmap] = mdr.map(|bit| bit != 0);
        let copied = (has_len && has_ddp).then(|| read_copied(rest, has_rdmap)).flatten();
        Some((Terminate { error, copied }, order))
    }

    /// Appends the bytes after DDP's header, in either order.
    pub fn write(&self, order: TerminateOrder, out: &mut Vec<u8>) {
        let ([kind, code, flags, reserved], copied) = self.parts();
        match order {
            TerminateOrder::Rfc => out.extend_from_slice(&[kind, code, flags, reserved]),
            TerminateOrder::Siw => {
                let flags = flags >> 7 & 1 | flags >> 5 & 2 | flags >> 3 & 4;
                out.extend_from_slice(&[kind.rotate_left(4), code, flags, reserved]);
            }
        }
        out.extend_from_slice(copied);
    }

    /// Returns its control bytes, as RFC 5040 orders them, and the headers that follow.
    pub fn parts(&self) -> ([u8; CONTROL_LEN], &[u8]) {
        let TermError { layer, etype, code } = self.error;
        let flags = self.copied.map_or(0, |copied| 0xc0 | if copied.has_rdmap { 0x20 } else { 0 });
        ([layer << 4 | etype & 0xf, code, flags, 0], self.copied.as_ref().map_or(&[], CopiedHeaders::as_slice))
    }
}

fn read_copied(bytes: &[u8], has_rdmap: bool) -> Option<CopiedHeaders> {
    let len = 2 + ddp_len(bytes.get(2..)?)? + if has_rdmap { size_of::<ReadRequest>() } else { 0 };
    let mut copied = CopiedHeaders { bytes: [0; COPIED_LEN_MAX], len: len as u8, has_rdmap };
    copied.bytes.get_mut(..len)?.copy_from_slice(bytes.get(..len)?);
    Some(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_of_bits_are_read() {
        for error in [TermError::UNTAGGED_NO_BUFFER, TermError::TAGGED_STAG, TermError::READ_BOUNDS] {
            let header = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
            let message = Terminate::new(error, &header, 82);
            for order in [TerminateOrder::Rfc, TerminateOrder::Siw] {
                let mut bytes = Vec::new();
                message.write(order, &mut bytes);
                assert_eq!(Terminate::parse(&bytes), Some((message, order)));
            }
        }
        // siw's report of a wrong CRC, without headers.
        let (message, order) = Terminate::parse(&[0x02, 0x02, 0, 0]).unwrap();
        assert_eq!((message.error, order), (rdmap(2, 2), TerminateOrder::Rfc), "ambiguous: the specification wins");
        assert_eq!(Terminate::parse(&[0; 3]), None);
        assert_eq!(Terminate::parse(&[0x12, 1, 0xc0, 0, 0, 0, 0x41]).unwrap().0.copied, None);
    }
}
