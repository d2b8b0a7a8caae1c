//! What the manager is told when it begins, and again when its configuration is read anew: names as in opensm.conf.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_verbs::Duration;

use crate::options::Options;
use crate::{partition, qos};

use crate::routing::RoutingOptions;
use crate::routing::chain::Chain;

/// What the manager works by.
#[derive(Clone)]
pub struct Setup {
    /// PortGUID of its own port (`guid`).
    pub own_guid: u64,
    /// Management key that ports are guarded with (`m_key`).
    pub m_key: u64,
    /// Seconds until a violated key is given up; 0: never (`m_key_lease_period`).
    pub m_key_lease_period: u16,
    /// What the key guards (`m_key_protection_level`).
    pub m_key_protection_level: u8,
    /// Key by which managers know each other (`sm_key`).
    pub sm_key: u64,
    /// 0 to 15, the highest becomes master (`sm_priority`).
    pub sm_priority: u8,
    /// Never become master (`--never-master`).
    pub never_master: bool,
    /// Hand over to any other manager that stands by, whatever its priority.
    pub yields: bool,
    /// Other managers do not count (`ignore_other_sm`).
    pub ignore_other_sm: bool,
    /// Upper half of the subnet's GIDs (`subnet_prefix`).
    pub subnet_prefix: u64,
    /// Each port has `1 << lmc` LIDs (`lmc`).
    pub lmc: u8,
    /// So have enhanced switches' ports 0 (`lmc_esp0`).
    pub lmc_esp0: bool,
    /// Service level to the manager (`sm_sl`).
    pub sm_sl: u8,
    /// SMPs that wait for their answers at once, at most (`max_wire_smps`).
    pub max_wire_smps: u32,
    /// How long an answer is waited for (`transaction_timeout`).
    pub transaction_timeout: Duration,
    /// The same for maps of lanes, which take a switch long (`long_transaction_timeout`).
    pub long_transaction_timeout: Duration,
    /// How often an SMP is sent again (`transaction_retries`).
    pub transaction_retries: u32,
    /// Time between two sweeps; zero: only when told (`sweep_interval`).
    pub sweep_interval: Duration,
    /// A trap makes a sweep (`sweep_on_trap`).
    pub sweep_on_trap: bool,
    /// Every sweep is a heavy one (`force_heavy_sweep`).
    pub force_heavy_sweep: bool,
    /// LIDs that ports have do not count (`reassign_lids`).
    pub reassign_lids: bool,
    /// The saved LIDs count also for who comes out of standby (`honor_guid2lid_file`).
    pub honor_guid2lid_file: bool,
    /// Time between two questions of who stands by to the master (`sminfo_polling_timeout`).
    pub sminfo_polling_timeout: Duration,
    /// How many of them in a row are not answered before the master is held to be gone (`polling_retry_number`).
    pub polling_retry_number: u32,
    /// VLs in use, at most, as a code: 1 for VL0 up to 5 for VL0-14 (`max_op_vls`).
    pub max_op_vls: u8,
    /// How long a packet may stay in a switch (`packet_life_time`).
    pub packet_life_time: u8,
    /// How long a packet may stand at the head of a switch port's queue (`head_of_queue_lifetime`).
    pub head_of_queue_lifetime: u8,
    /// The same where adapters hang (`leaf_head_of_queue_lifetime`).
    pub leaf_head_of_queue_lifetime: u8,
    /// Packets dropped in a row until a lane is stalled (`vl_stall_count`).
    pub vl_stall_count: u8,
    /// The same where adapters hang (`leaf_vl_stall_count`).
    pub leaf_vl_stall_count: u8,
    /// `local_phy_errors_threshold`.
    pub local_phy_errors_threshold: u8,
    /// `overrun_errors_threshold`.
    pub overrun_errors_threshold: u8,
    /// Time that a datagram may take through the subnet (`subnet_timeout`).
    pub subnet_timeout: u8,
    /// A port that does not stop to send traps is disabled (`babbling_port_policy`).
    pub babbling_port_policy: bool,
    /// Routing engines in the order in which they are tried (`routing_engine`, `no_fallback`).
    pub engines: Chain,
    /// What the engines are told.
    pub routing: RoutingOptions,
    /// What hops count: switch GUID, port, weight (`hop_weights_file`).
    pub hop_weights: Vec<(u64, u8, u16)>,
    /// Names of nodes by GUID, in place of those that they have (`node_name_map_name`).
    pub names: Arc<BTreeMap<u64, String>>,
    /// Text of the file in which LIDs are kept.
    pub guid2lid: String,
    /// Text of the file in which M_Keys are kept.
    pub guid2mkey: String,
    /// All options: what the above do not say is taken from them.
    pub options: Options,
    /// What partitions.conf says.
    pub partitions: partition::Config,
    /// What qos-policy.conf says; it counts where `qos` is on.
    pub policy: Option<Arc<qos::Policy>>,
    /// Which routers lead to which subnets: prefix and GUID, 0 for any (`prefix_routes_file`).
    pub prefix_routes: Vec<(u64, u64)>,
    /// Text of the administrator's data base, which a master that has none begins with.
    pub sa_db: String,
}

impl Setup {
    /// What OpenSM does unless told, for the port of this GUID, which is routed as the topology asks for.
    pub fn new(own_guid: u64) -> Setup {
        Setup {
            own_guid,
            m_key: 0,
            m_key_lease_period: 0,
            m_key_protection_level: 0,
            sm_key: 1,
            sm_priority: 0,
            never_master: false,
            yields: false,
            ignore_other_sm: false,
            subnet_prefix: 0xfe80_0000_0000_0000,
            lmc: 0,
            lmc_esp0: false,
            sm_sl: 0,
            max_wire_smps: 128,
            transaction_timeout: Duration::from_millis(200),
            long_transaction_timeout: Duration::from_millis(500),
            transaction_retries: 3,
            sweep_interval: Duration::from_secs(10),
            sweep_on_trap: true,
            force_heavy_sweep: false,
            reassign_lids: false,
            honor_guid2lid_file: false,
            sminfo_polling_timeout: Duration::from_secs(10),
            polling_retry_number: 4,
            max_op_vls: 5,
            packet_life_time: 0x12,
            head_of_queue_lifetime: 0x12,
            leaf_head_of_queue_lifetime: 0x10,
            vl_stall_count: 7,
            leaf_vl_stall_count: 7,
            local_phy_errors_threshold: 8,
            overrun_errors_threshold: 8,
            subnet_timeout: 18,
            babbling_port_policy: false,
            engines: Chain::default(),
            routing: RoutingOptions::default(),
            hop_weights: Vec::new(),
            names: Arc::default(),
            guid2lid: String::new(),
            guid2mkey: String::new(),
            options: Options::default(),
            partitions: partition::Config::default(),
            policy: None,
            prefix_routes: Vec::new(),
            sa_db: String::new(),
        }
    }
}
