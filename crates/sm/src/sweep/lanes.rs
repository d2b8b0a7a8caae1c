//! VL tables: the SL2VL tables and VL arbitration of each port. Written only where QoS is on or the forwarding tables
//! need several VLs, and only where they differ.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use weft_wire::mad::subn::{PortInfo, PortState, SlToVlTable, VlWeight};

use super::{Ask, What};
use crate::manager::Manager;
use crate::qos::{InSwitch, Kind, Setup};
use crate::sa::LaneTables;
use crate::subnet::{NodeIx, PortIx};

/// Modifier bits of SLtoVLMappingTable that select every input port.
const ALL_IN: u32 = 1 << 17;

impl Manager {
    /// Whether the manager configures VLs at all.
    fn lanes_needed(&self) -> bool {
        Setup::is_needed(&self.setup.options, &self.tables.lanes)
    }

    /// Adds the Limit of High Priority to the wanted settings of a port.
    pub(crate) fn want_lanes(&self, at: PortIx, info: &mut PortInfo) {
        if self.lanes_needed()
            && let Some(kind) = self.subnet.node(at.node).and_then(|node| Kind::of(node, at.port))
        {
            info.vl_high_limit = self.lanes.kind(kind).high_limit;
        }
    }

    /// Writes the tables of every port where they differ.
    pub(crate) fn write_lanes(&mut self) {
        if !self.lanes_needed() {
            return;
        }
        for at in self.every_port() {
            let linked = self.subnet.port(at).is_some_and(|port| port.neighbor.is_some());
            let Some(kind) = self.subnet.node(at.node).and_then(|node| Kind::of(node, at.port)) else { continue };
            // A port that has not reported its PortInfo may have any number of VLs.
            let unknown = self.subnet.port(at).is_none_or(|port| port.info.port_state == PortState::NO_CHANGE);
            if at.port != 0 && (!linked || unknown) {
                continue;
            }
            let signature = self.signature(at, kind);
            if self.sweep.lanes.insert(at, signature) == Some(signature) {
                continue;
            }
            self.sweep.written = true;
            let Some(port) = self.subnet.port(at) else { continue };
            for (block, _) in self.lanes.arbitration(kind, &port.info) {
                self.wire.ask(Ask { what: What::SetVlArb, at, arg: block.into() });
            }
            for arg in self.inputs(at) {
                self.wire.ask(Ask { what: What::SetSlToVl, at, arg });
            }
        }
    }

    /// Returns the attribute modifiers for writing the SL2VL tables of an output port: a single one for all inputs, if
    /// the switch supports that and the tables are equal.
    fn inputs(&self, at: PortIx) -> Vec<u32> {
        let Some(node) = self.subnet.node(at.node) else { return Vec::new() };
        let Some(switch) = &node.switch else { return vec![0] };
        let out = u32::from(at.port);
        let inputs = (0..=u8::MAX).zip(&node.ports).filter(|(number, port)| *number == 0 || port.neighbor.is_some());
        let inputs: Vec<u8> = inputs.map(|(number, _)| number).collect();
        let map = |input: u8| self.sl_to_vl_map(at, input);
        let same = inputs.windows(2).all(|pair| map(pair[0]) == map(pair[1]));
        let wild = switch.info.optimized_sl_to_vl_mapping != 0 && self.setup.options.misc.use_optimized_slvl;
        if same && wild {
            vec![ALL_IN | out]
        } else {
            inputs.iter().map(|input| u32::from(*input) << 8 | out).collect()
        }
    }

    /// Hashes a port's wanted VL tables; other content hardly has the same value.
    fn signature(&self, at: PortIx, kind: Kind) -> u64 {
        let mut hasher = FxHasher::default();
        let Some(port) = self.subnet.port(at) else { return 0 };
        for (block, table) in self.lanes.arbitration(kind, &port.info) {
            hasher.write_u8(block);
            hasher.write(&table.encode());
        }
        for arg in self.inputs(at) {
            hasher.write_u32(arg);
            hasher.write(&self.sl_to_vl_map(at, (arg >> 8) as u8).unwrap_or_default());
        }
        hasher.finish()
    }

    fn sl_to_vl_map(&self, at: PortIx, input: u8) -> Option<[u8; 16]> {
        let node = self.subnet.node(at.node)?;
        let kind = Kind::of(node, at.port)?;
        let info = &node.ports.get(usize::from(at.port))?.info;
        let place = self.places.get(&at.node).filter(|_| node.switch.is_some());
        let ports = node.ports.len();
        let within = place.map(|switch| InSwitch { switch: *switch, ports, port_in: input, port_out: at.port });
        Some(self.lanes.sl2vl(kind, info, &self.tables.lanes, within))
    }

    pub(crate) fn sl_to_vl_block(&self, ask: Ask) -> Option<[u8; 64]> {
        let vls = self.sl_to_vl_map(ask.at, (ask.arg >> 8) as u8)?;
        Some(SlToVlTable { vls }.encode())
    }

    pub(crate) fn arbitration_block(&self, ask: Ask) -> Option<[u8; 64]> {
        let node = self.subnet.node(ask.at.node)?;
        let info = &node.ports.get(usize::from(ask.at.port))?.info;
        let blocks = self.lanes.arbitration(Kind::of(node, ask.at.port)?, info);
        blocks.into_iter().find(|(block, _)| u32::from(*block) == ask.arg).map(|(_, table)| table.encode())
    }

    /// Forgets the tables of a port after a failed Set.
    pub(crate) fn on_lanes_lost(&mut self, ask: Ask) {
        self.sweep.lanes.remove(&ask.at);
    }
}

impl LaneTables for Manager {
    fn sl_to_vl(&self, node: NodeIx, port_in: u8, port_out: u8) -> Option<[u8; 16]> {
        let held = self.subnet.node(node)?;
        let port = if held.switch.is_some() { port_out } else { held.info.local_port_num };
        let at = PortIx { node, port };
        self.sweep.lanes.get(&at)?;
        self.sl_to_vl_map(at, port_in)
    }

    fn arbitration(&self, port: PortIx, block: u8) -> Option<[VlWeight; 32]> {
        self.sweep.lanes.get(&port)?;
        let node = self.subnet.node(port.node)?;
        let info = &node.ports.get(usize::from(port.port))?.info;
        let blocks = self.lanes.arbitration(Kind::of(node, port.port)?, info);
        blocks.into_iter().find(|(number, _)| *number == block).map(|(_, table)| table.entries)
    }
}
