//! Setup of the manager, given at start and at each reload: names as in opensm.conf.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_verbs::Duration;

use crate::options::Options;
use crate::{partition, qos};

use crate::routing::RoutingOptions;
use crate::routing::chain::Chain;

/// Setup of the manager.
#[derive(Clone)]
pub struct Setup {
    /// PortGUID of its own port (`guid`).
    pub own_guid: u64,
    /// M_Key of all ports (`m_key`).
    pub m_key: u64,
    /// Seconds until a port drops a violated M_Key; 0: never (`m_key_lease_period`).
    pub m_key_lease_period: u16,
    /// Protection level of the M_Key (`m_key_protection_level`).
    pub m_key_protection_level: u8,
    /// Key with which managers trust each other (`sm_key`).
    pub sm_key: u64,
    /// Priority, 0 to 15; the highest becomes master (`sm_priority`).
    pub sm_priority: u8,
    /// Never become master (`--never-master`).
    pub never_master: bool,
    /// Hand over to any other manager in standby, whatever its priority.
    pub yields: bool,
    /// Ignore other managers (`ignore_other_sm`).
    pub ignore_other_sm: bool,
    /// Upper half of the subnet's GIDs (`subnet_prefix`).
    pub subnet_prefix: u64,
    /// Each port has `1 << lmc` LIDs (`lmc`).
    pub lmc: u8,
    /// Port 0 of an enhanced switch has as many (`lmc_esp0`).
    pub lmc_esp0: bool,
    /// Service level of packets to the manager (`sm_sl`).
    pub sm_sl: u8,
    /// Maximum SMPs in flight (`max_wire_smps`).
    pub max_wire_smps: u32,
    /// Timeout of each try of an SMP (`transaction_timeout`).
    pub transaction_timeout: Duration,
    /// The same for SL2VL tables, which switches process slowly (`long_transaction_timeout`).
    pub long_transaction_timeout: Duration,
    /// Retries of an SMP (`transaction_retries`).
    pub transaction_retries: u32,
    /// Time between two sweeps; zero: only on request (`sweep_interval`).
    pub sweep_interval: Duration,
    /// Sweep after a trap (`sweep_on_trap`).
    pub sweep_on_trap: bool,
    /// Make every sweep a heavy one (`force_heavy_sweep`).
    pub force_heavy_sweep: bool,
    /// Ignore the LIDs that ports have (`reassign_lids`).
    pub reassign_lids: bool,
    /// Honor the saved LIDs also when leaving standby (`honor_guid2lid_file`).
    pub honor_guid2lid_file: bool,
    /// Time between two polls of the master by a standby (`sminfo_polling_timeout`).
    pub sminfo_polling_timeout: Duration,
    /// Consecutive unanswered polls after which the master counts as dead (`polling_retry_number`).
    pub polling_retry_number: u32,
    /// Maximum operational VLs, as a code: 1 for VL0 up to 5 for VL0-14 (`max_op_vls`).
    pub max_op_vls: u8,
    /// Longest time of a packet in a switch (`packet_life_time`).
    pub packet_life_time: u8,
    /// Longest time of a packet at the head of a switch port's queue (`head_of_queue_lifetime`).
    pub head_of_queue_lifetime: u8,
    /// The same at ports that face hosts and routers (`leaf_head_of_queue_lifetime`).
    pub leaf_head_of_queue_lifetime: u8,
    /// Consecutive packets dropped before a VL counts as stalled (`vl_stall_count`).
    pub vl_stall_count: u8,
    /// The same at ports that face hosts and routers (`leaf_vl_stall_count`).
    pub leaf_vl_stall_count: u8,
    /// Local link errors after which a port sends trap 129 (`local_phy_errors_threshold`).
    pub local_phy_errors_threshold: u8,
    /// Credit overruns after which a port sends trap 130 (`overrun_errors_threshold`).
    pub overrun_errors_threshold: u8,
    /// Longest time of a packet through the subnet (`subnet_timeout`).
    pub subnet_timeout: u8,
    /// Disable a port that keeps sending traps (`babbling_port_policy`).
    pub babbling_port_policy: bool,
    /// Routing engines in the order to try them (`routing_engine`, `no_fallback`).
    pub engines: Chain,
    /// Options of the routing engines.
    pub routing: RoutingOptions,
    /// Hop weights: switch GUID, port, weight (`hop_weights_file`).
    pub hop_weights: Vec<(u64, u8, u16)>,
    /// Node names by GUID, which replace the nodes' own (`node_name_map_name`).
    pub names: Arc<BTreeMap<u64, String>>,
    /// Text of the saved guid2lid file.
    pub guid2lid: String,
    /// Text of the saved guid2mkey file.
    pub guid2mkey: String,
    /// All options, for settings without a field above.
    pub options: Options,
    /// Contents of partitions.conf.
    pub partitions: partition::Config,
    /// Contents of qos-policy.conf, in effect if `qos` is on.
    pub policy: Option<Arc<qos::Policy>>,
    /// Routers to other subnets: prefix and GUID, 0 for any (`prefix_routes_file`).
    pub prefix_routes: Vec<(u64, u64)>,
    /// Text of the SA database, which a master without one loads.
    pub sa_db: String,
}

impl Setup {
    /// Returns OpenSM's defaults for the port with this GUID, with the routing that the topology calls for.
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
