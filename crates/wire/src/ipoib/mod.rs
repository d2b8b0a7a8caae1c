//! IP over InfiniBand (RFC 4391, RFC 4755): what an IPoIB interface sends in datagrams and connections.
//!
//! ```text
//! | type (2) | reserved (2) |  IPv4, IPv6 or ARP packet ...
//! ```

mod address;
mod arp;
mod connected;
mod discovery;
mod group;

pub use address::LinkAddress;
pub use arp::Arp;
pub use connected::{ConnectedData, service_id, service_qpn};
pub use discovery::LinkAddressOption;
pub use group::{broadcast_group, group_of};

use std::net::IpAddr;

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the encapsulation header, by which the MTU of an interface is below that of its link (RFC 4391 §7).
pub const HEADER_LEN: usize = size_of::<Encapsulation>();
/// Largest MTU in connected mode, as Linux's ib_ipoib has it: 64 KiB, less a connection's own header.
pub const CONNECTED_MTU_MAX: u32 = 65_520;

/// Encapsulation header (RFC 4391 §6).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Encapsulation {
    protocol: U16,
    reserved: U16,
}

impl Encapsulation {
    /// Composes the header in front of a packet of this protocol.
    pub fn new(protocol: Protocol) -> Encapsulation {
        Encapsulation { protocol: protocol.0.into(), reserved: 0.into() }
    }

    /// Splits a frame into protocol and packet; `None` if it is too short.
    pub fn split(frame: &[u8]) -> Option<(Protocol, &[u8])> {
        let (header, packet) = Encapsulation::ref_from_prefix(frame).ok()?;
        Some((Protocol(header.protocol.get()), packet))
    }
}

/// Protocol of a packet: its Ethertype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protocol(pub u16);

impl Protocol {
    /// IPv4.
    pub const IPV4: Protocol = Protocol(0x0800);
    /// ARP.
    pub const ARP: Protocol = Protocol(0x0806);
    /// IPv6.
    pub const IPV6: Protocol = Protocol(0x86dd);

    /// Returns the protocol of an IP packet, by its first four bits.
    pub fn of_ip(packet: &[u8]) -> Option<Protocol> {
        match packet.first()? >> 4 {
            4 => Some(Protocol::IPV4),
            6 => Some(Protocol::IPV6),
            _ => None,
        }
    }
}

/// Returns the destination of an IP packet; `None` if it is none, or too short.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match Protocol::of_ip(packet)? {
        Protocol::IPV4 => packet.get(16..20)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        _ => packet.get(24..40)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_a_destination() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
        assert_eq!(destination(&packet), Some("10.0.0.2".parse().unwrap()));
        packet[0] = 0x60;
        packet[24] = 0xfd;
        packet[39] = 1;
        assert_eq!(destination(&packet), Some("fd00::1".parse().unwrap()));
        assert_eq!((destination(&packet[..39]), destination(&[0x45; 19])), (None, None));
    }

    #[test]
    fn a_frame_is_a_type_and_a_packet() {
        let header = Encapsulation::new(Protocol::IPV6);
        assert_eq!(header.as_bytes(), [0x86, 0xdd, 0, 0]);
        assert_eq!(Encapsulation::split(&[8, 6, 0, 0, 1, 2]), Some((Protocol::ARP, &[1, 2][..])));
        assert_eq!(Encapsulation::split(&[8, 6, 0]), None);
        assert_eq!(Protocol::of_ip(&[0x45]), Some(Protocol::IPV4));
        assert_eq!((Protocol::of_ip(&[]), Protocol::of_ip(&[0x10])), (None, None));
    }
}
