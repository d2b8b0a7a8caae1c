//! The RDMA IP CM service's header (IBA A11.3): the first 36 bytes of the private data of REQ and SIDR_REQ, from which
//! the passive side learns the IP addresses of the connection.
//!
//! ```text
//! | major | minor |  IPv  |reserved|        source port           |
//! |              source address (16 bytes; IPv4 in the last 4)     |
//! |            destination address (16 bytes; likewise)            |
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source and destination address of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpPair {
    /// Source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source and destination.
    V6(Ipv6Addr, Ipv6Addr),
}

impl IpPair {
    /// Pairs two addresses; `None` if their families differ.
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<IpPair> {
        match (source, destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Some(IpPair::V4(s, d)),
            (IpAddr::V6(s), IpAddr::V6(d)) => Some(IpPair::V6(s, d)),
            _ => None,
        }
    }

    /// Returns the active side's address.
    pub fn source(self) -> IpAddr {
        match self {
            IpPair::V4(s, _) => s.into(),
            IpPair::V6(s, _) => s.into(),
        }
    }

    /// Returns the passive side's address.
    pub fn destination(self) -> IpAddr {
        match self {
            IpPair::V4(_, d) => d.into(),
            IpPair::V6(_, d) => d.into(),
        }
    }
}

/// Reason why private data does not begin with this header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpCmError {
    /// Fewer than 36 bytes.
    Short,
    /// A version other than 0.0; the version byte.
    Version(u8),
    /// Neither IPv4 nor IPv6.
    IpVersion(u8),
}

impl fmt::Display for IpCmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpCmError::Short => f.write_str("private data shorter than the IP CM header"),
            IpCmError::Version(v) => write!(f, "IP CM version {}.{}, want 0.0", v >> 4, v & 15),
            IpCmError::IpVersion(v) => write!(f, "IP version {v}, want 4 or 6"),
        }
    }
}

impl std::error::Error for IpCmError {}

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IpCmHeader {
    /// Port of the active side.
    pub source_port: u16,
    /// The addresses. The destination's port is in the service ID.
    pub addresses: IpPair,
}

impl IpCmHeader {
    /// Length in bytes.
    pub const LEN: usize = 36;
    /// Version: one nibble each for major and minor.
    pub const VERSION: u8 = 0;

    /// Parses the front of private data: returns the header, and the rest for the consumer.
    pub fn parse(private: &[u8]) -> Result<(IpCmHeader, &[u8]), IpCmError> {
        let (head, rest) = private.split_first_chunk::<{ IpCmHeader::LEN }>().ok_or(IpCmError::Short)?;
        if head[0] != Self::VERSION {
            return Err(IpCmError::Version(head[0]));
        }
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        source.copy_from_slice(&head[4..20]);
        destination.copy_from_slice(&head[20..]);
        let last = |a: [u8; 16]| Ipv4Addr::new(a[12], a[13], a[14], a[15]);
        let addresses = match head[1] >> 4 {
            4 => IpPair::V4(last(source), last(destination)),
            6 => IpPair::V6(source.into(), destination.into()),
            version => return Err(IpCmError::IpVersion(version)),
        };
        Ok((IpCmHeader { source_port: u16::from_be_bytes([head[2], head[3]]), addresses }, rest))
    }

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; IpCmHeader::LEN] {
        let mut bytes = [0; IpCmHeader::LEN];
        bytes[0] = Self::VERSION;
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        match self.addresses {
            IpPair::V4(source, destination) => {
                bytes[1] = 4 << 4;
                bytes[16..20].copy_from_slice(&source.octets());
                bytes[32..36].copy_from_slice(&destination.octets());
            }
            IpPair::V6(source, destination) => {
                bytes[1] = 6 << 4;
                bytes[4..20].copy_from_slice(&source.octets());
                bytes[20..36].copy_from_slice(&destination.octets());
            }
        }
        bytes
    }
}
