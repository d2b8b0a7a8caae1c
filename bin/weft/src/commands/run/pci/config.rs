//! The configuration space of an adapter's PCI function: the header of a function without memory or interrupts, and a
//! PCI Express capability.

use super::identity::Identity;

/// Size without the extended space of PCI Express.
const BYTES: usize = 256;

/// Bus mastering is on.
const COMMAND: u16 = 1 << 2;
/// There is a list of capabilities.
const STATUS: u16 = 1 << 4;

/// Offsets in the header (PCI Local Bus Specification 3.0, 6.1).
mod header {
    pub const VENDOR: usize = 0x00;
    pub const DEVICE: usize = 0x02;
    pub const COMMAND: usize = 0x04;
    pub const STATUS: usize = 0x06;
    pub const CLASS: usize = 0x09;
    pub const SUBSYSTEM_VENDOR: usize = 0x2c;
    pub const SUBSYSTEM_DEVICE: usize = 0x2e;
    pub const CAPABILITIES: usize = 0x34;
}

/// Where the capability is, and its ID.
const EXPRESS: u8 = 0x60;
const EXPRESS_ID: u8 = 0x10;
/// Second version of the structure, of an endpoint.
const ENDPOINT: u16 = 2;

/// Offsets in the capability (PCI Express Base Specification 5.0, 7.5.3).
mod express {
    pub const FLAGS: usize = 0x02;
    pub const LINK_CAPABILITIES: usize = 0x0c;
    pub const LINK_STATUS: usize = 0x12;
    pub const LINK_CAPABILITIES_2: usize = 0x2c;
    pub const LINK_CONTROL_2: usize = 0x30;
}

/// Returns the configuration space.
pub fn space(identity: &Identity) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    put(header::VENDOR, identity.vendor);
    put(header::DEVICE, identity.device);
    put(header::COMMAND, COMMAND);
    put(header::STATUS, STATUS);
    put(header::SUBSYSTEM_VENDOR, identity.vendor);
    put(header::SUBSYSTEM_DEVICE, identity.device);
    let at = usize::from(EXPRESS);
    let (generation, lanes) = (u16::from(identity.link.generation), u16::from(identity.link.lanes));
    put(at + express::FLAGS, ENDPOINT);
    put(at + express::LINK_CAPABILITIES, generation | lanes << 4);
    put(at + express::LINK_STATUS, generation | lanes << 4);
    // A bit for each speed, from bit 1 on.
    put(at + express::LINK_CAPABILITIES_2, (2 << generation) - 2);
    put(at + express::LINK_CONTROL_2, generation);
    bytes[header::CLASS..header::CLASS + 3].copy_from_slice(&identity.class.to_le_bytes()[..3]);
    bytes[header::CAPABILITIES] = EXPRESS;
    bytes[at] = EXPRESS_ID;
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::identity::PcieLink;
    use super::*;

    #[test]
    fn the_header_agrees_with_the_files() {
        let link = PcieLink { generation: 4, lanes: 16 };
        let identity = Identity { vendor: 0x15b3, device: 0x101b, class: 0x02_0700, driver: None, link };
        let bytes = space(&identity);
        assert_eq!(bytes.len(), 256);
        assert_eq!(bytes[..4], [0xb3, 0x15, 0x1b, 0x10]);
        assert_eq!(bytes[8..12], [0, 0, 7, 2]);
        assert_eq!(bytes[0x2c..0x30], [0xb3, 0x15, 0x1b, 0x10]);
        let at = usize::from(bytes[0x34]);
        assert_eq!((bytes[6] & 0x10, bytes[at], bytes[at + 1]), (0x10, 0x10, 0));
        // Link status: speed in four bits, width in six.
        assert_eq!(u16::from_le_bytes([bytes[at + 0x12], bytes[at + 0x13]]), 4 | 16 << 4);
        assert_eq!(bytes[at + 0x2c], 0b11110);
    }
}
