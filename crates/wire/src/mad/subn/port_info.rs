//! PortInfo (IBA 14.2.5.6): all properties of a port.

use super::{CapabilityMask, CapabilityMask2, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortState};
use crate::layout::{bits, int, message};

message! {
    /// PortInfo. MTUs are codes, from 1 for 256 to 5 for 4096. Numbers of virtual lanes are codes: 1 for VL0, 2 for
    /// VL0-1, 3 for VL0-3, 4 for VL0-7, 5 for VL0-14.
    #[derive(Copy)]
    PortInfo[64] {
        /// Management key that guards the port.
        mkey: u64 = int(0, 8),
        /// Upper half of the port's GIDs.
        gid_prefix: u64 = int(8, 8),
        /// Base LID.
        lid: u16 = int(16, 2),
        /// LID of the master subnet manager.
        master_sm_lid: u16 = int(18, 2),
        /// Capabilities.
        capability_mask: CapabilityMask = int(20, 4),
        /// Vendor-specific diagnostic code.
        diag_code: u16 = int(24, 2),
        /// Seconds after a violation until the M_Key protection expires; 0: never.
        mkey_lease_period: u16 = int(26, 2),
        /// Port on which the request arrived.
        local_port_num: u8 = int(28, 1),
        /// Widths that are enabled.
        link_width_enabled: LinkWidth = int(29, 1),
        /// Widths that the port supports.
        link_width_supported: LinkWidth = int(30, 1),
        /// The active width.
        link_width_active: LinkWidth = int(31, 1),
        /// Speeds up to QDR that the port supports.
        link_speed_supported: LinkSpeed = bits(32, 0, 4),
        /// Logical state.
        port_state: PortState = bits(32, 4, 4),
        /// Physical state.
        port_physical_state: PhysState = bits(33, 0, 4),
        /// Physical state of the link after it goes down: sleep or polling.
        link_down_default_state: PhysState = bits(33, 4, 4),
        /// Protection level of the M_Key, 2 bits.
        mkey_protect_bits: u8 = bits(34, 0, 2),
        /// Number of low LID bits that the port ignores, 3 bits.
        lmc: u8 = bits(34, 5, 3),
        /// The active speed, if it is not an extended one.
        link_speed_active: LinkSpeed = bits(35, 0, 4),
        /// Speeds up to QDR that are enabled.
        link_speed_enabled: LinkSpeed = bits(35, 4, 4),
        /// MTU of the link, 4 bits.
        neighbor_mtu: u8 = bits(36, 0, 4),
        /// Service level to the master subnet manager, 4 bits.
        master_sm_sl: u8 = bits(36, 4, 4),
        /// Supported virtual lanes, 4 bits.
        vl_cap: u8 = bits(37, 0, 4),
        /// Type of initialisation that the port requests, 4 bits.
        init_type: u8 = bits(37, 4, 4),
        /// Limit of high-priority data before a low-priority packet may go.
        vl_high_limit: u8 = int(38, 1),
        /// Number of high-priority table entries.
        vl_arbitration_high_cap: u8 = int(39, 1),
        /// Number of low-priority table entries.
        vl_arbitration_low_cap: u8 = int(40, 1),
        /// The subnet manager's reply to the requested initialisation, 4 bits.
        init_type_reply: u8 = bits(41, 0, 4),
        /// Largest MTU, 4 bits.
        mtu_cap: u8 = bits(41, 4, 4),
        /// Packets dropped in a row until the lane is stalled, 3 bits.
        vl_stall_count: u8 = bits(42, 0, 3),
        /// Maximum time of a packet at the head of the queue: 4.096 us * 2^n, 5 bits.
        hoq_life: u8 = bits(42, 3, 5),
        /// Virtual lanes in use, 4 bits.
        operational_vls: u8 = bits(43, 0, 4),
        /// The port enforces partitions on inbound packets.
        partition_enforcement_inbound: bool = bits(43, 4, 1),
        /// The port enforces partitions on outbound packets.
        partition_enforcement_outbound: bool = bits(43, 5, 1),
        /// The port drops inbound raw packets.
        filter_raw_inbound: bool = bits(43, 6, 1),
        /// The port drops outbound raw packets.
        filter_raw_outbound: bool = bits(43, 7, 1),
        /// Number of SMPs with a wrong M_Key.
        mkey_violations: u16 = int(44, 2),
        /// Number of packets with a wrong P_Key.
        pkey_violations: u16 = int(46, 2),
        /// Number of packets with a wrong Q_Key.
        qkey_violations: u16 = int(48, 2),
        /// Number of entries in the port's GUID table.
        guid_cap: u8 = int(50, 1),
        /// Clients must register again with the subnet administrator.
        client_reregister: bool = bits(51, 0, 1),
        /// No traps for multicasts with a wrong P_Key, 2 bits.
        multicast_pkey_trap_suppression_enabled: u8 = bits(51, 1, 2),
        /// Maximum time of a datagram in the subnet: 4.096 us * 2^n, 5 bits.
        subnet_timeout: u8 = bits(51, 3, 5),
        /// Maximum response time of the port: 4.096 us * 2^n, 5 bits.
        resp_time_value: u8 = bits(52, 3, 5),
        /// Threshold of local errors for a link integrity error, 4 bits.
        local_phy_errors: u8 = bits(53, 0, 4),
        /// Threshold of overruns for an excessive overrun error, 4 bits.
        overrun_errors: u8 = bits(53, 4, 4),
        /// Hint for the maximum number of credits that a peer needs.
        max_credit_hint: u16 = int(54, 2),
        /// The active speed beyond NDR, 2 bits.
        link_speed_ext_active2: LinkSpeedExt2 = bits(56, 1, 2),
        /// Speeds beyond NDR that the port supports, 2 bits.
        link_speed_ext_supported2: LinkSpeedExt2 = bits(56, 3, 2),
        /// Speeds beyond NDR that are enabled, 3 bits.
        link_speed_ext_enabled2: LinkSpeedExt2 = bits(56, 5, 3),
        /// Round-trip latency of the link in units of 4 ns, 24 bits.
        link_round_trip_latency: u32 = int(57, 3),
        /// More capabilities.
        capability_mask2: CapabilityMask2 = int(60, 2),
        /// The active speed beyond QDR, 4 bits.
        link_speed_ext_active: LinkSpeedExt = bits(62, 0, 4),
        /// Speeds beyond QDR that the port supports, 4 bits.
        link_speed_ext_supported: LinkSpeedExt = bits(62, 4, 4),
        /// Speeds beyond QDR that are enabled, 5 bits.
        link_speed_ext_enabled: LinkSpeedExt = bits(63, 3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::subn::{SlToVlTable, SwitchInfo, VlArbitrationTable, VlWeight};

    fn golden(rows: &[u16]) -> [u8; 64] {
        let mut data = [0; 64];
        for (to, word) in data.as_chunks_mut::<2>().0.iter_mut().zip(rows) {
            *to = word.to_be_bytes();
        }
        data
    }

    /// The response of another program's simulated adapter, and its reading by a tool of that project.
    #[test]
    fn port_info_as_others_write_and_read_it() {
        let data = golden(&[
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0050, 0xc048, 0, 0x0ff9, 0x0103, 0x1f02, 0x7252, 0x0047, 0x4040, 0x0008,
            0x0804, 0xe040, 0, 0, 0, 0x201f, 0, 0, 0, 0, 0x0030, 0x2703,
        ]);
        let info = PortInfo {
            capability_mask: CapabilityMask::TRAP
                | CapabilityMask::SL_MAPPING
                | CapabilityMask::EXTENDED_SPEEDS
                | CapabilityMask::CAPABILITY_MASK2
                | CapabilityMask::VENDOR_CLASS
                | CapabilityMask::CAPABILITY_MASK_NOTICE,
            mkey_lease_period: 4089,
            local_port_num: 1,
            link_width_enabled: LinkWidth::X1 | LinkWidth::X4,
            link_width_supported: LinkWidth::from_bits_retain(0x1f),
            link_width_active: LinkWidth::X4,
            link_speed_supported: LinkSpeed::all(),
            port_state: PortState::INIT,
            port_physical_state: PhysState::LINK_UP,
            link_down_default_state: PhysState::POLLING,
            link_speed_active: LinkSpeed::QDR,
            link_speed_enabled: LinkSpeed::all(),
            neighbor_mtu: 4,
            vl_cap: 4,
            vl_arbitration_high_cap: 8,
            vl_arbitration_low_cap: 8,
            mtu_cap: 4,
            vl_stall_count: 7,
            operational_vls: 4,
            guid_cap: 32,
            subnet_timeout: 31,
            capability_mask2: CapabilityMask2::LINK_WIDTH_2X | CapabilityMask2::LINK_SPEED_HDR,
            link_speed_ext_active: LinkSpeedExt::EDR,
            link_speed_ext_supported: LinkSpeedExt::FDR | LinkSpeedExt::EDR | LinkSpeedExt::HDR,
            link_speed_ext_enabled: LinkSpeedExt::FDR | LinkSpeedExt::EDR,
            ..PortInfo::default()
        };
        assert_eq!(PortInfo::parse(&data), info);
        assert_eq!(info.encode(), data);
    }

    #[test]
    fn a_switch_as_others_write_and_read_it() {
        let data = golden(&[0x7800, 0, 0x0400, 0, 0, 0x0004, 0, 0x0040, 0x3800]);
        let info = SwitchInfo {
            linear_fdb_cap: 30720,
            multicast_fdb_cap: 1024,
            port_state_change: true,
            partition_enforcement_cap: 64,
            filter_raw_inbound_cap: true,
            filter_raw_outbound_cap: true,
            enhanced_port0: true,
            ..SwitchInfo::default()
        };
        assert_eq!((SwitchInfo::parse(&data), info.encode()), (info, data));
        let lanes = SlToVlTable::parse(&golden(&[0x0123, 0x4567, 0x89ab, 0xcde7]));
        assert_eq!(lanes.vls, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7]);
        let low = [0, 0x0104, 0x0204, 0x0304, 0x0404, 0x0504, 0x0604, 0x0704];
        let weights = VlArbitrationTable::parse(&golden(&low)).entries;
        assert_eq!((weights[0], weights[7]), (VlWeight { vl: 0, weight: 0 }, VlWeight { vl: 7, weight: 4 }));
    }
}
