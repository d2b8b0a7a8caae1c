//! SwitchInfo (IBA 14.2.5.4).

use crate::layout::{bits, int, message};

message! {
    /// SwitchInfo: what tables a switch has and how it forwards.
    #[derive(Copy)]
    SwitchInfo[64] {
        /// Entries of the linear forwarding table.
        linear_fdb_cap: u16 = int(0, 2),
        /// Entries of the random forwarding table.
        random_fdb_cap: u16 = int(2, 2),
        /// Entries of the multicast forwarding table.
        multicast_fdb_cap: u16 = int(4, 2),
        /// Last entry of the linear forwarding table that is in use.
        linear_fdb_top: u16 = int(6, 2),
        /// Port for what the random forwarding table does not have.
        default_port: u8 = int(8, 1),
        /// Port for multicasts that no table has and that did not come through that port.
        default_multicast_primary_port: u8 = int(9, 1),
        /// Port for those that did.
        default_multicast_not_primary_port: u8 = int(10, 1),
        /// How long a packet may stay in the switch: 4.096 us * 2^n, 5 bits.
        life_time_value: u8 = bits(11, 0, 5),
        /// Some port's state changed; written as 1 it becomes 0.
        port_state_change: bool = bits(11, 5, 1),
        /// Which wildcards the SL to VL tables take, 2 bits.
        optimized_sl_to_vl_mapping: u8 = bits(11, 6, 2),
        /// LIDs that the random forwarding table takes for a port.
        lids_per_port: u16 = int(12, 2),
        /// Entries of the P_Key table of each port that enforces partitions.
        partition_enforcement_cap: u16 = int(14, 2),
        /// Ports can enforce partitions on what comes in.
        inbound_enforcement_cap: bool = bits(16, 0, 1),
        /// Ports can enforce partitions on what goes out.
        outbound_enforcement_cap: bool = bits(16, 1, 1),
        /// Ports can drop raw packets that come in.
        filter_raw_inbound_cap: bool = bits(16, 2, 1),
        /// Ports can drop raw packets that go out.
        filter_raw_outbound_cap: bool = bits(16, 3, 1),
        /// Port 0 is an enhanced one: it carries data, as the port of an adapter does.
        enhanced_port0: bool = bits(16, 4, 1),
        /// Last entry of the multicast forwarding table that is in use.
        multicast_fdb_top: u16 = int(18, 2),
    }
}
