//! Addresses as programs pass them to `rdma_bind_addr` and `rdma_resolve_addr`, and the port spaces that they live in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Kind of service identifier: values of `enum rdma_port_space`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u16)]
pub enum PortSpace {
    /// `RDMA_PS_IPOIB`: datagrams in IPoIB's own groups.
    Ipoib = 0x0002,
    /// `RDMA_PS_IB`: any InfiniBand service, connected or datagram depending on the queue pair type.
    Ib = 0x013f,
    /// `RDMA_PS_TCP`: connected.
    Tcp = 0x0106,
    /// `RDMA_PS_UDP`: datagrams.
    Udp = 0x0111,
}

impl PortSpace {
    /// Converts the number that a program passes.
    pub fn from_number(number: u16) -> Option<PortSpace> {
        [PortSpace::Ipoib, PortSpace::Ib, PortSpace::Tcp, PortSpace::Udp].into_iter().find(|ps| *ps as u16 == number)
    }
}

/// `struct sockaddr_in`, `sockaddr_in6` or `sockaddr_ib`, with all fields in host byte order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SockAddr {
    /// `AF_INET`.
    V4 {
        /// Address.
        addr: Ipv4Addr,
        /// Port, 0 for any.
        port: u16,
    },
    /// `AF_INET6`.
    V6 {
        /// Address.
        addr: Ipv6Addr,
        /// Port, 0 for any.
        port: u16,
        /// Flow label and traffic class.
        flowinfo: u32,
        /// Interface that a link-local address is scoped to.
        scope_id: u32,
    },
    /// `AF_IB`.
    Ib(SockAddrIb),
}

/// `struct sockaddr_ib`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SockAddrIb {
    /// P_Key.
    pub pkey: u16,
    /// Flow label and traffic class.
    pub flowinfo: u32,
    /// GID.
    pub gid: [u8; 16],
    /// Service id.
    pub sid: u64,
    /// Significant bits of the service id.
    pub sid_mask: u64,
    /// Scope.
    pub scope_id: u64,
}

/// Address family of a [`SockAddr`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Family {
    /// `AF_INET`.
    Inet,
    /// `AF_INET6`.
    Inet6,
    /// `AF_IB`.
    Ib,
}

impl SockAddr {
    /// Makes an address of an IP address and port, without scope.
    pub fn new(ip: IpAddr, port: u16) -> SockAddr {
        match ip {
            IpAddr::V4(addr) => SockAddr::V4 { addr, port },
            IpAddr::V6(addr) => SockAddr::V6 { addr, port, flowinfo: 0, scope_id: 0 },
        }
    }

    /// Returns the wildcard of a family.
    pub fn any(family: Family) -> SockAddr {
        match family {
            Family::Inet => SockAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            Family::Inet6 => SockAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            Family::Ib => SockAddr::Ib(SockAddrIb::default()),
        }
    }

    /// Returns its family.
    pub fn family(&self) -> Family {
        match self {
            SockAddr::V4 { .. } => Family::Inet,
            SockAddr::V6 { .. } => Family::Inet6,
            SockAddr::Ib(_) => Family::Ib,
        }
    }

    /// Returns its IP address: for `AF_IB`, that of the GID.
    pub fn ip(&self) -> IpAddr {
        match self {
            SockAddr::V4 { addr, .. } => IpAddr::V4(*addr),
            SockAddr::V6 { addr, .. } => match addr.to_ipv4_mapped() {
                Some(v4) => IpAddr::V4(v4),
                None => IpAddr::V6(*addr),
            },
            SockAddr::Ib(ib) => ip_of_gid(ib.gid),
        }
    }

    /// Returns its port: for `AF_IB`, the low 16 bits of the service id as far as the mask covers them.
    pub fn port(&self) -> u16 {
        match self {
            SockAddr::V4 { port, .. } | SockAddr::V6 { port, .. } => *port,
            SockAddr::Ib(ib) => ((ib.sid & ib.sid_mask) & 0xffff) as u16,
        }
    }

    /// Returns the same address with another port.
    #[must_use]
    pub fn with_port(mut self, new: u16) -> SockAddr {
        match &mut self {
            SockAddr::V4 { port, .. } | SockAddr::V6 { port, .. } => *port = new,
            SockAddr::Ib(ib) => {
                ib.sid = (ib.sid & !0xffff) | u64::from(new);
                ib.sid_mask |= 0xffff;
            }
        }
        self
    }

    /// Returns the interface that a link-local IPv6 address is scoped to, 0 if none.
    pub fn scope_id(&self) -> u32 {
        match self {
            SockAddr::V6 { addr, scope_id, .. } if addr.is_unicast_link_local() || addr.is_multicast() => *scope_id,
            _ => 0,
        }
    }

    /// Returns whether the address is the wildcard.
    pub fn is_zero(&self) -> bool {
        match self {
            SockAddr::V4 { addr, .. } => addr.is_unspecified(),
            SockAddr::V6 { addr, .. } => addr.is_unspecified(),
            SockAddr::Ib(ib) => ib.gid == [0; 16],
        }
    }

    /// Returns whether it is a loopback address.
    pub fn is_loopback(&self) -> bool {
        !self.is_zero() && self.ip().is_loopback()
    }

    /// Returns whether the address belongs to no particular interface: the wildcard or a loopback address.
    pub fn is_any(&self) -> bool {
        self.is_zero() || self.is_loopback()
    }

    /// Returns whether it is a multicast address.
    pub fn is_multicast(&self) -> bool {
        self.ip().is_multicast()
    }
}

impl fmt::Display for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SockAddr::V4 { addr, port } => write!(f, "{addr}:{port}"),
            SockAddr::V6 { addr, port, .. } => write!(f, "[{addr}]:{port}"),
            SockAddr::Ib(ib) => write!(f, "[{}]:{:#x}", Ipv6Addr::from(ib.gid), ib.sid),
        }
    }
}

/// Returns the IP address of a RoCE GID.
pub fn ip_of_gid(gid: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(gid);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

/// Returns the RoCE GID of an IP address.
pub fn gid_of_ip(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_an_address_and_back() {
        for text in ["10.0.0.1", "127.0.0.1", "2001:db8::1", "fe80::1"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(ip_of_gid(gid_of_ip(ip)), ip);
        }
    }

    #[test]
    fn any_is_the_wildcard_or_loopback() {
        assert!(SockAddr::any(Family::Inet).is_zero());
        assert!(SockAddr::any(Family::Ib).is_any());
        let lo = SockAddr::new("127.0.0.1".parse().unwrap(), 7);
        assert!(lo.is_loopback() && lo.is_any() && !lo.is_zero());
        assert!(SockAddr::new("::1".parse().unwrap(), 7).is_loopback());
        assert!(!SockAddr::new("10.0.0.1".parse().unwrap(), 7).is_any());
    }

    #[test]
    fn the_port_of_an_ib_address_is_in_its_service_id() {
        let ib = SockAddr::Ib(SockAddrIb { sid: 0x0106_0000, sid_mask: 0xffff_ffff_ffff_0000, ..Default::default() });
        assert_eq!(ib.port(), 0);
        assert_eq!(ib.with_port(7174).port(), 7174);
    }
}
