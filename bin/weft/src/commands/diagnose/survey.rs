//! What is asked of the fabric before anything is judged: tables of switches, keys and counters of ports, managers.

use std::collections::BTreeMap;

use crate::ib::address::PortId;
use crate::ib::fields::perf::port_counters as pc;
use crate::ib::fields::subn::sm_info;
use crate::ib::names::NodeNames;
use crate::ib::pma;
use crate::ib::port::Port;
use crate::ib::smp;
use crate::ibnet::port::{PHYS_LINK_UP, STATE_ACTIVE};
use crate::ibnet::{Fabric, Kind, Node, PortRef};

/// Bytes of a block of a table.
const BLOCK: usize = smp::DATA_LEN;
/// P_Keys in a block.
const PKEYS: usize = BLOCK / 2;
/// PortInfo:CapabilityMask of a port that manages the subnet.
const IS_SM: u32 = 1 << 1;
/// The first LID of groups, and how many are in a block.
pub const MLID_MIN: u16 = 0xc000;
const GROUPS: usize = BLOCK / 2;
/// Groups that are looked at, at most.
const GROUPS_MAX: usize = 1024;

/// Errors of a link that a good cable does not have.
pub const CABLE_ERRORS: [crate::ib::field::Field; 7] = [
    pc::SYMBOL_ERROR_COUNTER,
    pc::LINK_ERROR_RECOVERY_COUNTER,
    pc::LINK_DOWNED_COUNTER,
    pc::PORT_RCV_ERRORS,
    pc::PORT_RCV_REMOTE_PHYSICAL_ERRORS,
    pc::LOCAL_LINK_INTEGRITY_ERRORS,
    pc::EXCESSIVE_BUFFER_OVERRUN_ERRORS,
];

/// A manager of the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    /// Where it is.
    pub at: PortRef,
    /// SMInfo:Priority.
    pub priority: u8,
    /// SMInfo:SMState; 3 is the master.
    pub state: u8,
}

/// Everything that is judged.
#[derive(Debug, Default)]
pub struct Survey {
    /// The fabric.
    pub fabric: Fabric,
    /// Names.
    pub names: NodeNames,
    /// Linear forwarding tables: the port for each LID, 255 for none.
    pub lfts: BTreeMap<usize, Vec<u8>>,
    /// Multicast tables: ports by group.
    pub groups: BTreeMap<usize, BTreeMap<u16, Vec<u8>>>,
    /// SLtoVL of switches: the lanes of service levels by in port and out port, two in a byte.
    pub lanes: BTreeMap<(usize, u8, u8), [u8; 8]>,
    /// P_Key tables of adapters' ports and of switches.
    pub pkeys: BTreeMap<PortRef, Vec<u16>>,
    /// Managers.
    pub managers: Vec<Manager>,
    /// Errors of each port: before and after a while.
    pub errors: BTreeMap<PortRef, Vec<(u64, u64)>>,
    /// Questions without an answer.
    pub silent: Vec<String>,
}

impl Survey {
    /// A node's name with its port, as a person finds it.
    pub fn label(&self, at: PortRef) -> String {
        format!("{} port {}", self.fabric.node(at.node).called(&self.names), at.port)
    }

    /// What a question to a node is sent to.
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

    /// Asks for tables and keys.
    pub fn ask_tables(&mut self, port: &mut Port) {
        for (index, node) in self.nodes() {
            if node.is_switch() {
                self.ask_linear(port, index, &node);
                self.ask_groups(port, index, &node);
            }
            self.ask_pkeys(port, index, &node);
            self.ask_managers(port, index, &node);
        }
    }

    /// Asks switches which lanes service levels have.
    pub fn ask_lanes(&mut self, port: &mut Port) {
        for (index, node) in self.nodes().into_iter().filter(|(_, node)| node.is_switch()) {
            self.ask_lanes_of(port, index, &node);
        }
    }

    fn nodes(&self) -> Vec<(usize, Node)> {
        self.fabric.nodes().map(|(index, node)| (index, node.clone())).collect()
    }

    /// The lane of a service level from a switch's port to another.
    pub fn lane(&self, way: (usize, u8, u8), level: u8) -> u8 {
        let row = self.lanes.get(&way).copied().unwrap_or_default();
        row.get(usize::from(level / 2)).map_or(0, |pair| pair >> (4 * (1 - level % 2)) & 15)
    }

    fn get(&mut self, port: &mut Port, node: &Node, attribute: u16, modifier: u32) -> Option<smp::Data> {
        let answer = port.smp_get(&Survey::address(node), attribute, modifier).ok();
        if answer.is_none() {
            self.silent.push(format!("{}: attribute 0x{attribute:x}, {modifier}", node.called(&self.names)));
        }
        answer
    }

    fn ask_linear(&mut self, port: &mut Port, index: usize, node: &Node) {
        let top = usize::from(node.linear_top());
        let mut table = Vec::with_capacity(top + 1);
        for block in 0..=top / BLOCK {
            let Some(data) = self.get(port, node, smp::LINEAR_FORWARDING, block as u32) else { return };
            table.extend(data);
        }
        table.truncate(top + 1);
        self.lfts.insert(index, table);
    }

    fn ask_groups(&mut self, port: &mut Port, index: usize, node: &Node) {
        let known = usize::from(node.multicast_cap()).min(GROUPS_MAX);
        let top = usize::from(node.multicast_top().saturating_sub(MLID_MIN)) + 1;
        let known = if node.multicast_top() >= MLID_MIN { known.min(top) } else { known };
        let mut groups: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        for block in 0..known.div_ceil(GROUPS) {
            for position in 0..(u32::from(node.num_ports) + 1).div_ceil(16) {
                let modifier = block as u32 | position << 28;
                let Some(data) = self.get(port, node, smp::MULTICAST_FORWARDING, modifier) else { return };
                for (i, mask) in data.chunks(2).map(|b| u16::from_be_bytes([b[0], b[1]])).enumerate() {
                    let mlid = MLID_MIN + (block * GROUPS + i) as u16;
                    let ports = (0..16u32).filter(|bit| mask >> bit & 1 != 0).map(|bit| (position * 16 + bit) as u8);
                    groups.entry(mlid).or_default().extend(ports);
                }
            }
        }
        groups.retain(|_, ports| !ports.is_empty());
        self.groups.insert(index, groups);
    }

    fn ask_lanes_of(&mut self, port: &mut Port, index: usize, node: &Node) {
        let ports: Vec<u8> = node.external_ports().filter(|p| p.remote.is_some()).map(|p| p.num).collect();
        for &out in &ports {
            for &into in &ports {
                let modifier = u32::from(into) << 8 | u32::from(out);
                let Some(data) = self.get(port, node, smp::SL2VL_TABLE, modifier) else { return };
                let row = std::array::from_fn(|pair| data[pair]);
                self.lanes.insert((index, into, out), row);
            }
        }
    }

    fn ask_pkeys(&mut self, port: &mut Port, index: usize, node: &Node) {
        let numbers: Vec<u8> = match node.is_switch() {
            true => vec![0],
            false => node.external_ports().map(|p| p.num).collect(),
        };
        for number in numbers {
            let modifier = if node.is_switch() { 0 } else { u32::from(number) << 16 };
            let rows = usize::from(node.info.u16(28)).max(1);
            let mut keys = Vec::new();
            for block in 0..rows.div_ceil(PKEYS) as u32 {
                let Some(data) = self.get(port, node, smp::PKEY_TABLE, modifier | block) else { break };
                keys.extend(data.chunks(2).map(|b| u16::from_be_bytes([b[0], b[1]])).filter(|&key| key & 0x7fff != 0));
            }
            self.pkeys.insert(PortRef { node: index, port: number }, keys);
        }
    }

    fn ask_managers(&mut self, port: &mut Port, index: usize, node: &Node) {
        for of in node.ports().filter(|p| p.capability_mask() & IS_SM != 0) {
            if node.is_switch() && of.num != 0 {
                continue;
            }
            let to = PortId::lid(if node.is_switch() { node.sma_lid } else { of.lid });
            if to.lid == 0 {
                continue;
            }
            if let Ok(info) = port.smp_get(&to, smp::SM_INFO, 0) {
                let at = PortRef { node: index, port: of.num };
                let priority = sm_info::SM_PRIORITY.value(&info) as u8;
                self.managers.push(Manager { at, priority, state: sm_info::SM_STATE.value(&info) as u8 });
            }
        }
    }

    /// Asks all ports for their errors.
    pub fn ask_errors(&mut self, port: &mut Port, second: bool) {
        for at in self.wired() {
            let node = self.fabric.node(at.node);
            let Some(of) = node.port(at.port) else { continue };
            let lid = Fabric::lid_of(node, of);
            if lid == 0 || of.phys_state() != PHYS_LINK_UP || of.state() != STATE_ACTIVE {
                continue;
            }
            let Ok(data) = port.pma_get(&PortId::lid(lid), pma::COUNTERS, at.port, 0) else {
                self.silent.push(format!("{}: counters", self.label(at)));
                continue;
            };
            let values = CABLE_ERRORS.iter().map(|field| field.value(&data));
            if second {
                if let Some(kept) = self.errors.get_mut(&at) {
                    kept.iter_mut().zip(values).for_each(|(pair, value)| pair.1 = value);
                }
            } else {
                self.errors.insert(at, values.map(|value| (value, value)).collect());
            }
        }
    }

    /// Adapters' and routers' ports with a LID, and switches' port 0: every end of a path.
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
