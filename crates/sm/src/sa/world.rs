//! The manager's state that the administrator reads while it answers requests.

use std::collections::BTreeMap;

use weft_wire::mad::sa::ComponentMask;
use weft_wire::mad::sa::PathRecord;
use weft_wire::mad::subn::{SmInfo, VlWeight};

use crate::graph::Graph;
use crate::subnet::{NodeIx, PortIx, Subnet};
use crate::tables::Tables;

/// The manager's state, borrowed for one call.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Changes whenever one of the following fields changes. Only complete sweeps change it, so that a partly
    /// discovered subnet never looks like one that has lost ports.
    pub generation: u64,
    /// Whether the manager is master and has finished its first sweep; otherwise all requests are ignored (IBA
    /// C15-0.1.3).
    pub serving: bool,
    /// The subnet.
    pub subnet: &'a Subnet,
    /// The subnet as the routing engines see it.
    pub graph: &'a Graph,
    /// The forwarding tables that the switches have.
    pub tables: &'a Tables,
    /// Configuration.
    pub settings: &'a Settings,
    /// Service levels of partitions, by P_Key without the membership bit.
    pub partitions: &'a BTreeMap<u16, u8>,
    /// QoS policy for paths.
    pub policy: Option<&'a dyn PathPolicy>,
    /// SL-to-VL and VL arbitration tables as set on ports.
    pub lanes: Option<&'a dyn LaneTables>,
    /// SMInfo of this manager, then of the other known managers.
    pub managers: &'a [SmInfo],
}

/// Options of the administrator, named as in opensm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Upper half of the subnet's GIDs (`subnet_prefix`).
    pub subnet_prefix: u64,
    /// Key that makes a request a trusted one (`sa_key`).
    pub sa_key: u64,
    /// Maximum propagation delay through the subnet, as a code (`subnet_timeout`).
    pub subnet_timeout: u8,
    /// Milliseconds to wait for a response (`transaction_timeout`).
    pub transaction_timeout_ms: u32,
    /// Whether QoS is enabled (`qos`).
    pub qos: bool,
    /// Whether multicast groups are disabled (`disable_multicast`).
    pub disable_multicast: bool,
    /// Whether the manager writes the top of the multicast tables to switches (`use_mfttop`).
    pub use_mfttop: bool,
    /// IPoIB groups must match their broadcast group (`ipoib_mcgroup_creation_validation`).
    pub ipoib_mcgroup_creation_validation: bool,
    /// A join must name the group's actual properties (`mcgroup_join_validation`).
    pub mcgroup_join_validation: bool,
    /// IPv6 solicited-node groups share LIDs (`consolidate_ipv6_snm_req`).
    pub consolidate_ipv6_snm_req: bool,
    /// The largest rate code that requesters understand (`max_rate_enum`).
    pub max_rate_enum: u8,
    /// A byte of the GUIDs that the administrator assigns (`sm_assigned_guid`).
    pub sm_assigned_guid: u8,
    /// Routers by destination subnet: prefix (0: any) and router GUID (0: any); the first match applies
    /// (`prefix_routes_file`).
    pub prefix_routes: Vec<(u64, u64)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            subnet_prefix: 0xfe80_0000_0000_0000,
            sa_key: 1,
            subnet_timeout: 18,
            transaction_timeout_ms: 200,
            qos: false,
            disable_multicast: false,
            use_mfttop: true,
            ipoib_mcgroup_creation_validation: true,
            mcgroup_join_validation: true,
            consolidate_ipv6_snm_req: false,
            max_rate_enum: u8::MAX,
            sm_assigned_guid: 0,
            prefix_routes: Vec::new(),
        }
    }
}

/// The constraints of a QoS level on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLevel {
    /// Service level.
    pub sl: Option<u8>,
    /// Maximum MTU code.
    pub mtu_limit: Option<u8>,
    /// Maximum rate code.
    pub rate_limit: Option<u8>,
    /// Packet life time code.
    pub packet_life: Option<u8>,
    /// First and last P_Key of each range that paths may use; empty if any P_Key may be used.
    pub pkeys: Vec<(u16, u16)>,
}

/// A path request, as input for a policy.
#[derive(Clone, Copy, Debug)]
pub struct PathQuestion<'a> {
    /// PortGUID of the source.
    pub source: u64,
    /// PortGUID of the destination.
    pub destination: u64,
    /// The requested path.
    pub asked: &'a PathRecord,
    /// Component mask of the request.
    pub mask: ComponentMask,
}

/// A QoS policy for paths (qos-policy.conf).
pub trait PathPolicy {
    /// The QoS level of a path; `None` if no rule matches.
    fn level(&self, question: &PathQuestion<'_>) -> Option<PathLevel>;
}

/// SL-to-VL and VL arbitration tables as set on ports.
pub trait LaneTables {
    /// The VL of each service level from one port of a node to another; for adapters `port_in` is 0.
    fn sl_to_vl(&self, node: NodeIx, port_in: u8, port_out: u8) -> Option<[u8; 16]>;

    /// A quarter of a port's VL arbitration table: blocks 1 and 2 are low priority, 3 and 4 high priority.
    fn arbitration(&self, port: PortIx, block: u8) -> Option<[VlWeight; 32]>;
}
