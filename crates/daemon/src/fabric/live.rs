//! The part of a fabric's state that changes, for instruments that ask again and again.

use weft_fabric::topology::{Cable, CableTraffic, End, LiveCable, LiveNode, LiveState, NodeKind};
use weft_fabric::{CableView, Counter, Fabric, PortRef};

use super::Running;
use super::ports::{WORD_BYTES, rate_tenths};

/// Counters of packets that a port found damaged, or could not forward or send.
const ERRORS: [Counter; 6] = [
    Counter::SymbolErrors,
    Counter::RcvErrors,
    Counter::RcvSwitchRelayErrors,
    Counter::XmitDiscards,
    Counter::XmitConstraintErrors,
    Counter::RcvConstraintErrors,
];

impl Running {
    /// Returns a number that increases with every change of nodes, cables or links, and sometimes without one.
    pub fn changes(&self) -> u64 {
        self.fabric.generation() + self.repairs
    }

    /// Returns the present state of nodes and cables.
    pub fn live_state(&self) -> LiveState {
        let node = |(place, kind)| {
            let port = PortRef::new(place, if kind == NodeKind::Switch { 0 } else { 1 });
            let lid = self.fabric.port_info(port).map_or(0, |info| info.lid);
            LiveNode { powered: self.fabric.powered(place), agent_fault: self.fabric.has_agent_fault(place), lid }
        };
        let kinds = self.topology.nodes.iter().map(|node| node.kind);
        LiveState {
            nodes: (0u32..).zip(kinds).map(node).collect(),
            cables: self.fabric.cables().map(|cable| self.live_cable(&cable)).collect(),
        }
    }

    fn live_cable(&self, cable: &CableView) -> LiveCable {
        let ends = cable.ends.map(|port| End { node: port.node, port: port.port });
        let limits = Cable { width: cable.width, speed: cable.speed, ..Cable::new(ends[0], ends[1]) };
        let state = self.link(cable);
        LiveCable {
            ends,
            state,
            rate_tenths: if state.is_up() { rate_tenths(&self.fabric, cable.ends[0]) } else { 0 },
            limited: self.topology.is_limited(&limits),
            errors_ppm: cable.errors_ppm,
            drop_ppm: cable.drop_ppm,
        }
    }

    /// Returns the counters of the ports of all cables that are plugged in.
    pub fn traffic(&self) -> Vec<CableTraffic> {
        let cables = (0u32..).zip(self.fabric.cables()).filter(|(_, cable)| cable.plugged);
        cables.map(|(cable, view)| cable_traffic(&self.fabric, cable, view.ends)).collect()
    }
}

fn cable_traffic(fabric: &Fabric, cable: u32, ends: [PortRef; 2]) -> CableTraffic {
    let traffic = ends.map(|port| fabric.traffic(port));
    let errors = |port| ERRORS.into_iter().fold(0u64, |sum, of| sum.saturating_add(fabric.counter(port, of)));
    CableTraffic {
        cable,
        bytes: traffic.map(|traffic| traffic.xmit_data.saturating_mul(WORD_BYTES)),
        packets: traffic.map(|traffic| traffic.xmit_packets),
        errors: ends.map(errors),
        downed: ends.map(|port| fabric.counter(port, Counter::LinkDowned)),
    }
}
