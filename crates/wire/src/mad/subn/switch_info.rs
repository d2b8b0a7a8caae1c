//! SwitchInfo (IBA 14.2.5.4).

use crate::layout::{bits, int, message};

message! {
    /// SwitchInfo: a switch's tables and forwarding settings.
    #[derive(Copy)]
    SwitchInfo[64] {
        /// Capacity of the linear forwarding table.
        linear_fdb_cap: u16 = int(0, 2),
        /// Capacity of the random forwarding table.
        random_fdb_cap: u16 = int(2, 2),
        /// Capacity of the multicast forwarding table.
        multicast_fdb_cap: u16 = int(4, 2),
        /// Last used entry of the linear forwarding table.
        linear_fdb_top: u16 = int(6, 2),
        /// Port for LIDs that the random forwarding table lacks.
        default_port: u8 = int(8, 1),
        /// Port for multicasts that no table contains, unless they arrived on it.
        default_multicast_primary_port: u8 = int(9, 1),
        /// Port for those that did.
        default_multicast_not_primary_port: u8 = int(10, 1),
        /// Maximum time of a packet in the switch: 4.096 us * 2^n, 5 bits.
        life_time_value: u8 = bits(11, 0, 5),
        /// A port's state changed; writing 1 clears it.
        port_state_change: bool = bits(11, 5, 1),
        /// Wildcards that the SL to VL tables support, 2 bits.
        optimized_sl_to_vl_mapping: u8 = bits(11, 6, 2),
        /// Number of LIDs for each port in the random forwarding table.
        lids_per_port: u16 = int(12, 2),
        /// Number of P_Key table entries of each port that enforces partitions.
        partition_enforcement_cap: u16 = int(14, 2),
        /// Ports can enforce partitions on inbound packets.
        inbound_enforcement_cap: bool = bits(16, 0, 1),
        /// Ports can enforce partitions on outbound packets.
        outbound_enforcement_cap: bool = bits(16, 1, 1),
        /// Ports can drop inbound raw packets.
        filter_raw_inbound_cap: bool = bits(16, 2, 1),
        /// Ports can drop outbound raw packets.
        filter_raw_outbound_cap: bool = bits(16, 3, 1),
        /// Port 0 is enhanced: it carries data, as an adapter's port does.
        enhanced_port0: bool = bits(16, 4, 1),
        /// Last used entry of the multicast forwarding table.
        multicast_fdb_top: u16 = int(18, 2),
    }
}
