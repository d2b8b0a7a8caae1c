//! Tables that a subnet manager reads and writes block by block: GUIDs, partitions, virtual lanes and forwarding (IBA
//! 14.2.5.5 and 14.2.5.7 to 14.2.5.12). The attribute modifier selects the block and the port.

use crate::layout::{Bytes, Number, array, message};
use crate::mad::Block;

message! {
    /// GUIDInfo: eight of the port's GUIDs. Modifier: block.
    #[derive(Copy)]
    GuidInfo[64] {
        /// GUIDs; 0 for none.
        guids: [u64; 8] = array(0, 64),
    }
}

message! {
    /// P_KeyTable: 32 partitions of a port. Modifier: port (of a switch) << 16 | block.
    #[derive(Copy)]
    PKeyTable[64] {
        /// P_Keys with their membership bit; 0 for none.
        pkeys: [u16; 32] = array(0, 16),
    }
}

message! {
    /// SLtoVLMappingTable: the virtual lane of each service level; 15 drops the packet. Modifier: input port << 8 |
    /// output port.
    #[derive(Copy)]
    SlToVlTable[64] {
        /// Virtual lane of each service level.
        vls: [u8; 16] = array(0, 4),
    }
}

/// An entry of a VL arbitration table: the amount that a virtual lane may send at its turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VlWeight {
    /// Virtual lane, 4 bits.
    pub vl: u8,
    /// Weight in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

impl Number for VlWeight {
    #[inline]
    fn from_wire(value: u64) -> VlWeight {
        VlWeight { vl: (value >> 8) as u8 & 0xf, weight: value as u8 }
    }
    #[inline]
    fn to_wire(&self) -> u64 {
        u64::from(self.vl & 0xf) << 8 | u64::from(self.weight)
    }
}

message! {
    /// VLArbitrationTable: half of a table. Modifier: block << 16 | port (of a switch), where blocks 1 and 2 are low
    /// priority, 3 and 4 high priority.
    #[derive(Copy)]
    VlArbitrationTable[64] {
        /// Entries, in order.
        entries: [VlWeight; 32] = array(0, 16),
    }
}

message! {
    /// LinearForwardingTable: the ports of 64 LIDs. Modifier: block.
    #[derive(Copy)]
    LinearForwardingTable[64] {
        /// Output port of each LID; [`LFT_NO_PATH`] drops the packet.
        ports: Block<64> = Bytes(0),
    }
}

/// The value for "no port" in a linear forwarding table.
pub const LFT_NO_PATH: u8 = 0xff;
/// LIDs in a block of a linear forwarding table.
pub const LFT_BLOCK: u16 = 64;
/// LIDs in a block of a multicast forwarding table.
pub const MFT_BLOCK: u16 = 32;
/// Ports in a block of a multicast forwarding table.
pub const MFT_PORTS: u8 = 16;
/// Entries in a block of a P_Key table.
pub const PKEY_BLOCK: u16 = 32;
/// Entries in a block of a GUID table.
pub const GUID_BLOCK: u8 = 8;

/// One entry of a random forwarding table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RandomForwarding {
    /// First LID.
    pub lid: u16,
    /// Whether the entry is valid.
    pub valid: bool,
    /// Number of low LID bits to ignore, 3 bits.
    pub lmc: u8,
    /// Output port.
    pub port: u8,
}

impl Number for RandomForwarding {
    fn from_wire(value: u64) -> RandomForwarding {
        RandomForwarding {
            lid: (value >> 16) as u16,
            valid: value >> 15 & 1 != 0,
            lmc: (value >> 12) as u8 & 7,
            port: value as u8,
        }
    }
    fn to_wire(&self) -> u64 {
        u64::from(self.lid) << 16 | u64::from(self.valid) << 15 | u64::from(self.lmc & 7) << 12 | u64::from(self.port)
    }
}

message! {
    /// RandomForwardingTable: 16 entries. Modifier: block.
    #[derive(Copy)]
    RandomForwardingTable[64] {
        /// Entries.
        entries: [RandomForwarding; 16] = array(0, 32),
    }
}

message! {
    /// MulticastForwardingTable: the output ports, among a block of 16, of each of 32 multicast LIDs. Modifier:
    /// position of the ports << 28 | block.
    #[derive(Copy)]
    MulticastForwardingTable[64] {
        /// Port masks: the lowest bit for the first of the sixteen ports.
        masks: [u16; 32] = array(0, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_the_specification_puts_them() {
        let mut sl = SlToVlTable::default();
        (sl.vls[0], sl.vls[1], sl.vls[15]) = (1, 2, 0xf);
        assert_eq!((sl.encode()[0], sl.encode()[7]), (0x12, 0x0f));
        let mut arb = VlArbitrationTable::default();
        arb.entries[1] = VlWeight { vl: 14, weight: 0xab };
        assert_eq!(arb.encode()[..4], [0, 0, 14, 0xab]);
        let mut random = RandomForwardingTable::default();
        random.entries[1] = RandomForwarding { lid: 0x1234, valid: true, lmc: 5, port: 9 };
        assert_eq!(random.encode()[4..8], [0x12, 0x34, 0xd0, 9]);
        let mut pkeys = PKeyTable::default();
        pkeys.pkeys[31] = 0x8001;
        assert_eq!(pkeys.encode()[62..], [0x80, 1]);
        let guids = GuidInfo { guids: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert_eq!(guids.encode()[56..], [0, 0, 0, 0, 0, 0, 0, 8]);
    }
}
