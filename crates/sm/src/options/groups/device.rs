//! What ports are set to, and the keys.

use crate::options::spec::{Effect, group};

group! {
    /// What ports are set to, and the keys.
    Device at device {
        /// PortGUID of the port that the manager works through; 0 takes the first that is not down
        guid: u64 = 0, Restart, Effect::Works;
        /// M_Key that all ports are given; 0 protects nothing
        m_key: u64 = 0, Live, Effect::Works;
        /// Seconds until a port gives its M_Key up when nobody answers for it; 0: never
        m_key_lease_period: u16 = 0, Live, Effect::Works;
        /// What the M_Key protects: 0 writes, 1 hides the key too, 2 and 3 reads too
        m_key_protection_level: u8 = 0, Live, Effect::Works;
        /// Look the M_Key of a port up in the file guid2mkey, where it is not m_key
        m_key_lookup: bool = true, Live, Effect::Works;
        /// Key by which managers trust each other
        sm_key: u64 = 1, Live, Effect::Works;
        /// Key by which a question to the administrator is a trusted one
        sa_key: u64 = 1, Live, Effect::Works;
        /// Upper half of all GIDs of the subnet
        subnet_prefix: u64 = 0xfe80_0000_0000_0000, Restart, Effect::Works;
        /// Each port has 2^lmc LIDs, 0 to 7
        lmc: u8 = 0, Restart, Effect::Works;
        /// Enhanced switches' port 0 has 2^lmc LIDs too
        lmc_esp0: bool = false, Restart, Effect::Works;
        /// Service level to the manager and administrator
        sm_sl: u8 = 0, Live, Effect::Works;
        /// Time that a packet may live in a switch: 4.096 us * 2^n; 0x14 is no limit
        packet_life_time: u8 = 0x12, Live, Effect::Works;
        /// Packets dropped in a row until a lane counts as stalled, of links between switches; never 0
        vl_stall_count: u8 = 7, Live, Effect::Works;
        /// The same, of switch ports that face hosts and routers
        leaf_vl_stall_count: u8 = 7, Live, Effect::Works;
        /// Time that a packet may stand at the head of a queue: 4.096 us * 2^n; 0x14 is no limit
        head_of_queue_lifetime: u8 = 0x12, Live, Effect::Works;
        /// The same, of switch ports that face hosts and routers
        leaf_head_of_queue_lifetime: u8 = 0x10, Live, Effect::Works;
        /// Lanes that links may use, as a code: 1 for one, 2 for 2, 3 for 4, 4 for 8, 5 for 15
        max_op_vls: u8 = 5, Live, Effect::Works;
        /// LinkSpeedEnabled of ports, which counts when their links train next: 0 leaves it, 15 is all that is supported,
        /// else 1, 3, 5 or 7: a bit each for 2.5, 5 and 10 Gb/s a lane
        force_link_speed: u8 = 15, Live, Effect::Works;
        /// LinkSpeedExtEnabled of ports, likewise: 0 leaves it, 30 is none, 31 is all that is supported,
        /// else up to 7: a bit each for FDR, EDR and HDR
        force_link_speed_ext: u8 = 31, Live, Effect::Works;
        /// LinkWidthEnabled of ports, likewise: 0 leaves it, 255 is all that is supported,
        /// else up to 31: a bit each for 1x, 4x, 8x, 12x and 2x
        force_link_width: u8 = 255, Live, Effect::Works;
        /// FDR10 where it is supported: 0 leaves it, 1 is on, 2 is off
        fdr10: u8 = 1, Live,
            Effect::Nothing("FDR10 is left as devices have it");
        /// Time that a datagram may take through the subnet, told to all ports: 4.096 us * 2^n
        subnet_timeout: u8 = 18, Live, Effect::Works;
        /// Local errors that make a port report with trap 129
        local_phy_errors_threshold: u8 = 8, Live, Effect::Works;
        /// Overruns of credit that make a port report with trap 130
        overrun_errors_threshold: u8 = 8, Live, Effect::Works;
        /// Tell switches that support it where their multicast table ends
        use_mfttop: bool = true, Live, Effect::Works;
    }
}
