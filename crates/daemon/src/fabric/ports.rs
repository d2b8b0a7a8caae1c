//! State and counters of a fabric's ports, for instruments.

use weft_fabric::{Counter, Fabric, PortRef};
use weft_ipc::FABRIC_PORTS_PER_PAGE;
use weft_ipc::fabric::{FabricPort, PortCursor, PortName};
use weft_ipc::stat::PortCounters;
use weft_wire::mad::Speed;

use super::Running;

/// Bytes of a word, the unit in which ports count data.
pub(super) const WORD_BYTES: u64 = 4;

impl Running {
    /// Returns a page of the ports that have a cable or counted something, and the cursor of the next page.
    pub fn ports(&self, from: PortCursor) -> (Vec<FabricPort>, Option<PortCursor>) {
        let mut page = Vec::new();
        for node in from.node..self.fabric().node_count() {
            let first = if node == from.node { from.port } else { 0 };
            for port in first.max(1)..=self.fabric().port_count(node) {
                if page.len() == FABRIC_PORTS_PER_PAGE {
                    return (page, Some(PortCursor { node, port }));
                }
                page.extend(self.describe_port(PortRef::new(node, port)));
            }
        }
        (page, None)
    }

    /// Describes a port; `None` for one without a cable that counted nothing.
    fn describe_port(&self, at: PortRef) -> Option<FabricPort> {
        let fabric = self.fabric();
        let (info, counters) = (fabric.port_info(at)?, self.counters(at));
        let peer = fabric.peer(at);
        if peer.is_none() && counters == PortCounters::default() {
            return None;
        }
        let is_switch = fabric.switch_info(at.node).is_some();
        let lid = if is_switch { fabric.port_info(PortRef::new(at.node, 0))?.lid } else { info.lid };
        Some(FabricPort {
            node: self.node_name(at.node),
            port: at.port,
            peer: peer.map(|peer| PortName { node: self.node_name(peer.node), port: peer.port }),
            state: info.port_state.0,
            lid,
            rate_tenths: rate_tenths(fabric, at),
            counters,
        })
    }

    fn node_name(&self, node: u32) -> String {
        self.topology().nodes.get(node as usize).map(|node| node.name.clone()).unwrap_or_default()
    }

    fn counters(&self, at: PortRef) -> PortCounters {
        let traffic = self.fabric().traffic(at);
        let of = |counter| self.fabric().counter(at, counter);
        PortCounters {
            xmit_bytes: traffic.xmit_data.saturating_mul(WORD_BYTES),
            rcv_bytes: traffic.rcv_data.saturating_mul(WORD_BYTES),
            xmit_packets: traffic.xmit_packets,
            rcv_packets: traffic.rcv_packets,
            multicast_xmit_packets: traffic.multicast_xmit_packets,
            multicast_rcv_packets: traffic.multicast_rcv_packets,
            symbol_errors: of(Counter::SymbolErrors),
            link_error_recoveries: of(Counter::LinkErrorRecovery),
            link_downed: of(Counter::LinkDowned),
            rcv_errors: of(Counter::RcvErrors),
            rcv_remote_physical_errors: of(Counter::RcvRemotePhysicalErrors),
            rcv_switch_relay_errors: of(Counter::RcvSwitchRelayErrors),
            xmit_discards: of(Counter::XmitDiscards),
            xmit_constraint_errors: of(Counter::XmitConstraintErrors),
            rcv_constraint_errors: of(Counter::RcvConstraintErrors),
            local_link_integrity_errors: of(Counter::LocalLinkIntegrityErrors),
            excessive_buffer_overrun_errors: of(Counter::ExcessiveBufferOverrunErrors),
            vl15_dropped: of(Counter::Vl15Dropped),
            xmit_wait_ticks: of(Counter::XmitWait),
        }
    }
}

/// Returns the data rate of a port's link in 0.1 Gb/s, 0 without a link.
pub(super) fn rate_tenths(fabric: &Fabric, at: PortRef) -> u32 {
    let Some(info) = fabric.port_info(at) else { return 0 };
    let lane_tenths = fabric.speed(at).and(Speed::active(&info)).map_or(0, Speed::tenths);
    lane_tenths * info.link_width_active.lanes()
}
