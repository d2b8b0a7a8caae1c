//! Headers of datagrams: one precedes each message of an unreliable datagram queue pair, another those over plain UDP
//! until the peer's queue pair is known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of a receive slot, header and data together: the largest datagram is a header shorter.
pub const SLOT_BYTES: usize = 2048;
/// Maximum length of either header.
pub const HEADER_BYTES_MAX: usize = 28;

const IPV4_HEADER: usize = 8;
const IPV6_HEADER: usize = 24;
const UDP_IPV4_HEADER: usize = 16;
const UDP_IPV6_HEADER: usize = 28;
const UDP_TAG: u32 = 0x5555_5555;
const QPN_MASK: u32 = 0x00ff_ffff;

/// An encoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    length: usize,
}

impl Header {
    /// Returns the encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Creates the header of a message over a queue pair, which contains the sender's address.
///
/// ```text
/// version (4 or 6) | length | port (2) | IPv4 address (4), or flow info (4) and IPv6 address (16)
/// ```
pub fn source_header(source: SocketAddr) -> Header {
    let mut bytes = [0; HEADER_BYTES_MAX];
    let [high, low] = source.port().to_be_bytes();
    let length = match source {
        SocketAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&[4, IPV4_HEADER as u8, high, low]);
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            IPV4_HEADER
        }
        SocketAddr::V6(v6) => {
            bytes[..4].copy_from_slice(&[6, IPV6_HEADER as u8, high, low]);
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            IPV6_HEADER
        }
    };
    Header { bytes, length }
}

/// Returns the sender and the data of a message over a queue pair; `None` if it has no valid header.
pub fn parse_source(message: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let [version, length, high, low, rest @ ..] = message else { return None };
    let port = u16::from_be_bytes([*high, *low]);
    match (*version, usize::from(*length)) {
        (4, IPV4_HEADER) => {
            let (address, data) = rest.split_first_chunk::<4>()?;
            Some((SocketAddrV4::new(Ipv4Addr::from(*address), port).into(), data))
        }
        (6, IPV6_HEADER) => {
            let (flow, rest) = rest.split_first_chunk::<4>()?;
            let (address, data) = rest.split_first_chunk::<16>()?;
            let flow = u32::from_be_bytes(*flow);
            Some((SocketAddrV6::new(Ipv6Addr::from(*address), port, flow, 0).into(), data))
        }
        _ => None,
    }
}

/// Purpose of a message over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpOp {
    /// It carries data.
    Data,
    /// It only announces the sender's queue pair.
    Control,
}

/// Operation numbers are those of streams.
const UDP_OP_DATA: u8 = 0;
const UDP_OP_CONTROL: u8 = 7;

/// A message over UDP, which announces its sender's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpMessage<'a> {
    /// Its purpose.
    pub op: UdpOp,
    /// The sender's queue pair.
    pub qpn: u32,
    /// The data; empty for a control message.
    pub data: &'a [u8],
}

/// Creates the header of a message over UDP.
///
/// ```text
/// tag (4) | version | operation | length | reserved | queue pair number (4) | address (4 or 16)
/// ```
pub fn udp_header(op: UdpOp, qpn: u32, source: IpAddr) -> Header {
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[..4].copy_from_slice(&UDP_TAG.to_be_bytes());
    bytes[5] = match op {
        UdpOp::Data => UDP_OP_DATA,
        UdpOp::Control => UDP_OP_CONTROL,
    };
    bytes[8..12].copy_from_slice(&(qpn & QPN_MASK).to_be_bytes());
    let (version, length) = match source {
        IpAddr::V4(address) => {
            bytes[12..16].copy_from_slice(&address.octets());
            (4, UDP_IPV4_HEADER)
        }
        IpAddr::V6(address) => {
            bytes[12..28].copy_from_slice(&address.octets());
            (6, UDP_IPV6_HEADER)
        }
    };
    bytes[4] = version;
    bytes[6] = length as u8;
    Header { bytes, length }
}

/// Reads a message over UDP from `source`; `None` if it is not one.
pub fn parse_udp(packet: &[u8], source: IpAddr) -> Option<UdpMessage<'_>> {
    let (head, _) = packet.split_first_chunk::<12>()?;
    let [t0, t1, t2, t3, version, op, length, _, q0, q1, q2, q3] = *head;
    let length = usize::from(length);
    let fits = match source {
        IpAddr::V4(_) => (version, length) == (4, UDP_IPV4_HEADER),
        IpAddr::V6(_) => (version, length) == (6, UDP_IPV6_HEADER),
    };
    if u32::from_be_bytes([t0, t1, t2, t3]) != UDP_TAG || !fits {
        return None;
    }
    let data = packet.get(length..)?;
    let op = match op {
        UDP_OP_DATA => UdpOp::Data,
        UDP_OP_CONTROL => UdpOp::Control,
        _ => return None,
    };
    Some(UdpMessage { op, qpn: u32::from_be_bytes([q0, q1, q2, q3]) & QPN_MASK, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> [SocketAddr; 2] {
        ["10.77.0.1:7174".parse().unwrap(), "[fd77::1]:7174".parse().unwrap()]
    }

    #[test]
    fn sources_survive_the_wire() {
        for source in addresses() {
            let mut message = source_header(source).bytes().to_vec();
            message.extend(b"data");
            assert_eq!(parse_source(&message), Some((source, &b"data"[..])));
            for cut in 0..message.len() - 4 {
                assert_eq!(parse_source(&message[..cut]), None);
            }
        }
        assert_eq!(source_header(addresses()[0]).bytes(), [4, 8, 0x1c, 0x06, 10, 77, 0, 1]);
    }

    #[test]
    fn messages_over_udp_survive_the_wire() {
        for source in addresses().map(|a| a.ip()) {
            for op in [UdpOp::Data, UdpOp::Control] {
                let mut packet = udp_header(op, 0xff01_0203, source).bytes().to_vec();
                packet.extend(b"xyz");
                assert_eq!(parse_udp(&packet, source), Some(UdpMessage { op, qpn: 0x01_0203, data: b"xyz" }));
                for cut in 0..packet.len() - 3 {
                    assert_eq!(parse_udp(&packet[..cut], source), None);
                }
            }
        }
    }

    #[test]
    fn foreign_packets_are_nobodys() {
        let [v4, v6] = addresses().map(|a| a.ip());
        let good = udp_header(UdpOp::Data, 1, v4).bytes().to_vec();
        assert_eq!(parse_udp(&good, v6), None);
        for (at, value) in [(0, 0x54), (4, 6), (5, 1), (6, 28)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse_udp(&bad, v4), None, "byte {at}");
        }
        assert_eq!(parse_source(&[5, 8, 0, 0, 0, 0, 0, 0]), None);
    }
}
