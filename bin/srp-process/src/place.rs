//! Place of a target: an IP address and port, or a service identifier at a GID of an InfiniBand fabric.

use std::fmt;
use std::net::Ipv6Addr;

use anyhow::{Result, anyhow};
use weft_client::rdmacm::{SockAddr, lookup};
use weft_srp::wire::LoginCarrier;

/// Place of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetPlace {
    /// Address or name of a host, and the port of the RDMA connection manager.
    Address {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// Service of InfiniBand's connection manager.
    Service(Service),
}

/// A service identifier at a port of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// GID of the target's port.
    pub gid: [u8; 16],
    /// P_Key of the path.
    pub pkey: u16,
    /// The identifier.
    pub id: u64,
}

impl TargetPlace {
    /// Returns the connection manager that carries the login.
    pub fn carrier(&self) -> LoginCarrier {
        match self {
            TargetPlace::Address { .. } => LoginCarrier::RdmaCm,
            TargetPlace::Service(_) => LoginCarrier::IbCm,
        }
    }

    /// Returns the address to connect to.
    ///
    /// # Errors
    /// The host's name is unknown.
    pub fn socket_address(&self) -> Result<SockAddr> {
        match self {
            TargetPlace::Address { host, port } => {
                lookup(Some(host), Some(&port.to_string()), 0).map_err(|error| anyhow!("{error}"))
            }
            TargetPlace::Service(service) => Ok(SockAddr::ib_service(service.pkey, service.gid, service.id)),
        }
    }

    /// Returns the host, or the GID as an IPv6 address.
    pub fn host(&self) -> String {
        match self {
            TargetPlace::Address { host, .. } => host.clone(),
            TargetPlace::Service(service) => Ipv6Addr::from(service.gid).to_string(),
        }
    }
}

impl fmt::Display for TargetPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetPlace::Address { host, port } => write!(f, "{host}, port {port}"),
            TargetPlace::Service(service) => write!(f, "{}, service {:#018x}", self.host(), service.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_printed_with_what_finds_them() {
        let mut gid = [0; 16];
        (gid[0], gid[1], gid[15]) = (0xfe, 0x80, 7);
        let service = TargetPlace::Service(Service { gid, pkey: 0xffff, id: 0x013f_15b3 });
        assert_eq!(service.to_string(), "fe80::7, service 0x00000000013f15b3");
        assert_eq!(service.socket_address().expect("an address").gid(), Some(gid));
        let address = TargetPlace::Address { host: "192.0.2.1".into(), port: 5555 };
        assert_eq!((address.to_string(), address.host()), ("192.0.2.1, port 5555".into(), "192.0.2.1".into()));
    }
}
