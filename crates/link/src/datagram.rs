//! A received datagram, and the check that makes it a packet. The ICRC covers IPv4's identification, which a UDP socket
//! does not show: `senders.rs` predicts it, and solves for any other.

use std::net::IpAddr;

use weft_transport::RxPacket;
use weft_verbs::{Gid, GidType};
use weft_wire::Packet;
use weft_wire::grh::Grh;
use weft_wire::icrc::{self, Flow};
use weft_wire::roce::IpMeta;

use crate::senders::Senders;

/// One datagram to UDP port 4791, or a frame of RoCE v1.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// BTH to ICRC.
    pub ib: &'a [u8],
    /// Source address.
    pub src: IpAddr,
    /// UDP source port.
    pub sport: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Receiving interface, 0 if unknown.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit left.
    pub hop_limit: u8,
    /// The GRH, if it came as RoCE v1; then the UDP and IP fields have no meaning.
    pub grh: Option<Grh>,
    /// Its index among the segments of a merged message, which IPv4's identification counts.
    pub segment: u16,
}

/// Reasons for which a datagram is not a valid packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The bytes do not parse.
    Malformed,
    /// The ICRC is wrong.
    Icrc,
}

impl<'a> Datagram<'a> {
    /// Verifies and parses the datagram; also returns IPv4's identification (0 for IPv6).
    #[inline]
    pub fn verify(&self, senders: &mut Senders) -> Result<(RxPacket<'a>, u16), Refused> {
        let packet = Packet::parse(self.ib).map_err(|_| Refused::Malformed)?;
        let ip_id = match &self.grh {
            None => {
                let flow = self.flow().ok_or(Refused::Malformed)?;
                senders.check(&flow, self.ib, self.segment).ok_or(Refused::Icrc)?
            }
            Some(grh) => {
                let found = icrc::of_packet(icrc::seed_grh(grh), self.ib);
                if Packet::icrc(self.ib) != Some(found) {
                    return Err(Refused::Icrc);
                }
                0
            }
        };
        let rx = RxPacket {
            packet,
            sgid: Gid::from(self.src),
            dgid: Gid::from(self.dst),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            ifindex: self.ifindex,
            gid_type: if self.grh.is_some() { GidType::IbOrRoceV1 } else { GidType::RoceV2 },
            local: None,
        };
        Ok((rx, ip_id))
    }

    fn flow(&self) -> Option<Flow> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Flow::V4 { src, dst, sport: self.sport }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Flow::V6 { src, dst, sport: self.sport }),
            _ => None,
        }
    }

    /// Returns the headers beneath the BTH, for a capture.
    pub fn meta(&self, ip_id: u16) -> IpMeta {
        IpMeta {
            src: self.src,
            dst: self.dst,
            sport: self.sport,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            ip_id,
        }
    }
}
