//! Addresses: GIDs, path MTUs, and the address vector that a connected queue pair or an address handle holds.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A 128-bit global identifier. On RoCE it is an IPv6 address, or an IPv4 address mapped into one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID with no bit set: "none".
    pub const ZERO: Gid = Gid([0; 16]);

    /// Returns the IPv4 address inside `::ffff:a.b.c.d`, if this is one.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }

    /// Returns this GID as the IP address that packets carry.
    pub fn ip(&self) -> IpAddr {
        match self.ipv4() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from(self.0)),
        }
    }

    /// Whether this GID names a multicast group (a mapped IPv4 group, or `ff00::/8`).
    pub fn is_multicast(&self) -> bool {
        self.ip().is_multicast()
    }

    /// `fe80::/10`.
    pub fn is_link_local(&self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Gid {
        match ip {
            IpAddr::V4(v4) => Gid(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Gid(v6.octets()),
        }
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

/// How packets of a GID are framed; values of `enum ibv_gid_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 (ethertype 0x8915).
    IbOrRoceV1 = 0,
    /// RoCE v2 (UDP port 4791).
    RoceV2 = 2,
}

/// One row of a port's GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// Row number.
    pub index: u32,
    /// The GID.
    pub gid: Gid,
    /// Its framing.
    pub gid_type: GidType,
    /// The network interface that the row belongs to.
    pub ifindex: u32,
}

/// A path MTU: 256 to 4096 bytes of payload. Values of `enum ibv_mtu`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl Mtu {
    /// All five, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

    /// Converts from the enum value, 1..=5.
    pub fn from_enum(value: u32) -> Option<Mtu> {
        Mtu::ALL.get((value as usize).checked_sub(1)?).copied()
    }

    /// Payload bytes of a full packet.
    pub fn bytes(self) -> usize {
        128 << (self as u8)
    }

    /// Returns the largest MTU that is no larger than `bytes`.
    pub fn at_most(bytes: usize) -> Option<Mtu> {
        Mtu::ALL.into_iter().rev().find(|m| m.bytes() <= bytes)
    }
}

/// A destination and the path to it: `struct ibv_ah_attr`, resolved to addresses at creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressVector {
    /// Source GID (row `sgid_index` of the port's table at resolution time).
    pub sgid: Gid,
    /// Row of the source GID.
    pub sgid_index: u8,
    /// Destination GID.
    pub dgid: Gid,
    /// IPv6 flow label, and entropy for the UDP source port.
    pub flow_label: u32,
    /// Hop limit (TTL); 0 is sent as 64.
    pub hop_limit: u8,
    /// Traffic class (IPv4 TOS).
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Port of the device.
    pub port_num: u8,
    /// Destination LID (InfiniBand only).
    pub dlid: u16,
    /// Source path bits (InfiniBand only; kept for queries).
    pub src_path_bits: u8,
    /// Static rate (kept for queries).
    pub static_rate: u8,
    /// Whether the GRH fields were given (`is_global`).
    pub is_global: bool,
    /// Interface that link-local addresses are scoped to.
    pub ifindex: u32,
    /// Framing of packets, from the source GID's row.
    pub gid_type: GidType,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_is_one_of_five_powers() {
        assert_eq!(Mtu::ALL.map(Mtu::bytes), [256, 512, 1024, 2048, 4096]);
        assert_eq!(Mtu::from_enum(0), None);
        assert_eq!(Mtu::from_enum(5), Some(Mtu::Mtu4096));
        assert_eq!(Mtu::at_most(1436), Some(Mtu::Mtu1024));
        assert_eq!(Mtu::at_most(255), None);
    }

    #[test]
    fn a_mapped_gid_is_an_ipv4_address() {
        let gid = Gid::from("10.77.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(gid.to_string(), "::ffff:10.77.0.1");
        assert_eq!(gid.ip().to_string(), "10.77.0.1");
        assert!(Gid::from("239.1.2.3".parse::<IpAddr>().unwrap()).is_multicast());
    }
}
