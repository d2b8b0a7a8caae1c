//! Port settings and keys.

use crate::options::spec::{Effect, group};

group! {
    /// Port settings and keys.
    Device at device {
        /// PortGUID of the port to run on; 0 picks the first port that is not down
        guid: u64 = 0, Restart, Effect::Works;
        /// M_Key of all ports; 0 disables protection
        m_key: u64 = 0, Live, Effect::Works;
        /// Seconds until a port drops its M_Key if the subnet manager does not answer for it; 0: never
        m_key_lease_period: u16 = 0, Live, Effect::Works;
        /// M_Key protection: 0 guards writes, 1 also hides the key, 2 and 3 also guard reads
        m_key_protection_level: u8 = 0, Live, Effect::Works;
        /// Look up a port's M_Key in the file guid2mkey where it differs from m_key
        m_key_lookup: bool = true, Live, Effect::Works;
        /// Key with which subnet managers trust each other
        sm_key: u64 = 1, Live, Effect::Works;
        /// Key that marks an SA query as trusted
        sa_key: u64 = 1, Live, Effect::Works;
        /// Subnet prefix: the upper half of every GID of the subnet
        subnet_prefix: u64 = 0xfe80_0000_0000_0000, Restart, Effect::Works;
        /// Give each port 2^lmc LIDs, lmc from 0 to 7
        lmc: u8 = 0, Restart, Effect::Works;
        /// Give port 0 of enhanced switches 2^lmc LIDs too
        lmc_esp0: bool = false, Restart, Effect::Works;
        /// Service level of packets to the SM and SA
        sm_sl: u8 = 0, Live, Effect::Works;
        /// Longest time a packet may stay in a switch: 4.096 us * 2^n; 0x14 is no limit
        packet_life_time: u8 = 0x12, Live, Effect::Works;
        /// Consecutive packets dropped before a VL counts as stalled, on links between switches; never 0
        vl_stall_count: u8 = 7, Live, Effect::Works;
        /// The same, for switch ports that face hosts and routers
        leaf_vl_stall_count: u8 = 7, Live, Effect::Works;
        /// Longest time a packet may wait at the head of a queue: 4.096 us * 2^n; 0x14 is no limit
        head_of_queue_lifetime: u8 = 0x12, Live, Effect::Works;
        /// The same, for switch ports that face hosts and routers
        leaf_head_of_queue_lifetime: u8 = 0x10, Live, Effect::Works;
        /// Data VLs that links may use, as a code: 1 for one, 2 for 2, 3 for 4, 4 for 8, 5 for 15
        max_op_vls: u8 = 5, Live, Effect::Works;
        /// LinkSpeedEnabled of ports, in effect when a link next trains: 0 keeps the port's value, 15 is all supported,
        /// else 1, 3, 5 or 7: a bit each for 2.5, 5 and 10 Gb/s a lane
        force_link_speed: u8 = 15, Live, Effect::Works;
        /// LinkSpeedExtEnabled of ports, likewise: 0 keeps the port's value, 30 is none, 31 is all supported,
        /// else up to 7: a bit each for FDR, EDR and HDR
        force_link_speed_ext: u8 = 31, Live, Effect::Works;
        /// LinkWidthEnabled of ports, likewise: 0 keeps the port's value, 255 is all supported,
        /// else up to 31: a bit each for 1x, 4x, 8x, 12x and 2x
        force_link_width: u8 = 255, Live, Effect::Works;
        /// FDR10 where supported: 0 keeps the port's value, 1 is on, 2 is off
        fdr10: u8 = 1, Live,
            Effect::Nothing("FDR10 is left as devices have it");
        /// SubnetTimeOut of all ports, the longest time a packet takes through the subnet: 4.096 us * 2^n
        subnet_timeout: u8 = 18, Live, Effect::Works;
        /// Local link errors after which a port sends trap 129
        local_phy_errors_threshold: u8 = 8, Live, Effect::Works;
        /// Credit overruns after which a port sends trap 130
        overrun_errors_threshold: u8 = 8, Live, Effect::Works;
        /// Set MulticastFDBTop on switches that support it
        use_mfttop: bool = true, Live, Effect::Works;
    }
}
