//! Link-layer address of an IPoIB interface (RFC 4391 §9.1.1, RFC 4755 §3.1).

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A link-layer address: flags, queue pair number, GID.
///
/// ```text
/// | flags (1) | queue pair number (3) |            GID (16)            |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LinkAddress {
    /// Modes that the interface supports besides datagrams.
    pub flags: u8,
    /// Queue pair that receives datagrams, 24 bits.
    pub qpn: u32,
    /// GID of the port, or of a group.
    pub gid: [u8; 16],
}

impl LinkAddress {
    /// Returns the link-local address of an interface on a port (RFC 4391 §8): the interface identifier is the port's
    /// GUID with the universal bit set, as Linux has it.
    pub fn link_local(gid: &[u8; 16]) -> Ipv6Addr {
        let mut address = *gid;
        address[..8].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
        address[8] |= 2;
        address.into()
    }

    /// Length in bytes.
    pub const LEN: usize = 20;
    /// Flag: the interface accepts reliable connections.
    pub const RC: u8 = 0x80;
    /// Flag: the interface accepts unreliable connections.
    pub const UC: u8 = 0x40;
    /// Number of the queue pair in the address of a group.
    pub const GROUP_QPN: u32 = crate::MULTICAST_QPN;

    /// Reads it.
    pub fn parse(bytes: &[u8; Self::LEN]) -> LinkAddress {
        let [flags, a, b, c, gid @ ..] = *bytes;
        LinkAddress { flags, qpn: u32::from_be_bytes([0, a, b, c]), gid }
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let [_, qpn @ ..] = self.qpn.to_be_bytes();
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.flags;
        bytes[1..4].copy_from_slice(&qpn);
        bytes[4..].copy_from_slice(&self.gid);
        bytes
    }

    /// Whether it is the address of a group.
    pub fn is_group(&self) -> bool {
        self.gid[0] == 0xff
    }
}

/// As Linux prints it: twenty bytes in hexadecimal, separated by colons.
impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.encode().iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a link-layer address of InfiniBand: twenty bytes in hexadecimal, separated by colons")]
pub struct NotAnAddress;

impl FromStr for LinkAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<LinkAddress, NotAnAddress> {
        let mut bytes = [0; LinkAddress::LEN];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len())).ok_or(NotAnAddress)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| NotAnAddress)?;
        }
        if parts.next().is_some() { Err(NotAnAddress) } else { Ok(LinkAddress::parse(&bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:e7:0f:f6";

    #[test]
    fn an_address_is_written_as_linux_prints_it() {
        let address: LinkAddress = TEXT.parse().expect("an address");
        assert_eq!((address.flags, address.qpn), (LinkAddress::RC, 0x208));
        assert_eq!(address.gid[8..], [0xe4, 0x1d, 0x2d, 3, 0, 0xe7, 0x0f, 0xf6]);
        assert_eq!(address.to_string(), TEXT);
        assert_eq!(LinkAddress::parse(&address.encode()), address);
        assert!(!address.is_group());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "80", &TEXT[3..], &format!("{TEXT}:00"), &TEXT.replace("e4", "g4"), &TEXT.replace("e4", "0e4")]
        {
            assert_eq!(text.parse::<LinkAddress>(), Err(NotAnAddress), "{text}");
        }
    }
}
