//! Private data of RDMA CM's request and reply (`struct rds_ib_connect_private`, IPv4): the addresses, and the version of the
//! protocol.

use std::net::Ipv4Addr;

use thiserror::Error;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the private data; the last four are padding of Linux's structure.
pub const PRIVATE_DATA_LEN: usize = 32;

/// Bytes on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    source: [u8; 4],
    destination: [u8; 4],
    major: u8,
    minor: u8,
    minor_mask: U16,
    service: u8,
    reserved: [u8; 3],
    acknowledgement: U64,
    credit: U32,
    padding: [u8; 4],
}

const _: () = assert!(size_of::<Bytes>() == PRIVATE_DATA_LEN);

/// Version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Major number.
    pub major: u8,
    /// Minor number.
    pub minor: u8,
}

impl Version {
    /// The version that is offered first (`RDS_PROTOCOL_VERSION`).
    pub const V4_1: Version = Version { major: 4, minor: 1 };
    /// The version of older hosts (`RDS_PROTOCOL_COMPAT_VERSION`); its frames are the same.
    pub const V3_1: Version = Version { major: 3, minor: 1 };
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Bits of the minor versions that this end speaks (`RDS_IB_SUPPORTED_PROTOCOLS`).
const MINOR_MASK: u16 = 0b11;
/// Bit of minor version 1 in the peer's mask.
const MINOR_1: u16 = 0b10;

/// Reason why a peer cannot be spoken with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum VersionError {
    /// There is no RDS private data.
    #[error("the private data is not RDS's")]
    Missing,
    /// The version is too old, or unknown.
    #[error("the peer speaks RDS {0}; 3.1 and 4.1 are supported")]
    Unsupported(Version),
    /// The connection is for another type of service.
    #[error("the peer asks for type of service {0}, which is not supported")]
    Service(u8),
}

/// Private data of a request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateData {
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// Version that the sender proposes, or has chosen.
    pub version: Version,
    /// Last message that the sender has received from the peer; 0: unknown.
    pub acknowledgement: u64,
}

impl PrivateData {
    /// Reads private data, with the version that both ends speak.
    ///
    /// # Errors
    /// It is not RDS's, or of another version.
    pub fn parse(bytes: &[u8]) -> Result<PrivateData, VersionError> {
        let Ok((bytes, _)) = Bytes::ref_from_prefix(bytes) else { return Err(VersionError::Missing) };
        let proposed = Version { major: bytes.major, minor: bytes.minor };
        let version = match proposed.major {
            0 => return Err(VersionError::Missing),
            4 if bytes.minor_mask.get() & MINOR_MASK & MINOR_1 != 0 => Version::V4_1,
            _ if proposed == Version::V3_1 => Version::V3_1,
            _ => return Err(VersionError::Unsupported(proposed)),
        };
        if bytes.service != 0 {
            return Err(VersionError::Service(bytes.service));
        }
        Ok(PrivateData {
            source: bytes.source.into(),
            destination: bytes.destination.into(),
            version,
            acknowledgement: bytes.acknowledgement.get(),
        })
    }

    /// Returns the bytes. No credit is advertised: flow control is off.
    pub fn to_bytes(&self) -> [u8; PRIVATE_DATA_LEN] {
        let bytes = Bytes {
            source: self.source.octets(),
            destination: self.destination.octets(),
            major: self.version.major,
            minor: self.version.minor,
            minor_mask: MINOR_MASK.into(),
            service: 0,
            reserved: [0; 3],
            acknowledgement: self.acknowledgement.into(),
            credit: 0.into(),
            padding: [0; 4],
        };
        let mut out = [0; PRIVATE_DATA_LEN];
        out.copy_from_slice(bytes.as_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: PrivateData = PrivateData {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        version: Version::V4_1,
        acknowledgement: 258,
    };

    #[test]
    fn fields_are_where_linux_has_them() {
        let bytes = DATA.to_bytes();
        assert_eq!(bytes[..12], [10, 0, 0, 1, 10, 0, 0, 2, 4, 1, 0, 3]);
        assert_eq!(bytes[16..28], [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(PrivateData::parse(&bytes), Ok(DATA));
        // RDMA CM hands on more bytes than the peer sent.
        assert_eq!(PrivateData::parse(&[&bytes[..], &[0; 24]].concat()), Ok(DATA));
    }

    #[test]
    fn versions_are_negotiated() {
        let old = PrivateData { version: Version::V3_1, ..DATA };
        assert_eq!(PrivateData::parse(&old.to_bytes()), Ok(old));
        let of = |major, minor| PrivateData { version: Version { major, minor }, ..DATA }.to_bytes();
        // A newer minor version still speaks 4.1.
        assert_eq!(PrivateData::parse(&of(4, 2)), Ok(DATA));
        assert_eq!(PrivateData::parse(&of(3, 0)), Err(VersionError::Unsupported(Version { major: 3, minor: 0 })));
        assert_eq!(PrivateData::parse(&[0; PRIVATE_DATA_LEN]), Err(VersionError::Missing));
        assert_eq!(PrivateData::parse(&DATA.to_bytes()[..20]), Err(VersionError::Missing));
        let mut service = DATA.to_bytes();
        service[12] = 3;
        assert_eq!(PrivateData::parse(&service), Err(VersionError::Service(3)));
    }
}
