//! Cuts a packet into segments, as an adapter with TSO and USO does: headers are repeated, with each segment's length, IPv4
//! identification, TCP sequence number and flags, and checksums.

use crate::checksum::{complete, fold, internet_checksum};
use crate::ip_payload::{IPV4_LEN, IPV6_LEN, ipv4_header_len};
use crate::offload::{Segmentation, Transport};

/// Flags of TCP. FIN and PSH stand for the end of the data, CWR answers once (RFC 3168 §6.1.2).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Returns the segments of a packet with a payload of this length.
pub(crate) fn count(packet: &[u8], how: &Segmentation) -> usize {
    packet.len().saturating_sub(how.headers).div_ceil(how.size.get())
}

/// Appends a segment to `out`; returns whether there is one with this number.
#[must_use]
pub(crate) fn cut(packet: &[u8], how: &Segmentation, number: usize, out: &mut Vec<u8>) -> bool {
    let Some((headers, payload)) = packet.split_at_checked(how.headers) else { return false };
    let Some(part) = payload.chunks(how.size.get()).nth(number) else { return false };
    let (from, is_last) = (out.len(), number + 1 == count(packet, how));
    out.extend_from_slice(headers);
    out.extend_from_slice(part);
    let segment = out.get_mut(from..).unwrap_or_default();
    set_ip_header(segment, number);
    set_checksum_start(segment, how, packet.len().saturating_sub(how.checksum.start));
    match how.transport {
        Transport::Tcp => set_tcp_header(segment, how, number, is_last),
        Transport::Udp => set_udp_length(segment, how),
    }
    complete(segment, how.checksum.start, how.checksum.at);
    true
}

fn set_ip_header(segment: &mut [u8], number: usize) {
    let length = segment.len();
    match segment.first().map_or(0, |first| first >> 4) {
        4 => set_ipv4_header(segment, number),
        _ => write_u16(segment, 4, length.saturating_sub(IPV6_LEN)),
    }
}

fn set_ipv4_header(segment: &mut [u8], number: usize) {
    let length = segment.len();
    let Some(header) = segment.first_chunk::<IPV4_LEN>() else { return };
    let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number as u16);
    let header_len = ipv4_header_len(header[0]);
    write_u16(segment, 2, length);
    write_u16(segment, 4, id.into());
    write_u16(segment, 10, 0);
    let sum = internet_checksum(&[segment.get(..header_len).unwrap_or_default()]);
    write_u16(segment, 10, sum.into());
}

/// Replaces the length in the sum of the pseudo header. The rest of that sum stays: behind a routing header of IPv6, the
/// destination in it is not the header's.
fn set_checksum_start(segment: &mut [u8], how: &Segmentation, old_len: usize) {
    let new_len = segment.len().saturating_sub(how.checksum.start);
    let Some(field) = segment.get(how.checksum.at..).and_then(|rest| rest.first_chunk()) else { return };
    let sum = u64::from(u16::from_be_bytes(*field)) + u64::from(!(old_len as u16)) + new_len as u64;
    write_u16(segment, how.checksum.at, fold(sum).into());
}

fn set_tcp_header(segment: &mut [u8], how: &Segmentation, number: usize, is_last: bool) {
    let start = how.checksum.start;
    let Some(header) = segment.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<14>()) else { return };
    let [.., s0, s1, s2, s3, _, _, _, _, _, flags] = header;
    let sequence = u32::from_be_bytes([*s0, *s1, *s2, *s3]).wrapping_add((number * how.size.get()) as u32);
    [*s0, *s1, *s2, *s3] = sequence.to_be_bytes();
    if !is_last {
        *flags &= !(FIN | PSH);
    }
    if number > 0 {
        *flags &= !CWR;
    }
}

fn set_udp_length(segment: &mut [u8], how: &Segmentation) {
    write_u16(segment, how.checksum.start + 4, segment.len().saturating_sub(how.checksum.start));
}

fn write_u16(bytes: &mut [u8], at: usize, number: usize) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = (number as u16).to_be_bytes();
    }
}
