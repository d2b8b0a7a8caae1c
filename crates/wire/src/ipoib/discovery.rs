//! The link-layer address option of neighbour discovery on an IPoIB link (RFC 4391 §9.3, RFC 4861).
//!
//! ```text
//! | type (1) | length 3 (1) | zeros (2) | link-layer address (20) |
//! ```

use super::LinkAddress;

/// Length of the option in units of eight bytes.
const UNITS: u8 = 3;

/// A source or target link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkAddressOption {
    /// [`LinkAddressOption::SOURCE`] or [`LinkAddressOption::TARGET`].
    pub kind: u8,
    /// The address.
    pub address: LinkAddress,
}

impl LinkAddressOption {
    /// Length in bytes.
    pub const LEN: usize = 8 * UNITS as usize;
    /// Kind: the sender's own address.
    pub const SOURCE: u8 = 1;
    /// Kind: the address that was asked for.
    pub const TARGET: u8 = 2;

    /// Finds the first option of one kind among the options of a message. Stops at a malformed one.
    pub fn find(mut options: &[u8], kind: u8) -> Option<LinkAddressOption> {
        while let [found, units, ..] = *options {
            let (option, rest) = options.split_at_checked(8 * usize::from(units))?;
            if units == 0 {
                return None;
            }
            if found == kind && units == UNITS {
                let address = LinkAddress::parse(option.last_chunk()?);
                return Some(LinkAddressOption { kind, address });
            }
            options = rest;
        }
        None
    }

    /// Writes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        (bytes[0], bytes[1]) = (self.kind, UNITS);
        bytes[4..].copy_from_slice(&self.address.encode());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_found_behind_other_options() {
        let option = LinkAddressOption {
            kind: LinkAddressOption::TARGET,
            address: LinkAddress { flags: 0, qpn: 0x1234, gid: [7; 16] },
        };
        let mtu = [5, 1, 0, 0, 0, 0, 7, 0xfc];
        let options = [&mtu[..], &option.encode()].concat();
        assert_eq!(LinkAddressOption::find(&options, LinkAddressOption::TARGET), Some(option));
        assert_eq!(LinkAddressOption::find(&options, LinkAddressOption::SOURCE), None);
        assert_eq!(LinkAddressOption::find(&[2, 0, 0], 2), None, "an option of no length would never end");
        assert_eq!(LinkAddressOption::find(&options[..20], LinkAddressOption::TARGET), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, kind: u8) {
            let _ = LinkAddressOption::find(&bytes, kind);
        }
    }
}
