//! What the administrator sees of its manager while it answers.

use std::collections::BTreeMap;

use weft_wire::mad::sa::ComponentMask;
use weft_wire::mad::sa::PathRecord;
use weft_wire::mad::subn::{SmInfo, VlWeight};

use crate::graph::Graph;
use crate::subnet::{NodeIx, PortIx, Subnet};
use crate::tables::Tables;

/// What the manager lends the administrator, for a call.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Changes whenever one of the following is another one than before; whole sweeps alone make it change, so that a
    /// subnet half discovered is never taken for one from which ports have gone.
    pub generation: u64,
    /// The manager is master and its first sweep is done; else nobody is answered (IBA C15-0.1.3).
    pub serving: bool,
    /// The subnet.
    pub subnet: &'a Subnet,
    /// The same as routing sees it.
    pub graph: &'a Graph,
    /// The tables that the switches have.
    pub tables: &'a Tables,
    /// What the administrator of the subnet set.
    pub settings: &'a Settings,
    /// Service levels of partitions, by P_Key without membership bit.
    pub partitions: &'a BTreeMap<u16, u8>,
    /// What the quality of service says of paths.
    pub policy: Option<&'a dyn PathPolicy>,
    /// Lane tables as they are set.
    pub lanes: Option<&'a dyn LaneTables>,
    /// This manager first, then the others that are known.
    pub managers: &'a [SmInfo],
}

/// Options of the administrator, named as in opensm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Upper half of the subnet's GIDs (`subnet_prefix`).
    pub subnet_prefix: u64,
    /// Key that makes a question a trusted one (`sa_key`).
    pub sa_key: u64,
    /// Time that a datagram may take through the subnet, as a code (`subnet_timeout`).
    pub subnet_timeout: u8,
    /// Milliseconds that answers are waited for (`transaction_timeout`).
    pub transaction_timeout_ms: u32,
    /// Quality of service is set up (`qos`).
    pub qos: bool,
    /// There are no multicast groups (`disable_multicast`).
    pub disable_multicast: bool,
    /// Switches are told the last entry of their multicast tables (`use_mfttop`).
    pub use_mfttop: bool,
    /// Groups of IPoIB must fit their broadcast group (`ipoib_mcgroup_creation_validation`).
    pub ipoib_mcgroup_creation_validation: bool,
    /// Who joins must name the group's properties as they are (`mcgroup_join_validation`).
    pub mcgroup_join_validation: bool,
    /// Groups of IPv6 solicited nodes share LIDs (`consolidate_ipv6_snm_req`).
    pub consolidate_ipv6_snm_req: bool,
    /// The largest number of a rate that askers understand (`max_rate_enum`).
    pub max_rate_enum: u8,
    /// A byte of the GUIDs that the administrator makes (`sm_assigned_guid`).
    pub sm_assigned_guid: u8,
    /// Which routers lead to which subnets: prefix (0: any) and the router's GUID (0: any), the first that fits
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

/// What a QoS level asks of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLevel {
    /// Service level.
    pub sl: Option<u8>,
    /// The largest MTU, a code.
    pub mtu_limit: Option<u8>,
    /// The highest rate, a code.
    pub rate_limit: Option<u8>,
    /// Packet life time, a code.
    pub packet_life: Option<u8>,
    /// First and last P_Key of each range that paths may use; any if there is none.
    pub pkeys: Vec<(u16, u16)>,
}

/// A question for a path, as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PathQuestion<'a> {
    /// PortGUID of its beginning.
    pub source: u64,
    /// PortGUID of its end.
    pub destination: u64,
    /// What was asked.
    pub asked: &'a PathRecord,
    /// Which components of that were named.
    pub mask: ComponentMask,
}

/// A policy for paths (qos-policy.conf).
pub trait PathPolicy {
    /// The level of a path; `None` if no rule fits.
    fn level(&self, question: &PathQuestion<'_>) -> Option<PathLevel>;
}

/// Lane tables as they are set on ports.
pub trait LaneTables {
    /// The lane of each service level from one port of a node to another; of adapters `port_in` is 0.
    fn sl_to_vl(&self, node: NodeIx, port_in: u8, port_out: u8) -> Option<[u8; 16]>;

    /// A quarter of a port's arbitration: 1 and 2 of the low priority, 3 and 4 of the high priority.
    fn arbitration(&self, port: PortIx, block: u8) -> Option<[VlWeight; 32]>;
}
