//! A packet on the links of an InfiniBand subnet (IBA 5.2.1): LRH, optional GRH, BTH to ICRC, VCRC. This module reads
//! the fields that switches need and rewrites those that switches change (the virtual lane, and the VCRC with it).

use zerocopy::{FromBytes, IntoBytes};

use crate::bth::Bth;
use crate::ext::Deth;
use crate::grh::Grh;
use crate::icrc;
use crate::lrh::{Lrh, NextHeader};
use crate::opcode::Opcode;
use crate::packet::{HeaderBuf, Headers, ICRC_LEN, Packet, WireError, pad_for};
use crate::psn::Psn;
use crate::vcrc;

/// Length of the VCRC in bytes.
pub const VCRC_LEN: usize = 2;
/// Maximum length: all headers, 4096 bytes of payload, ICRC and VCRC.
pub const LINK_PACKET_MAX: usize = Lrh::LEN + Grh::LEN + crate::packet::HEADERS_MAX + 4096 + ICRC_LEN + VCRC_LEN;

/// The parts of a packet, LRH to VCRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkPacket<'a> {
    /// Local Route Header.
    pub lrh: Lrh,
    /// Global Route Header, if present.
    pub grh: Option<Grh>,
    /// BTH to ICRC.
    pub ib: &'a [u8],
    /// VCRC.
    pub vcrc: u16,
}

impl<'a> LinkPacket<'a> {
    /// Splits a packet into its parts, if the lengths agree. Checks neither CRC, nor the bytes after the BTH.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkPacket<'a>, WireError> {
        let (packet, vcrc) = bytes.split_last_chunk::<VCRC_LEN>().ok_or(WireError::Short)?;
        let (lrh, rest) = Lrh::read_from_prefix(packet).map_err(|_| WireError::Short)?;
        if usize::from(lrh.packet_length()) * 4 != packet.len() {
            return Err(WireError::Padding);
        }
        if lrh.link_version() != 0 {
            return Err(WireError::Version(lrh.link_version()));
        }
        let (grh, ib) = match lrh.next_header() {
            NextHeader::Bth => (None, rest),
            NextHeader::Grh => {
                let (grh, ib) = Grh::read_from_prefix(rest).map_err(|_| WireError::Short)?;
                (Some(grh), ib)
            }
            NextHeader::RawEthertype | NextHeader::RawIpv6 => return Err(WireError::Short),
        };
        if let Some(grh) = &grh {
            if grh.version() != 6 {
                return Err(WireError::Version(grh.version()));
            }
            if grh.next_header() != Grh::NEXT_HEADER_IBA || usize::from(grh.payload_len()) != ib.len() {
                return Err(WireError::Padding);
            }
        }
        if ib.len() < Bth::LEN + ICRC_LEN {
            return Err(WireError::Short);
        }
        Ok(LinkPacket { lrh, grh, ib, vcrc: u16::from_le_bytes(*vcrc) })
    }

    /// Returns the Base Transport Header.
    pub fn bth(&self) -> Option<Bth> {
        Bth::read_from_prefix(self.ib).ok().map(|(bth, _)| bth)
    }

    /// Whether the ICRC is correct.
    pub fn icrc_holds(&self) -> bool {
        Packet::icrc(self.ib) == Some(icrc::of_packet(seed(&self.lrh, self.grh.as_ref()), self.ib))
    }
}

/// Returns the ICRC seed of the headers below the BTH.
pub fn seed(lrh: &Lrh, grh: Option<&Grh>) -> u32 {
    grh.map_or_else(|| icrc::seed_lrh(lrh), icrc::seed_grh)
}

/// Whether the VCRC at the end of a packet is correct.
pub fn vcrc_holds(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(packet, found)| vcrc::of(packet).to_le_bytes() == *found)
}

/// Sets the virtual lane of a packet, and updates its VCRC.
pub fn set_vl(bytes: &mut [u8], vl: u8) {
    if let Ok((lrh, _)) = Lrh::mut_from_prefix(bytes)
        && lrh.vl() != vl
    {
        lrh.set_vl(vl);
        put_vcrc(bytes);
    }
}

/// Writes the VCRC into the last two bytes.
pub fn put_vcrc(bytes: &mut [u8]) {
    if let Some((packet, room)) = bytes.split_last_chunk_mut::<VCRC_LEN>() {
        *room = vcrc::of(packet).to_le_bytes();
    }
}

/// Appends to `out` the headers in front of the BTH, for a packet with this many bytes from BTH to ICRC. Returns the
/// seed of its ICRC.
pub fn put_headers(out: &mut Vec<u8>, lane: (u8, u8), lids: [u16; 2], grh: Option<&Grh>, ib_len: usize) -> u32 {
    let (vl, sl) = lane;
    let [slid, dlid] = lids;
    let next = if grh.is_some() { NextHeader::Grh } else { NextHeader::Bth };
    let bytes = Lrh::LEN + grh.map_or(0, |_| Grh::LEN) + ib_len;
    let lrh = Lrh::new(vl, sl, next, dlid, slid, (bytes / 4) as u16);
    out.extend_from_slice(lrh.as_bytes());
    out.extend_from_slice(grh.map_or(&[], |grh| grh.as_bytes()));
    seed(&lrh, grh)
}

/// Opcode of a UD packet without immediate data.
pub const UD_SEND_ONLY: Opcode = Opcode(0x64);

/// The Global Route Header of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramRoute {
    /// Traffic class.
    pub class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source and destination GID.
    pub gids: [[u8; 16]; 2],
}

/// The header fields of a UD packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Virtual lane.
    pub vl: u8,
    /// Service level.
    pub sl: u8,
    /// Source and destination LID.
    pub lids: [u16; 2],
    /// Its GRH, if it has one.
    pub route: Option<DatagramRoute>,
    /// P_Key.
    pub pkey: u16,
    /// Packet sequence number.
    pub psn: Psn,
    /// Source and destination queue pair.
    pub qps: [u32; 2],
    /// Q_Key.
    pub qkey: u32,
}

impl Datagram {
    /// Writes the packet, LRH to VCRC.
    pub fn write(&self, payload: &[u8]) -> Vec<u8> {
        let [src_qp, dest_qp] = self.qps;
        let bth = Bth::new(UD_SEND_ONLY, self.pkey, dest_qp, self.psn);
        let ext = Headers { deth: Some(Deth::new(self.qkey, src_qp)), ..Headers::default() };
        let head = HeaderBuf::write(bth, &ext, payload.len());
        let pad = pad_for(payload.len());
        let ib_len = head.as_slice().len() + payload.len() + pad + ICRC_LEN;
        let grh = self.route.map(|route| {
            let (class, flow) = (route.class, route.flow_label);
            Grh::new(class, flow, ib_len as u16, Grh::NEXT_HEADER_IBA, route.hop_limit, route.gids)
        });
        let mut out = Vec::with_capacity(Lrh::LEN + Grh::LEN + ib_len + VCRC_LEN);
        let seed = put_headers(&mut out, (self.vl, self.sl), self.lids, grh.as_ref(), ib_len);
        let at = out.len();
        out.extend_from_slice(head.as_slice());
        out.extend_from_slice(payload);
        out.resize(out.len() + pad, 0);
        let icrc = icrc::Icrc::begin(seed, out.get(at..).unwrap_or_default()).finish();
        out.extend_from_slice(&icrc.to_le_bytes());
        out.extend_from_slice(&[0; VCRC_LEN]);
        put_vcrc(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(grh: Option<&Grh>, payload: &[u8]) -> Vec<u8> {
        let bth = Bth::new(Opcode(4), 0xffff, 0x12_3456, Psn::new(7));
        let head = HeaderBuf::write(bth, &Headers::default(), payload.len());
        let ib_len = head.as_slice().len() + payload.len() + ICRC_LEN;
        let mut out = Vec::new();
        let seed = put_headers(&mut out, (0, 3), [5, 9], grh, ib_len);
        let at = out.len();
        out.extend_from_slice(head.as_slice());
        out.extend_from_slice(payload);
        let icrc = icrc::Icrc::begin(seed, &out[at..]).finish();
        out.extend_from_slice(&icrc.to_le_bytes());
        out.extend_from_slice(&[0; VCRC_LEN]);
        put_vcrc(&mut out);
        out
    }

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let grh = Grh::new(1, 2, 12 + 8 + 4, Grh::NEXT_HEADER_IBA, 3, [[4; 16], [5; 16]]);
        for grh in [None, Some(&grh)] {
            let mut bytes = packet(grh, b"payload!");
            let read = LinkPacket::parse(&bytes).expect("whole");
            assert_eq!((read.lrh.slid(), read.lrh.dlid(), read.lrh.sl(), read.grh), (5, 9, 3, grh.copied()));
            assert!(read.icrc_holds() && vcrc_holds(&bytes));
            set_vl(&mut bytes, 6);
            let read = LinkPacket::parse(&bytes).expect("whole");
            assert!(read.lrh.vl() == 6 && read.icrc_holds() && vcrc_holds(&bytes));
            let last = bytes.len() - 10;
            bytes[last] ^= 1;
            assert!(!vcrc_holds(&bytes) && !LinkPacket::parse(&bytes).expect("lengths hold").icrc_holds());
        }
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        let bytes = packet(None, b"payload!");
        for cut in 0..bytes.len() {
            assert!(LinkPacket::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut longer = bytes;
        longer.extend_from_slice(&[0; 4]);
        assert!(LinkPacket::parse(&longer).is_err());
    }

    #[test]
    fn a_datagram_has_its_headers_and_correct_sums() {
        let route = DatagramRoute { class: 1, flow_label: 2, hop_limit: 3, gids: [[4; 16], [5; 16]] };
        for (route, payload) in [(None, &b"seven b"[..]), (Some(route), b"payload!")] {
            let (pkey, psn, qps) = (0x8001, Psn::new(6), [7, 8]);
            let datagram = Datagram { vl: 15, sl: 3, lids: [5, 9], route, pkey, psn, qps, qkey: 0xb1b };
            let bytes = datagram.write(payload);
            let read = LinkPacket::parse(&bytes).expect("whole");
            assert!(read.icrc_holds() && vcrc_holds(&bytes));
            assert_eq!((read.lrh.vl(), read.lrh.sl(), read.lrh.slid(), read.lrh.dlid()), (15, 3, 5, 9));
            let gids = read.grh.map(|grh| (grh.traffic_class(), grh.flow_label(), grh.hop_limit(), grh.dgid()));
            assert_eq!(gids, route.map(|route| (1, 2, 3, route.gids[1])));
            let packet = Packet::parse(read.ib).expect("whole");
            let deth = packet.ext.deth.expect("a datagram has one");
            assert_eq!((packet.bth.opcode(), packet.bth.pkey(), packet.bth.dest_qp()), (UD_SEND_ONLY, pkey, 8));
            assert_eq!((deth.src_qp(), deth.qkey(), packet.payload), (7, 0xb1b, payload));
        }
    }
}
