//! A datagram as it came in, and the check that makes a packet of it. The ICRC covers IPv4's identification, which a UDP
//! socket does not show; what our own senders use (0, or the number of the segment) is tried first, any other is solved
//! for.

use std::net::IpAddr;

use weft_transport::RxPacket;
use weft_verbs::Gid;
use weft_wire::Packet;
use weft_wire::icrc::{self, Flow};
use weft_wire::roce::IpMeta;

/// One datagram to UDP port 4791.
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
    /// Interface it came in by, 0 if unknown.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit left.
    pub hop_limit: u8,
    /// Its number among the segments that came merged: a guess at IPv4's identification.
    pub ip_id_guess: u16,
}

/// Seeds that are kept, each in the place that its length and identification give it.
const SEEDS_KEPT: usize = 64;

/// Seeds of the packets that came last: most come from few senders in few lengths.
#[derive(Clone, Debug)]
pub struct KnownSeeds {
    kept: Box<[Option<KnownSeed>; SEEDS_KEPT]>,
}

#[derive(Clone, Copy, Debug)]
struct KnownSeed {
    flow: Flow,
    len: usize,
    ip_id: u16,
    seed: u32,
}

impl Default for KnownSeeds {
    fn default() -> KnownSeeds {
        KnownSeeds { kept: Box::new([None; SEEDS_KEPT]) }
    }
}

impl KnownSeeds {
    #[inline]
    fn seed(&mut self, flow: &Flow, len: usize, ip_id: u16) -> u32 {
        let place = &mut self.kept[(len / 4 * 7 + usize::from(ip_id)) % SEEDS_KEPT];
        match place {
            Some(known) if known.len == len && known.ip_id == ip_id && known.flow == *flow => known.seed,
            _ => {
                let seed = flow.seed(len, ip_id);
                *place = Some(KnownSeed { flow: *flow, len, ip_id, seed });
                seed
            }
        }
    }
}

/// Why a datagram is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The bytes do not parse.
    Malformed,
    /// The ICRC is wrong.
    Icrc,
}

impl<'a> Datagram<'a> {
    /// Verify and parse; answers IPv4's identification too (0 for IPv6).
    #[inline]
    pub fn verify(&self, seeds: &mut KnownSeeds) -> Result<(RxPacket<'a>, u16), Refused> {
        let packet = Packet::parse(self.ib).map_err(|_| Refused::Malformed)?;
        let flow = self.flow().ok_or(Refused::Malformed)?;
        let ip_id = self.check(&flow, seeds).ok_or(Refused::Icrc)?;
        let rx = RxPacket {
            packet,
            sgid: Gid::from(self.src),
            dgid: Gid::from(self.dst),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            ifindex: self.ifindex,
        };
        Ok((rx, ip_id))
    }

    /// The ICRC: with the guess first, whose seed most often is known, then with any identification.
    #[inline]
    fn check(&self, flow: &Flow, seeds: &mut KnownSeeds) -> Option<u16> {
        let found = Packet::icrc(self.ib)?;
        let seed = seeds.seed(flow, self.ib.len(), self.ip_id_guess);
        if icrc::of_packet(seed, self.ib) == found {
            return Some(self.ip_id_guess);
        }
        icrc::verify(flow, self.ib, self.ip_id_guess)
    }

    fn flow(&self) -> Option<Flow> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Flow::V4 { src, dst, sport: self.sport }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Flow::V6 { src, dst, sport: self.sport }),
            _ => None,
        }
    }

    /// What stood beneath, for a capture.
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
