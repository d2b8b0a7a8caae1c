//! NodeInfo and NodeDescription, which identify a node (IBA 14.2.5.2 and 14.2.5.3).

use super::SmpData;
#[cfg(test)]
use crate::layout::Bytes;
use crate::layout::{At, int, message, open};

open! {
    /// Type of a node.
    NodeType(u8) {
        CA = 1, "Channel Adapter";
        SWITCH = 2, "Switch";
        ROUTER = 3, "Router";
    }
}

message! {
    /// NodeInfo: the node and the port on which the request arrived.
    #[derive(Copy)]
    NodeInfo[64] {
        /// Base version of its management datagrams.
        base_version: u8 = int(0, 1),
        /// Class version of its subnet management.
        class_version: u8 = int(1, 1),
        /// Node type.
        node_type: NodeType = int(2, 1),
        /// Number of physical ports; port 0 of a switch does not count.
        num_ports: u8 = int(3, 1),
        /// GUID of the system that the node is a part of.
        system_image_guid: u64 = int(4, 8),
        /// GUID of the node.
        node_guid: u64 = int(12, 8),
        /// GUID of the port; for a switch, of port 0.
        port_guid: u64 = int(20, 8),
        /// Number of P_Key table entries; for a switch, of port 0.
        partition_cap: u16 = int(28, 2),
        /// Vendor's device ID.
        device_id: u16 = int(30, 2),
        /// Vendor's revision.
        revision: u32 = int(32, 4),
        /// Port on which the request arrived.
        local_port_num: u8 = int(36, 1),
        /// IEEE OUI of the vendor, 24 bits.
        vendor_id: u32 = int(37, 3),
    }
}

/// NodeDescription: 64 bytes of UTF-8, zeros at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeDescription(pub [u8; 64]);

impl NodeDescription {
    /// Length in bytes.
    pub const LEN: usize = 64;

    /// Creates a description from a text, truncated to 64 bytes at a character boundary.
    pub fn new(text: &str) -> NodeDescription {
        let mut len = text.len().min(Self::LEN);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; Self::LEN];
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        NodeDescription(bytes)
    }
    /// Reads it.
    pub fn parse(data: &SmpData) -> NodeDescription {
        NodeDescription(*data)
    }
    /// Writes it.
    pub fn encode(&self) -> SmpData {
        self.0
    }
    /// Returns the bytes before the first zero.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|b| *b == 0).next().unwrap_or_default()
    }
    /// Returns the text before the first zero, with replacement characters for invalid bytes.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn layout() -> Vec<(&'static str, Vec<(usize, usize)>)> {
        vec![("text", At::<[u8; 64]>::spans(&Bytes(0)))]
    }
}

impl Default for NodeDescription {
    fn default() -> NodeDescription {
        NodeDescription([0; 64])
    }
}

impl std::fmt::Debug for NodeDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl At<NodeDescription> for crate::layout::Bytes {
    fn take(&self, data: &[u8]) -> NodeDescription {
        NodeDescription(self.take(data))
    }
    fn put(&self, data: &mut [u8], value: &NodeDescription) {
        self.put(data, &value.0);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        At::<[u8; 64]>::spans(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_cut_at_a_character() {
        assert_eq!(NodeDescription::new("node1 HCA-1").text(), "node1 HCA-1");
        let long = format!("{}é", "x".repeat(63));
        assert_eq!(NodeDescription::new(&long).text(), "x".repeat(63));
        assert_eq!(NodeDescription([b'y'; 64]).text().len(), 64);
        assert_eq!(NodeDescription([0xff; 64]).text().chars().count(), 64);
    }

    /// The response of another program's simulated adapter.
    #[test]
    fn node_info_as_others_write_it() {
        let mut data = [0; 64];
        data[..40].copy_from_slice(&[
            0x01, 0x01, 0x01, 0x01, 0x00, 0x02, 0xc9, 0x03, 0x0a, 0x00, 0x00, 0x10, 0x00, 0x02, 0xc9, 0x03, 0x0a, 0x00,
            0x00, 0x10, 0x00, 0x02, 0xc9, 0x03, 0x0a, 0x00, 0x00, 0x11, 0x00, 0x40, 0x10, 0x17, 0x00, 0x00, 0x00, 0xa1,
            0x01, 0x00, 0x02, 0xc9,
        ]);
        let info = NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::CA,
            num_ports: 1,
            system_image_guid: 0x0002_c903_0a00_0010,
            node_guid: 0x0002_c903_0a00_0010,
            port_guid: 0x0002_c903_0a00_0011,
            partition_cap: 64,
            device_id: 0x1017,
            revision: 0xa1,
            local_port_num: 1,
            vendor_id: 0x0002c9,
        };
        assert_eq!(NodeInfo::parse(&data), info);
        assert_eq!(info.encode(), data);
    }
}
