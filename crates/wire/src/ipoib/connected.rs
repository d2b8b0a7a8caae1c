//! Connected mode (RFC 4755 §3): the service that an interface listens to, and the private data of its requests and
//! replies.

/// The IETF's service IDs for IP over InfiniBand; the last 24 bits are the queue pair number of the interface.
const SERVICE: u64 = 0x1000_0000_0000_0000;
/// Bits of a queue pair number.
const QPN_MASK: u64 = 0xff_ffff;

/// Returns the service ID of the interface with this queue pair for datagrams.
pub const fn service_id(qpn: u32) -> u64 {
    SERVICE | qpn as u64 & QPN_MASK
}

/// Returns the queue pair number in a service ID; `None` if the service is not IP over InfiniBand.
pub const fn service_qpn(service: u64) -> Option<u32> {
    if service & !QPN_MASK == SERVICE { Some((service & QPN_MASK) as u32) } else { None }
}

/// Private data of a connection's request and reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectedData {
    /// The sender's queue pair for datagrams: the number in its link-layer address.
    pub qpn: u32,
    /// The largest packet that the sender receives, its encapsulation header included.
    pub mtu: u32,
}

impl ConnectedData {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// Reads it from the start of private data.
    pub fn parse(bytes: &[u8]) -> Option<ConnectedData> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk::<{ Self::LEN }>()?;
        Some(ConnectedData { qpn: u32::from_be_bytes([a, b, c, d]), mtu: u32::from_be_bytes([e, f, g, h]) })
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let ([a, b, c, d], [e, f, g, h]) = (self.qpn.to_be_bytes(), self.mtu.to_be_bytes());
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_names_a_queue_pair() {
        assert_eq!(service_id(0x48), 0x1000_0000_0000_0048);
        assert_eq!(service_qpn(service_id(0xff_ffff)), Some(0xff_ffff));
        assert_eq!((service_qpn(0x48), service_qpn(0x1000_0000_0100_0048)), (None, None));
    }

    #[test]
    fn private_data_round_trips() {
        let data = ConnectedData { qpn: 0x48, mtu: 65_524 };
        assert_eq!(data.encode(), [0, 0, 0, 0x48, 0, 0, 0xff, 0xf4]);
        assert_eq!(ConnectedData::parse(&[&data.encode()[..], &[0; 84]].concat()), Some(data));
        assert_eq!(ConnectedData::parse(&[0; 7]), None);
    }
}
