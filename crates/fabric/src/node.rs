//! Nodes: adapters, switches and routers, with the state that their ports share.

use crate::limits::{LINEAR_FDB_CAP, MULTICAST_FDB_CAP, PKEYS};
use crate::pending_traps::Traps;
use crate::tables::{Lft, Mft};
use crate::topology::{Node as NodeSpec, NodeKind};
use weft_verbs::{Duration, Instant};
use weft_wire::mad::subn::{NodeDescription, SwitchInfo};

/// Faults of the management agents of a node. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentFault {
    /// Subnet and performance management do not answer.
    pub silent: bool,
    /// Response time of the subnet management agent.
    pub delay: Duration,
    /// The NodeGUID that NodeInfo reports, for example another node's.
    pub guid: Option<u64>,
    /// The number of ports that NodeInfo reports.
    pub ports: Option<u8>,
}

/// A node of a running fabric.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: NodeKind,
    /// Whether it has power.
    pub powered: bool,
    /// External ports.
    pub ports: u8,
    /// Index that port number 0 has, or would have.
    pub base: u32,
    pub guid: u64,
    pub system_image_guid: u64,
    pub vendor_id: u32,
    pub device_id: u16,
    pub description: NodeDescription,
    /// NodeDescription after power-on.
    first_description: NodeDescription,
    pub lmc_max: u8,
    /// When it powers on again.
    pub boot_at: Option<Instant>,
    /// Faults of its management agents. They survive power cycles.
    pub fault: AgentFault,
    /// LedMask of LedInfo.
    pub led: bool,
    pub switch: Option<Box<Switch>>,
    pub traps: Option<Box<Traps>>,
}

impl Node {
    pub fn new(spec: &NodeSpec, base: u32) -> Node {
        let description = NodeDescription::new(&spec.description);
        Node {
            kind: spec.kind,
            powered: true,
            ports: spec.port_count(),
            base,
            guid: spec.guid,
            system_image_guid: spec.system_image_guid,
            vendor_id: spec.vendor_id,
            device_id: spec.device_id,
            description,
            first_description: description,
            boot_at: None,
            fault: AgentFault::default(),
            lmc_max: spec.lmc_max.min(7),
            led: false,
            switch: (spec.kind == NodeKind::Switch).then(|| Box::new(Switch::new(spec))),
            traps: None,
        }
    }

    /// Resets everything written since power-on.
    pub fn reset(&mut self) {
        self.description = self.first_description;
        self.led = false;
        self.traps = None;
        if let Some(switch) = &mut self.switch {
            **switch = Switch::fresh(switch.info.enhanced_port0, switch.positions);
        }
    }

    /// Returns the number of its first port: 0 for a switch.
    pub fn first_port(&self) -> u8 {
        u8::from(self.kind != NodeKind::Switch)
    }

    /// Returns the indexes of its ports.
    pub fn places(&self) -> std::ops::RangeInclusive<u32> {
        let first = self.base.wrapping_add(u32::from(self.first_port()));
        first..=self.base.wrapping_add(u32::from(self.ports))
    }

    /// Returns the index of one of its ports.
    pub fn place(&self, number: u8) -> Option<u32> {
        (self.first_port()..=self.ports).contains(&number).then(|| self.base.wrapping_add(u32::from(number)))
    }
}

/// Forwarding state of a switch.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    pub lft: Lft,
    pub mft: Mft,
    pub info: SwitchInfo,
    /// Number of 16-port positions of the multicast table.
    pub positions: usize,
    /// Lanes of the service levels for each pair of input and output port, in SLtoVLMappingTable's format; empty until
    /// one is written.
    sl2vl: Vec<u64>,
}

/// The lane of every service level until a manager writes the table: the level's number modulo the eight lanes.
pub(crate) const SL2VL_DEFAULT: u64 = 0x0123_4567_0123_4567;

impl Switch {
    fn new(spec: &NodeSpec) -> Switch {
        Switch::fresh(spec.enhanced_port0, Mft::positions(spec.port_count()))
    }

    fn fresh(enhanced_port0: bool, positions: usize) -> Switch {
        let info = SwitchInfo {
            linear_fdb_cap: LINEAR_FDB_CAP,
            multicast_fdb_cap: MULTICAST_FDB_CAP,
            partition_enforcement_cap: PKEYS,
            inbound_enforcement_cap: true,
            outbound_enforcement_cap: true,
            filter_raw_inbound_cap: true,
            filter_raw_outbound_cap: true,
            optimized_sl_to_vl_mapping: 1,
            life_time_value: 18,
            enhanced_port0,
            ..SwitchInfo::default()
        };
        Switch { lft: Lft::default(), mft: Mft::default(), info, positions, sl2vl: Vec::new() }
    }

    /// Returns the lanes from port `from` to port `to` of `ports`.
    #[inline]
    pub fn sl2vl(&self, ports: u8, from: u8, to: u8) -> u64 {
        let place = usize::from(from) * (usize::from(ports) + 1) + usize::from(to);
        self.sl2vl.get(place).copied().unwrap_or(SL2VL_DEFAULT)
    }

    /// Sets these lanes; returns whether anything changed.
    pub fn set_sl2vl(&mut self, ports: u8, from: u8, to: u8, lanes: u64) -> bool {
        if self.sl2vl(ports, from, to) == lanes || from > ports || to > ports {
            return false;
        }
        let width = usize::from(ports) + 1;
        if self.sl2vl.is_empty() {
            self.sl2vl.resize(width * width, SL2VL_DEFAULT);
        }
        self.sl2vl[usize::from(from) * width + usize::from(to)] = lanes;
        true
    }
}

/// Returns the lane of one service level.
#[inline]
pub(crate) fn lane_of(lanes: u64, sl: u8) -> u8 {
    (lanes >> (60 - 4 * u32::from(sl & 0xf))) as u8 & 0xf
}
