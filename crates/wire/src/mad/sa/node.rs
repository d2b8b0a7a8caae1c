//! Records of nodes, ports and links (IBA 15.2.5.2, .3, .5, .10, .13 and .18).

use super::component::components;
use crate::layout::{Bytes, array, int, message, within};
use crate::mad::subn::{NodeDescription, NodeInfo, PortInfo, SmInfo, SwitchInfo};

message! {
    /// NodeRecord: a node as seen at one of its ports.
    #[derive(Copy)]
    NodeRecord[108] {
        /// LID of the port.
        lid: u16 = int(0, 2),
        /// The node.
        node_info: NodeInfo = within(4, 40),
        /// Its description.
        node_description: NodeDescription = Bytes(44),
    }
}

components! {
    NodeRecord {
        LID = 16, RESERVED1 = 16, BASE_VERSION = 8, CLASS_VERSION = 8, NODE_TYPE = 8, NUM_PORTS = 8,
        SYSTEM_IMAGE_GUID = 64, NODE_GUID = 64, PORT_GUID = 64, PARTITION_CAP = 16, DEVICE_ID = 16, REVISION = 32,
        LOCAL_PORT_NUM = 8, VENDOR_ID = 24, NODE_DESCRIPTION = 512,
    }
}

message! {
    /// PortInfoRecord: a port.
    #[derive(Copy)]
    PortInfoRecord[68] {
        /// LID of the port, or of its switch's port 0.
        lid: u16 = int(0, 2),
        /// Number of the port.
        port_num: u8 = int(2, 1),
        /// Bit 7: capabilities match as a mask: a port matches if it has all those in the query.
        options: u8 = int(3, 1),
        /// The port.
        port_info: PortInfo = within(4, 64),
    }
}

components! {
    PortInfoRecord {
        LID = 16, PORT_NUM = 8, OPTIONS = 8, MKEY = 64, GID_PREFIX = 64, BASE_LID = 16, MASTER_SM_LID = 16,
        CAPABILITY_MASK = 32, DIAG_CODE = 16, MKEY_LEASE_PERIOD = 16, LOCAL_PORT_NUM = 8, LINK_WIDTH_ENABLED = 8,
        LINK_WIDTH_SUPPORTED = 8, LINK_WIDTH_ACTIVE = 8, LINK_SPEED_SUPPORTED = 4, PORT_STATE = 4,
        PORT_PHYSICAL_STATE = 4, LINK_DOWN_DEFAULT_STATE = 4, MKEY_PROTECT_BITS = 2, RESERVED2 = 3, LMC = 3,
        LINK_SPEED_ACTIVE = 4, LINK_SPEED_ENABLED = 4, NEIGHBOR_MTU = 4, MASTER_SM_SL = 4, VL_CAP = 4, INIT_TYPE = 4,
        VL_HIGH_LIMIT = 8, VL_ARBITRATION_HIGH_CAP = 8, VL_ARBITRATION_LOW_CAP = 8, INIT_TYPE_REPLY = 4, MTU_CAP = 4,
        VL_STALL_COUNT = 3, HOQ_LIFE = 5, OPERATIONAL_VLS = 4, PARTITION_ENFORCEMENT_INBOUND = 1,
        PARTITION_ENFORCEMENT_OUTBOUND = 1, FILTER_RAW_INBOUND = 1, FILTER_RAW_OUTBOUND = 1, MKEY_VIOLATIONS = 16,
        PKEY_VIOLATIONS = 16, QKEY_VIOLATIONS = 16, GUID_CAP = 8, CLIENT_REREGISTER = 1, RESERVED3 = 2,
        SUBNET_TIMEOUT = 5, RESERVED4 = 3, RESP_TIME_VALUE = 5, LOCAL_PHY_ERRORS = 4, OVERRUN_ERRORS = 4,
        MAX_CREDIT_HINT = 16, RESERVED5 = 8, LINK_ROUND_TRIP_LATENCY = 24, CAPABILITY_MASK2 = 16,
        LINK_SPEED_EXT_ACTIVE = 4, LINK_SPEED_EXT_SUPPORTED = 4, RESERVED7 = 3, LINK_SPEED_EXT_ENABLED = 5,
    }
}

message! {
    /// SwitchInfoRecord.
    #[derive(Copy)]
    SwitchInfoRecord[24] {
        /// LID of the switch.
        lid: u16 = int(0, 2),
        /// The switch.
        switch_info: SwitchInfo = within(4, 20),
    }
}

components! {
    SwitchInfoRecord {
        LID = 16, RESERVED1 = 16, LINEAR_FDB_CAP = 16, RANDOM_FDB_CAP = 16, MULTICAST_FDB_CAP = 16,
        LINEAR_FDB_TOP = 16, DEFAULT_PORT = 8, DEFAULT_MULTICAST_PRIMARY_PORT = 8,
        DEFAULT_MULTICAST_NOT_PRIMARY_PORT = 8, LIFE_TIME_VALUE = 5, PORT_STATE_CHANGE = 1,
        OPTIMIZED_SL_TO_VL_MAPPING = 2, LIDS_PER_PORT = 16, PARTITION_ENFORCEMENT_CAP = 16,
        INBOUND_ENFORCEMENT_CAP = 1, OUTBOUND_ENFORCEMENT_CAP = 1, FILTER_RAW_INBOUND_CAP = 1,
        FILTER_RAW_OUTBOUND_CAP = 1, ENHANCED_PORT0 = 1, RESERVED2 = 11, MULTICAST_FDB_TOP = 16,
    }
}

message! {
    /// SMInfoRecord: a subnet manager.
    #[derive(Copy)]
    SmInfoRecord[25] {
        /// LID of its port.
        lid: u16 = int(0, 2),
        /// The subnet manager.
        sm_info: SmInfo = within(4, 21),
    }
}

components! {
    SmInfoRecord {
        LID = 16, RESERVED1 = 16, GUID = 64, SM_KEY = 64, ACT_COUNT = 32, PRIORITY = 4, SM_STATE = 4,
    }
}

message! {
    /// LinkRecord: a link.
    #[derive(Copy)]
    LinkRecord[8] {
        /// LID of one end, or of its switch.
        from_lid: u16 = int(0, 2),
        /// Port of one end.
        from_port_num: u8 = int(2, 1),
        /// Port of the other end.
        to_port_num: u8 = int(3, 1),
        /// LID of the other end, or of its switch.
        to_lid: u16 = int(4, 2),
    }
}

components! {
    LinkRecord { FROM_LID = 16, FROM_PORT = 8, TO_PORT = 8, TO_LID = 16, }
}

message! {
    /// GuidInfoRecord: eight GUIDs of a port.
    #[derive(Copy)]
    GuidInfoRecord[72] {
        /// LID of the port.
        lid: u16 = int(0, 2),
        /// Block of eight GUIDs.
        block_num: u8 = int(2, 1),
        /// GUIDs.
        guids: [u64; 8] = array(8, 64),
    }
}

components! {
    GuidInfoRecord {
        LID = 16, BLOCK_NUM = 8, RESERVED1 = 8, RESERVED2 = 32, GUID0 = 64, GUID1 = 64, GUID2 = 64, GUID3 = 64,
        GUID4 = 64, GUID5 = 64, GUID6 = 64, GUID7 = 64,
    }
}
