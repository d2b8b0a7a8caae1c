//! Capture files: a writer of pcapng (draft-ietf-opsawg-pcapng) and a reader of classic pcap, both over plain byte
//! buffers; the caller does the file I/O.

/// Direction of a packet, for the flags of an enhanced packet block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Received.
    #[default]
    Inbound,
    /// Sent.
    Outbound,
}

/// Link type of Ethernet frames.
pub const LINKTYPE_ETHERNET: u16 = 1;
/// Link type of ERF records, which hold packets of many kinds. InfiniBand has its own link type (247), but Wireshark
/// does not read it.
pub const LINKTYPE_ERF: u16 = 197;
/// ERF type of InfiniBand packets, LRH to VCRC.
const ERF_INFINIBAND: u8 = 21;
/// Length of an ERF record's header in bytes.
const ERF_HEAD: usize = 16;
/// Maximum length of an interface's name in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Maximum length of a packet's comment in bytes.
const COMMENT_BYTES_MAX: usize = 1024;
/// ERF flag: packets are not padded to a fixed length.
const ERF_VARIABLE_LENGTH: u8 = 4;

/// Appends an InfiniBand packet, LRH to VCRC, as an ERF record, at `time_ns` since the epoch.
pub fn put_infiniband(out: &mut Vec<u8>, time_ns: u64, packet: &[u8]) {
    const SECOND: u64 = 1_000_000_000;
    let fraction = ((time_ns % SECOND) << 32) / SECOND;
    out.extend_from_slice(&((time_ns / SECOND) << 32 | fraction).to_le_bytes());
    out.extend_from_slice(&[ERF_INFINIBAND, ERF_VARIABLE_LENGTH]);
    out.extend_from_slice(&((ERF_HEAD + packet.len()) as u16).to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    out.extend_from_slice(packet);
}

/// Appends a section header and the description of one interface called `name`, timestamps in nanoseconds.
pub fn put_header(out: &mut Vec<u8>, name: &str, link_type: u16) {
    put_section(out);
    put_interface(out, name, link_type);
}

/// Appends a section header. Interfaces follow, each with its number in their order.
pub fn put_section(out: &mut Vec<u8>) {
    block(out, 0x0a0d_0d0a, |b| {
        b.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        b.extend_from_slice(&[1, 0, 0, 0]);
        b.extend_from_slice(&u64::MAX.to_le_bytes());
        option(b, 4, b"weft");
        option(b, 0, b"");
    });
}

/// Appends the description of an interface called `name`, timestamps in nanoseconds.
pub fn put_interface(out: &mut Vec<u8>, name: &str, link_type: u16) {
    block(out, 1, |b| {
        b.extend_from_slice(&link_type.to_le_bytes());
        b.extend_from_slice(&[0; 6]);
        option(b, 2, cut(name, NAME_BYTES_MAX));
        option(b, 9, &[9]);
        option(b, 0, b"");
    });
}

/// A packet of which the beginning was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedPacket<'a> {
    /// Number of its interface.
    pub interface: u32,
    /// Nanoseconds since the epoch.
    pub time_ns: u64,
    /// Direction.
    pub direction: Direction,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// Length of the whole packet.
    pub original_len: u32,
    /// A remark for the reader; none if empty.
    pub comment: &'a str,
}

/// Appends one packet, at `time_ns` since the epoch, to the first interface.
pub fn put_packet(out: &mut Vec<u8>, time_ns: u64, direction: Direction, frame: &[u8]) {
    let original_len = frame.len() as u32;
    put_captured(out, &CapturedPacket { interface: 0, time_ns, direction, frame, original_len, comment: "" });
}

/// Appends a packet of which the beginning was captured.
pub fn put_captured(out: &mut Vec<u8>, packet: &CapturedPacket<'_>) {
    block(out, 6, |b| {
        b.extend_from_slice(&packet.interface.to_le_bytes());
        b.extend_from_slice(&((packet.time_ns >> 32) as u32).to_le_bytes());
        b.extend_from_slice(&(packet.time_ns as u32).to_le_bytes());
        b.extend_from_slice(&(packet.frame.len() as u32).to_le_bytes());
        b.extend_from_slice(&packet.original_len.to_le_bytes());
        b.extend_from_slice(packet.frame);
        b.resize(b.len().next_multiple_of(4), 0);
        if !packet.comment.is_empty() {
            option(b, 1, cut(packet.comment, COMMENT_BYTES_MAX));
        }
        let flags = match packet.direction {
            Direction::Inbound => 1_u32,
            Direction::Outbound => 2,
        };
        option(b, 2, &flags.to_le_bytes());
        option(b, 0, b"");
    });
}

/// Returns the whole characters of a text that fit into this many bytes.
fn cut(text: &str, bytes_max: usize) -> &[u8] {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text.as_bytes()[..end]
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let pad = (out.len() - start).next_multiple_of(4);
    out.resize(start + pad, 0);
    let len = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&len);
    out.extend_from_slice(&len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + (value.len().wrapping_neg() & 3), 0);
}

/// Iterates over the frames of a classic little-endian pcap file; stops at the first invalid record.
pub fn frames(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let known = matches!(file.first_chunk::<4>(), Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]));
    let mut rest = if known { file.get(24..).unwrap_or(&[]) } else { &[] };
    std::iter::from_fn(move || {
        let head = rest.first_chunk::<16>()?;
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let frame = rest.get(16..16_usize.checked_add(len)?)?;
        rest = &rest[16 + len..];
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_may_be_captured_in_part() {
        let mut out = Vec::new();
        let packet = CapturedPacket {
            interface: 1,
            time_ns: 1 << 32 | 5,
            direction: Direction::Outbound,
            frame: &[7; 5],
            original_len: 1500,
            comment: "hi",
        };
        put_captured(&mut out, &packet);
        let words: Vec<u32> = out.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words[..7], [6, out.len() as u32, 1, 1, 5, 5, 1500]);
        assert_eq!(out[28..36], [7, 7, 7, 7, 7, 0, 0, 0]);
        assert_eq!(out[36..44], [1, 0, 2, 0, b'h', b'i', 0, 0]);
        assert_eq!(words.last(), Some(&(out.len() as u32)));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!((cut("a\u{e4}b", 2), cut("ab", 9), cut("", 1)), (&b"a"[..], &b"ab"[..], &b""[..]));
    }
}
