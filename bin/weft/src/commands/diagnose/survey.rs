//! The survey: all data about the fabric that the checks judge. Switch tables, port keys and counters, managers.

use std::collections::{BTreeMap, BTreeSet};

use weft_diags::ib::address::PortId;
use weft_diags::ib::fields::perf::port_counters as pc;
use weft_diags::ib::names::NodeNames;
use weft_diags::ibnet::{Fabric, Kind, Node, PortRef};

/// The first multicast LID.
pub const MLID_MIN: u16 = 0xc000;
/// Maximum number of multicast groups that are checked.
pub const GROUPS_MAX: usize = 1024;

/// The largest LMC.
const LMC_MAX: u8 = 7;

/// Link errors that a good cable does not have.
pub const CABLE_ERRORS: [weft_diags::ib::field::Field; 7] = [
    pc::SYMBOL_ERROR_COUNTER,
    pc::LINK_ERROR_RECOVERY_COUNTER,
    pc::LINK_DOWNED_COUNTER,
    pc::PORT_RCV_ERRORS,
    pc::PORT_RCV_REMOTE_PHYSICAL_ERRORS,
    pc::LOCAL_LINK_INTEGRITY_ERRORS,
    pc::EXCESSIVE_BUFFER_OVERRUN_ERRORS,
];

/// A subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    /// Where it is.
    pub at: PortRef,
    /// SMInfo:Priority.
    pub priority: u8,
    /// SMInfo:SMState; 3 is the master.
    pub state: u8,
}

/// The data that the checks judge.
#[derive(Debug, Default)]
pub struct Survey {
    /// The fabric.
    pub fabric: Fabric,
    /// User-given node names.
    pub names: NodeNames,
    /// Linear forwarding tables: the port for each LID, 255 for none.
    pub lfts: BTreeMap<usize, Vec<u8>>,
    /// Multicast forwarding tables: the ports of each MLID.
    pub groups: BTreeMap<usize, BTreeMap<u16, Vec<u8>>>,
    /// SLtoVL tables of switches by in port and out port; each byte holds the VLs of two service levels.
    pub lanes: BTreeMap<(usize, u8, u8), [u8; 8]>,
    /// P_Key tables of adapters' ports and of switches.
    pub pkeys: BTreeMap<PortRef, Vec<u16>>,
    /// Managers.
    pub managers: Vec<Manager>,
    /// Error counters of each port, at the first and the second reading.
    pub errors: BTreeMap<PortRef, Vec<(u64, u64)>>,
    /// Switches that can report the sum of all their ports' counters.
    pub sums: BTreeSet<usize>,
    /// Requests without an answer.
    pub silent: Vec<String>,
}

impl Survey {
    /// A node's name with its port, for messages.
    pub fn label(&self, at: PortRef) -> String {
        format!("{} port {}", self.fabric.node(at.node).called(&self.names), at.port)
    }

    /// The address of requests to a node.
    pub fn address(node: &Node) -> PortId {
        node.path.unwrap_or_else(|| PortId::lid(node.sma_lid))
    }

    /// Ports with a cable.
    pub fn wired(&self) -> Vec<PortRef> {
        let ports = self.fabric.nodes().flat_map(|(index, node)| {
            node.external_ports().filter(|p| p.remote.is_some()).map(move |p| PortRef { node: index, port: p.num })
        });
        ports.collect()
    }

    /// Every LID: of adapter and router ports and of switches' port 0, including those that the LMC adds.
    pub fn lids(&self) -> Vec<(u16, PortRef)> {
        let lids_of = |(lid, at): (u16, PortRef)| {
            let lmc = self.fabric.port(at).map_or(0, |port| port.lmc.min(LMC_MAX));
            (lid..lid.saturating_add(1 << lmc)).map(move |lid| (lid, at))
        };
        self.ends().into_iter().flat_map(lids_of).collect()
    }

    /// The base LID of every path endpoint: adapter and router ports with a LID, and switches' port 0.
    pub fn ends(&self) -> Vec<(u16, PortRef)> {
        let mut ends = Vec::new();
        for (index, node) in self.fabric.nodes() {
            if node.kind == Kind::SWITCH {
                ends.push((node.sma_lid, PortRef { node: index, port: 0 }));
            } else {
                let ports = node.external_ports().filter(|p| p.remote.is_some());
                ends.extend(ports.map(|p| (p.lid, PortRef { node: index, port: p.num })));
            }
        }
        ends.retain(|(lid, _)| *lid != 0);
        ends.sort_unstable();
        ends
    }
}
