//! Capture files: a writer of pcapng (draft-ietf-opsawg-pcapng) and a reader of classic pcap, both over plain byte
//! buffers; the caller does the file I/O.

/// Direction of a packet, for the flags of an enhanced packet block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received.
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
    block(out, 0x0a0d_0d0a, |b| {
        b.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        b.extend_from_slice(&[1, 0, 0, 0]);
        b.extend_from_slice(&u64::MAX.to_le_bytes());
        option(b, 4, b"weft");
        option(b, 0, b"");
    });
    block(out, 1, |b| {
        b.extend_from_slice(&link_type.to_le_bytes());
        b.extend_from_slice(&[0; 6]);
        option(b, 2, &name.as_bytes()[..name.len().min(64)]);
        option(b, 9, &[9]);
        option(b, 0, b"");
    });
}

/// Appends one packet, at `time_ns` since the epoch.
pub fn put_packet(out: &mut Vec<u8>, time_ns: u64, direction: Direction, frame: &[u8]) {
    block(out, 6, |b| {
        b.extend_from_slice(&0_u32.to_le_bytes());
        b.extend_from_slice(&((time_ns >> 32) as u32).to_le_bytes());
        b.extend_from_slice(&(time_ns as u32).to_le_bytes());
        let len = (frame.len() as u32).to_le_bytes();
        b.extend_from_slice(&len);
        b.extend_from_slice(&len);
        b.extend_from_slice(frame);
        b.resize(b.len().next_multiple_of(4), 0);
        let flags = match direction {
            Direction::Inbound => 1_u32,
            Direction::Outbound => 2,
        };
        option(b, 2, &flags.to_le_bytes());
        option(b, 0, b"");
    });
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
