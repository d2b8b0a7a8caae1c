//! Records of forwarding, virtual lane and partition tables (IBA 15.2.5.4, .6 to .9, .11 and .17).

use super::component::components;
use crate::layout::{Bytes, array, bits, int, message};
use crate::mad::Block;
use crate::mad::subn::{RandomForwarding, VlWeight};

message! {
    /// SLtoVLMappingTableRecord.
    #[derive(Copy)]
    SlToVlTableRecord[16] {
        /// LID of the port, or of its switch.
        lid: u16 = int(0, 2),
        /// Input port; unused for adapters.
        input_port_num: u8 = int(2, 1),
        /// Output port; unused for adapters.
        output_port_num: u8 = int(3, 1),
        /// Virtual lane of each service level.
        vls: [u8; 16] = array(8, 4),
    }
}

components! {
    SlToVlTableRecord { LID = 16, INPUT_PORT_NUM = 8, OUTPUT_PORT_NUM = 8, RESERVED1 = 32, TABLE = 64, }
}

message! {
    /// VLArbitrationTableRecord.
    #[derive(Copy)]
    VlArbitrationTableRecord[72] {
        /// LID of the port, or of its switch.
        lid: u16 = int(0, 2),
        /// Output port.
        output_port_num: u8 = int(2, 1),
        /// Quarter: 1 and 2 of the low priority, 3 and 4 of the high priority.
        block_num: u8 = int(3, 1),
        /// Entries.
        entries: [VlWeight; 32] = array(8, 16),
    }
}

components! {
    VlArbitrationTableRecord { LID = 16, OUTPUT_PORT_NUM = 8, BLOCK_NUM = 8, RESERVED1 = 32, TABLE = 512, }
}

message! {
    /// LinearForwardingTableRecord.
    #[derive(Copy)]
    LinearForwardingTableRecord[72] {
        /// LID of the switch.
        lid: u16 = int(0, 2),
        /// Block of 64 LIDs.
        block_num: u16 = int(2, 2),
        /// Output port of each LID.
        ports: Block<64> = Bytes(8),
    }
}

components! {
    LinearForwardingTableRecord { LID = 16, BLOCK_NUM = 16, RESERVED1 = 32, TABLE = 512, }
}

message! {
    /// RandomForwardingTableRecord.
    #[derive(Copy)]
    RandomForwardingTableRecord[72] {
        /// LID of the switch.
        lid: u16 = int(0, 2),
        /// Block of 16 entries.
        block_num: u16 = int(2, 2),
        /// Entries.
        entries: [RandomForwarding; 16] = array(8, 32),
    }
}

components! {
    RandomForwardingTableRecord { LID = 16, BLOCK_NUM = 16, RESERVED1 = 32, TABLE = 512, }
}

message! {
    /// MulticastForwardingTableRecord.
    #[derive(Copy)]
    MulticastForwardingTableRecord[72] {
        /// LID of the switch.
        lid: u16 = int(0, 2),
        /// Block of 16 ports, 4 bits.
        position: u8 = bits(2, 0, 4),
        /// Block of 32 LIDs, 9 bits.
        block_num: u16 = bits(2, 7, 9),
        /// Port masks: one bit for each port, one word for each LID.
        masks: [u16; 32] = array(8, 16),
    }
}

components! {
    MulticastForwardingTableRecord { LID = 16, POSITION = 4, RESERVED1 = 3, BLOCK_NUM = 9, RESERVED2 = 32, TABLE = 512, }
}

message! {
    /// P_KeyTableRecord.
    #[derive(Copy)]
    PKeyTableRecord[72] {
        /// LID of the port, or of its switch.
        lid: u16 = int(0, 2),
        /// Block of 32 entries.
        block_num: u16 = int(2, 2),
        /// Port of the switch.
        port_num: u8 = int(4, 1),
        /// P_Keys.
        pkeys: [u16; 32] = array(8, 16),
    }
}

components! {
    PKeyTableRecord { LID = 16, BLOCK_NUM = 16, PORT_NUM = 8, RESERVED1 = 24, TABLE = 512, }
}
