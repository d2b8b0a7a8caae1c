//! Service IDs, which identify the service that a REQ requests. The RDMA IP CM service has a range of them, one for
//! each protocol and port (IBA A11.2): 40 bits of prefix 0x0000000001, 8 of IP protocol, 16 of port.

use std::fmt;

use super::layout::Number;

/// A service ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// IP protocol number of TCP: the service IDs of `RDMA_PS_TCP`.
    pub const PROTOCOL_TCP: u8 = 6;
    /// IP protocol number of UDP: the service IDs of `RDMA_PS_UDP`.
    pub const PROTOCOL_UDP: u8 = 17;
    /// The prefix above protocol and port.
    const IP_PREFIX: u64 = 1;

    /// Returns the service ID of an IP protocol's port.
    pub const fn of_ip(protocol: u8, port: u16) -> ServiceId {
        ServiceId(Self::IP_PREFIX << 24 | (protocol as u64) << 16 | port as u64)
    }

    /// Returns the service ID of a port in one of librdmacm's port spaces (`RDMA_PS_TCP` is 0x0106), by Linux's rule,
    /// which agrees with [`ServiceId::of_ip`] for TCP and UDP.
    pub const fn of_port_space(port_space: u16, port: u16) -> ServiceId {
        ServiceId((port_space as u64) << 16 | port as u64)
    }

    /// Returns protocol and port, if the ID is in the range of the RDMA IP CM service.
    pub const fn ip(self) -> Option<(u8, u16)> {
        if self.0 >> 24 == Self::IP_PREFIX { Some(((self.0 >> 16) as u8, self.0 as u16)) } else { None }
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceId(0x{:016x})", self.0)
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

impl Number for ServiceId {
    fn from_wire(value: u64) -> ServiceId {
        ServiceId(value)
    }
    fn to_wire(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_services() {
        let id = ServiceId::of_ip(ServiceId::PROTOCOL_TCP, 7174);
        assert_eq!(id, ServiceId(0x0000_0000_0106_1c06));
        assert_eq!(id, ServiceId::of_port_space(0x0106, 7174));
        assert_eq!(id.ip(), Some((6, 7174)));
        assert_eq!(ServiceId::of_port_space(0x0111, 9).ip(), Some((ServiceId::PROTOCOL_UDP, 9)));
        // RDMA_PS_IPOIB is outside the annex's range.
        assert_eq!(ServiceId::of_port_space(0x0002, 9).ip(), None);
        assert_eq!(ServiceId(0x0100_0000_0106_1c06).ip(), None);
    }
}
