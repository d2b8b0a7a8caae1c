//! Whole frames: RoCE v2 over IPv4 and IPv6, RoCE v1. Sockets build these headers themselves; captures, raw links and
//! tests need them as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, IntoBytes};

use crate::grh::Grh;
use crate::icrc::{self, Flow, Icrc};
use crate::packet::{ICRC_LEN, pad_for};
use crate::{ROCE_V1_ETHERTYPE, ROCE_V2_PORT, WireError};

/// Header fields of a packet that a UDP socket hides, or sets itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpMeta {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// UDP source port.
    pub sport: u16,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv4 identification.
    pub ip_id: u16,
}

impl IpMeta {
    /// Returns the flow for the ICRC; `None` if the families differ.
    pub fn flow(&self) -> Option<Flow> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Flow::V4 { src, dst, sport: self.sport }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Flow::V6 { src, dst, sport: self.sport }),
            _ => None,
        }
    }
}

/// Joins `header` (BTH and extended headers) and `payload`, and appends padding and ICRC.
pub fn seal(seed_of_len: impl FnOnce(usize) -> u32, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let pad = pad_for(payload.len());
    let len = header.len() + payload.len() + pad + ICRC_LEN;
    let mut ib = Vec::with_capacity(len);
    ib.extend_from_slice(header);
    ib.extend_from_slice(payload);
    ib.resize(len - ICRC_LEN, 0);
    let mut crc = Icrc::new(seed_of_len(len));
    crc.header(&ib);
    ib.extend_from_slice(&crc.finish().to_le_bytes());
    ib
}

/// Appends IP and UDP headers and `ib` (BTH to ICRC), as in a capture. The UDP checksum is 0 over IPv4 and correct over
/// IPv6.
pub fn put_v2(out: &mut Vec<u8>, meta: &IpMeta, ib: &[u8]) {
    let udp_len = (ib.len() + 8) as u16;
    match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => put_v4(out, meta, src, dst, udp_len + 20),
        (src, dst) => put_v6(out, meta, to_v6(src), to_v6(dst), udp_len),
    }
    let udp = out.len();
    out.extend_from_slice(&meta.sport.to_be_bytes());
    out.extend_from_slice(&ROCE_V2_PORT.to_be_bytes());
    out.extend_from_slice(&udp_len.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(ib);
    if !(meta.src.is_ipv4() && meta.dst.is_ipv4()) {
        let (src, dst) = (to_v6(meta.src).octets(), to_v6(meta.dst).octets());
        let pseudo = [&src[..], &dst, &[0, 0], &udp_len.to_be_bytes(), &[0, 0, 0, 17], &out[udp..]];
        let sum = match checksum(&pseudo) {
            0 => 0xffff,
            sum => sum,
        };
        out[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
    }
}

fn to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn put_v4(out: &mut Vec<u8>, meta: &IpMeta, src: Ipv4Addr, dst: Ipv4Addr, total: u16) {
    let start = out.len();
    out.extend_from_slice(&[0x45, meta.traffic_class]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&meta.ip_id.to_be_bytes());
    out.extend_from_slice(&[0x40, 0, meta.hop_limit, 17, 0, 0]);
    out.extend_from_slice(&src.octets());
    out.extend_from_slice(&dst.octets());
    let sum = checksum(&[&out[start..]]);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

fn put_v6(out: &mut Vec<u8>, meta: &IpMeta, src: Ipv6Addr, dst: Ipv6Addr, udp_len: u16) {
    let word = 6 << 28 | u32::from(meta.traffic_class) << 20;
    out.extend_from_slice(&word.to_be_bytes());
    out.extend_from_slice(&udp_len.to_be_bytes());
    out.extend_from_slice(&[17, meta.hop_limit]);
    out.extend_from_slice(&src.octets());
    out.extend_from_slice(&dst.octets());
}

/// Computes the Internet checksum (RFC 1071); every part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Finds a RoCE v2 packet in an Ethernet frame: returns the lower headers' fields, and BTH to ICRC. `None` for all
/// other frames, and for IP options or fragments.
pub fn parse_v2_frame(frame: &[u8]) -> Option<(IpMeta, &[u8])> {
    let mut ethertype = frame.get(12..14)?;
    let mut ip = frame.get(14..)?;
    if ethertype == [0x81, 0x00] {
        ethertype = ip.get(2..4)?;
        ip = ip.get(4..)?;
    }
    match ethertype {
        [0x08, 0x00] => parse_v4(ip),
        [0x86, 0xdd] => parse_v6(ip),
        _ => None,
    }
}

fn parse_v4(ip: &[u8]) -> Option<(IpMeta, &[u8])> {
    let h = ip.first_chunk::<20>()?;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
    if h[0] != 0x45 || h[9] != 17 || fragment != 0 {
        return None;
    }
    let (sport, ib) = parse_udp(ip.get(20..total)?)?;
    let meta = IpMeta {
        src: Ipv4Addr::from([h[12], h[13], h[14], h[15]]).into(),
        dst: Ipv4Addr::from([h[16], h[17], h[18], h[19]]).into(),
        sport,
        traffic_class: h[1],
        hop_limit: h[8],
        ip_id: u16::from_be_bytes([h[4], h[5]]),
    };
    Some((meta, ib))
}

fn parse_v6(ip: &[u8]) -> Option<(IpMeta, &[u8])> {
    let (grh, rest) = Grh::read_from_prefix(ip).ok()?;
    if grh.version() != 6 || grh.next_header() != 17 {
        return None;
    }
    let (sport, ib) = parse_udp(rest.get(..usize::from(grh.payload_len()))?)?;
    let meta = IpMeta {
        src: Ipv6Addr::from(grh.sgid()).into(),
        dst: Ipv6Addr::from(grh.dgid()).into(),
        sport,
        traffic_class: grh.traffic_class(),
        hop_limit: grh.hop_limit(),
        ip_id: 0,
    };
    Some((meta, ib))
}

fn parse_udp(udp: &[u8]) -> Option<(u16, &[u8])> {
    let h = udp.first_chunk::<8>()?;
    if u16::from_be_bytes([h[2], h[3]]) != ROCE_V2_PORT {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    Some((u16::from_be_bytes([h[0], h[1]]), udp.get(8..len)?))
}

/// Builds a RoCE v1 frame: Ethernet, GRH, BTH and headers, payload, padding, ICRC (IBA A16).
pub fn build_v1_frame(
    macs: [[u8; 6]; 2],
    grh_of_len: impl FnOnce(u16) -> Grh,
    header: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let len = header.len() + payload.len() + pad_for(payload.len()) + ICRC_LEN;
    let grh = grh_of_len(len as u16);
    let ib = seal(|_| icrc::seed_grh(&grh), header, payload);
    let mut frame = Vec::with_capacity(14 + Grh::LEN + ib.len());
    frame.extend_from_slice(&macs[1]);
    frame.extend_from_slice(&macs[0]);
    frame.extend_from_slice(&ROCE_V1_ETHERTYPE.to_be_bytes());
    frame.extend_from_slice(grh.as_bytes());
    frame.extend_from_slice(&ib);
    frame
}

/// Splits a RoCE v1 frame into its GRH and BTH to ICRC, and verifies the ICRC.
pub fn parse_v1_frame(frame: &[u8]) -> Result<(Grh, &[u8]), WireError> {
    let body = frame.get(14..).ok_or(WireError::Short)?;
    if frame[12..14] != ROCE_V1_ETHERTYPE.to_be_bytes() {
        return Err(WireError::Short);
    }
    let (grh, ib) = split_v1(body)?;
    match crate::Packet::icrc(ib) {
        Some(found) if found == icrc::of_packet(icrc::seed_grh(&grh), ib) => Ok((grh, ib)),
        _ => Err(WireError::Padding),
    }
}

/// Splits the bytes after the Ethernet header into the GRH, and BTH to ICRC, without a short frame's padding. Does not
/// check the ICRC.
pub fn split_v1(body: &[u8]) -> Result<(Grh, &[u8]), WireError> {
    let (grh, rest) = Grh::read_from_prefix(body).map_err(|_| WireError::Short)?;
    if grh.version() != 6 || grh.next_header() != Grh::NEXT_HEADER_IBA {
        return Err(WireError::Version(grh.version()));
    }
    let ib = rest.get(..usize::from(grh.payload_len())).ok_or(WireError::Short)?;
    Ok((grh, ib))
}
