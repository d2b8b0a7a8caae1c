//! The invariant CRC (IBA 7.8.1, and A17.3.3 for RoCE v2): a CRC-32 over all fields that no router changes. Fields that
//! do change count as ones: the LRH's virtual lane, or eight bytes in place of the LRH if a GRH or IP header follows;
//! the GRH's and IPv6's class, flow label and hop limit; IPv4's TOS, TTL and checksum; the UDP checksum; the BTH's
//! reserved byte (which contains FECN and BECN).
//!
//! It covers IPv4's identification, but a UDP receiver never sees that field. A CRC is linear, so the difference
//! between the received CRC and the CRC computed for identification 0 tells whether one of the 65,536 identifications
//! explains it, and which: [`solve_ip_id`]. A corrupted packet passes with odds of 2^-16, so it complements the UDP
//! checksum.

use std::net::{Ipv4Addr, Ipv6Addr};

use crc32fast::Hasher;

/// Length of the UDP header in bytes.
const UDP_LEN: usize = 8;

/// The addresses and source port that an ICRC of RoCE v2 covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Over IPv4, with DF set as every RoCE v2 sender does.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
        /// UDP source port.
        sport: u16,
    },
    /// Over IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
        /// UDP source port.
        sport: u16,
    },
}

impl Flow {
    /// Computes the CRC over the masked LRH, IP and UDP headers of a packet whose BTH to ICRC takes `ib_len` bytes. The
    /// IPv4 identification is `ip_id` (ignored for IPv6).
    pub fn seed(&self, ib_len: usize, ip_id: u16) -> u32 {
        let udp_len = ((ib_len + UDP_LEN) as u16).to_be_bytes();
        let mut h = [0xff_u8; 8 + 40 + UDP_LEN];
        let (ip_end, sport) = match self {
            Flow::V4 { src, dst, sport } => {
                h[8] = 0x45;
                h[10..12].copy_from_slice(&((ib_len + UDP_LEN + 20) as u16).to_be_bytes());
                h[12..14].copy_from_slice(&ip_id.to_be_bytes());
                h[14..16].copy_from_slice(&[0x40, 0]);
                h[17] = 17;
                h[20..24].copy_from_slice(&src.octets());
                h[24..28].copy_from_slice(&dst.octets());
                (28, *sport)
            }
            Flow::V6 { src, dst, sport } => {
                h[8] = 0x6f;
                h[12..14].copy_from_slice(&udp_len);
                h[14] = 17;
                h[16..32].copy_from_slice(&src.octets());
                h[32..48].copy_from_slice(&dst.octets());
                (48, *sport)
            }
        };
        h[ip_end..ip_end + 2].copy_from_slice(&sport.to_be_bytes());
        h[ip_end + 2..ip_end + 4].copy_from_slice(&crate::ROCE_V2_PORT.to_be_bytes());
        h[ip_end + 4..ip_end + 6].copy_from_slice(&udp_len);
        crc32fast::hash(&h[..ip_end + UDP_LEN])
    }

    /// As [`Flow::seed`], derived from the seed for identification 0.
    #[inline]
    pub fn with_ip_id(&self, seed_of_0: u32, ip_id: u16) -> u32 {
        match self {
            Flow::V4 { .. } => seed_of_0 ^ ip_id_change(ip_id),
            Flow::V6 { .. } => seed_of_0,
        }
    }

    /// Returns the number of bytes that the CRC covers after the IPv4 identification.
    pub fn bytes_after_id(ib_len: usize) -> usize {
        14 + UDP_LEN + ib_len.saturating_sub(4)
    }
}

/// Computes the CRC over the masked LRH and GRH of a packet with a GRH, InfiniBand's or RoCE v1's (IBA A16): class,
/// flow label and hop limit count as ones.
pub fn seed_grh(grh: &crate::grh::Grh) -> u32 {
    use zerocopy::IntoBytes;
    let mut h = [0xff_u8; 48];
    h[8..].copy_from_slice(grh.as_bytes());
    h[8] = 0x6f;
    h[9..12].fill(0xff);
    h[15] = 0xff;
    crc32fast::hash(&h)
}

/// Computes the CRC over the LRH of a packet without GRH, whose virtual lane counts as ones. The seed of a packet with
/// a GRH is [`seed_grh`]'s, because each subnet replaces the LRH.
pub fn seed_lrh(lrh: &crate::lrh::Lrh) -> u32 {
    use zerocopy::IntoBytes;
    let mut masked = *lrh;
    masked.set_vl(0xf);
    crc32fast::hash(masked.as_bytes())
}

/// An ICRC computation in progress: seeded with the headers below the BTH, fed with the BTH and all bytes after it.
#[derive(Clone, Debug)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Continues from a seed.
    #[inline]
    pub fn new(seed: u32) -> Icrc {
        Icrc(Hasher::new_with_initial(seed))
    }

    /// Starts with the BTH and the headers that follow it, in one pass; its reserved byte (the fifth) counts as ones.
    #[inline]
    pub fn begin(seed: u32, bytes: &[u8]) -> Icrc {
        if bytes.get(RESERVED_AT) == Some(&0) {
            let mut crc = Icrc::new(seed ^ RESERVED_CHANGE);
            crc.update(bytes);
            return crc;
        }
        let mut crc = Icrc::new(seed);
        crc.header(bytes);
        crc
    }

    /// Feeds the BTH and the headers that follow it; its reserved byte (the fifth) counts as ones.
    #[inline]
    pub fn header(&mut self, bytes: &[u8]) {
        match bytes.split_at_checked(5) {
            Some((head, rest)) => {
                self.0.update(&[head[0], head[1], head[2], head[3], 0xff]);
                self.0.update(rest);
            }
            None => self.0.update(bytes),
        }
    }

    /// Feeds payload or padding.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the CRC, which goes on the wire least significant byte first.
    #[inline]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Returns the ICRC of the bytes from BTH to ICRC (without the last four).
#[inline]
pub fn of_packet(seed: u32, ib: &[u8]) -> u32 {
    Icrc::begin(seed, &ib[..ib.len().saturating_sub(4)]).finish()
}

/// Returns the ICRC of a FLUSH, which has no payload, as Linux's rxe computes and checks it: the BTH and the headers
/// after it, and then the same bytes once more, unmasked (6.2 and later; its opcode table places the payload at the
/// BTH). `ib` is BTH to ICRC; the last four bytes are ignored.
#[cold]
pub fn of_flush_by_rxe(seed: u32, ib: &[u8]) -> u32 {
    let bytes = &ib[..ib.len().saturating_sub(4)];
    let mut crc = Icrc::begin(seed, bytes);
    crc.update(bytes);
    crc.finish()
}

/// As [`explain`], for an ICRC that [`of_flush_by_rxe`] computed.
#[cold]
pub fn explain_flush_by_rxe(flow: &Flow, ib_len: usize, delta: u32) -> Option<u16> {
    match flow {
        Flow::V4 { .. } => solve_ip_id(delta, Flow::bytes_after_id(ib_len) + ib_len.saturating_sub(4)),
        Flow::V6 { .. } => (delta == 0).then_some(0),
    }
}

/// Offset of the BTH's reserved byte.
const RESERVED_AT: usize = 4;

/// Change of the CRC register, shifted back to before the BTH, when ones replace a reserved byte of zeros. The CRC is
/// linear, so this can be part of the seed, and the packet's bytes are read unmasked.
const RESERVED_CHANGE: u32 = apply(&UNSHIFT[RESERVED_AT.ilog2() as usize], 0xff);

/// Verifies a RoCE v2 packet (BTH to ICRC) with unknown IPv4 identification; tries `guess` first. Returns the matching
/// identification (0 for IPv6).
pub fn verify(flow: &Flow, ib: &[u8], guess: u16) -> Option<u16> {
    let found = crate::Packet::icrc(ib)?;
    let delta = of_packet(flow.seed(ib.len(), guess), ib) ^ found;
    if delta == 0 {
        return Some(guess);
    }
    explain(flow, ib.len(), delta).map(|change| change ^ guess)
}

/// Returns the change of the identification that explains a CRC difference of `delta` in a packet of `ib_len` bytes.
/// `None`: no change does, so the packet is corrupt.
#[cold]
pub fn explain(flow: &Flow, ib_len: usize, delta: u32) -> Option<u16> {
    match flow {
        Flow::V4 { .. } => solve_ip_id(delta, Flow::bytes_after_id(ib_len)),
        Flow::V6 { .. } => None,
    }
}

/// Returns the 16-bit change of the IPv4 identification, `bytes_after` bytes before the end of the covered bytes, that
/// changes the CRC by `delta`. `None`: there is none, so the packet is corrupt.
pub fn solve_ip_id(delta: u32, bytes_after: usize) -> Option<u16> {
    // The CRC of a two-byte difference followed by zeros is the register value (first | second << 8), shifted through
    // the two bytes themselves and all that follow; shift it back.
    let mut register = delta;
    let mut n = bytes_after + 2;
    for matrix in &UNSHIFT {
        if n & 1 != 0 {
            register = apply(matrix, register);
        }
        n >>= 1;
    }
    if n != 0 || register >> 16 != 0 {
        return None;
    }
    Some(u16::from_be_bytes([register as u8, (register >> 8) as u8]))
}

/// Returns the change of a seed that an identification makes, whatever the other headers hold: the CRC is linear.
#[inline]
fn ip_id_change(ip_id: u16) -> u32 {
    let [high, low] = ip_id.to_be_bytes();
    IP_ID_CHANGE[0][usize::from(high)] ^ IP_ID_CHANGE[1][usize::from(low)]
}

/// Changes for each value of the identification's first and second byte.
static IP_ID_CHANGE: [[u32; 256]; 2] = ip_id_changes();

const fn ip_id_changes() -> [[u32; 256]; 2] {
    /// From the flags to the end of the UDP header.
    const BYTES_AFTER: usize = 14 + UDP_LEN;
    let mut all = [[0; 256]; 2];
    let mut byte = 0;
    while byte < 2 {
        let mut value: usize = 1;
        while value < 256 {
            let low_bit = value & value.wrapping_neg();
            all[byte][value] = if low_bit == value {
                shift(value as u32, BYTES_AFTER + 2 - byte)
            } else {
                all[byte][value ^ low_bit] ^ all[byte][low_bit]
            };
            value += 1;
        }
        byte += 1;
    }
    all
}

/// Shifts the register through this many zero bytes.
const fn shift(mut register: u32, bytes: usize) -> u32 {
    let mut bit = 0;
    while bit < bytes * 8 {
        register = if register & 1 != 0 { register >> 1 ^ POLY } else { register >> 1 };
        bit += 1;
    }
    register
}

/// CRC-32's polynomial, least significant bit first.
const POLY: u32 = 0xedb8_8320;

type Matrix = [u32; 32];

/// Operators that undo 2^k zero bytes, for packets up to 128 KiB.
static UNSHIFT: [Matrix; 17] = unshift();

const fn apply(matrix: &Matrix, mut vector: u32) -> u32 {
    let mut sum = 0;
    let mut i = 0;
    while vector != 0 {
        if vector & 1 != 0 {
            sum ^= matrix[i];
        }
        vector >>= 1;
        i += 1;
    }
    sum
}

const fn unshift() -> [Matrix; 17] {
    let mut all = [[0; 32]; 17];
    let mut i = 0;
    while i < 32 {
        let mut v = 1_u32 << i;
        let mut bit = 0;
        while bit < 8 {
            v = if v >> 31 != 0 { (v ^ POLY) << 1 | 1 } else { v << 1 };
            bit += 1;
        }
        all[0][i] = v;
        i += 1;
    }
    let mut k = 1;
    while k < 17 {
        let mut i = 0;
        while i < 32 {
            all[k][i] = apply(&all[k - 1], all[k - 1][i]);
            i += 1;
        }
        k += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_identification_is_found_and_damage_is_not() {
        let flow = Flow::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2), sport: 0xc123 };
        for len in [16, 100, 1052, 4124] {
            let mut ib: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            for id in [0, 1, 0x00ff, 0xff00, 0x1234, 0xffff] {
                assert_eq!(flow.with_ip_id(flow.seed(len, 0), id), flow.seed(len, id));
                let crc = of_packet(flow.seed(len, id), &ib);
                ib[len - 4..].copy_from_slice(&crc.to_le_bytes());
                assert_eq!(verify(&flow, &ib, 0), Some(id));
                assert_eq!(verify(&flow, &ib, id), Some(id));
                let mut bad = ib.clone();
                bad[13] ^= 0x40;
                assert_eq!(verify(&flow, &bad, 0), None);
            }
        }
    }

    #[test]
    fn the_reserved_byte_counts_as_ones_whatever_it_holds() {
        for len in [12, 13, 16, 28, 100, 1052] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * 11 + 1) as u8).collect();
            let mut ones = bytes.clone();
            ones[RESERVED_AT] = 0xff;
            let mut whole = Icrc::new(0x1234_5678);
            whole.update(&ones);
            let want = whole.finish();
            for reserved in [0, 1, 0x40, 0x80, 0xc0, 0xff] {
                bytes[RESERVED_AT] = reserved;
                assert_eq!(Icrc::begin(0x1234_5678, &bytes).finish(), want, "{len} bytes, {reserved:#x}");
            }
        }
        assert_eq!(Icrc::begin(7, &[1, 2]).finish(), {
            let mut crc = Icrc::new(7);
            crc.update(&[1, 2]);
            crc.finish()
        });
    }
}
