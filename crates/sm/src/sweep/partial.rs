//! Partial sweeps: read only the ports of switches that reported a change, near switches before those behind them.

use super::{Phase, What};
use crate::manager::Manager;
use crate::subnet::{NodeIx, PortIx};

impl Manager {
    /// Reads the ports of nodes that reported a change.
    pub(crate) fn begin_partial(&mut self, switches: Vec<NodeIx>, ports: Vec<PortIx>) {
        self.begin_looking(Phase::Discover);
        let mut later: Vec<NodeIx> = switches.into_iter().filter(|node| self.subnet.node(*node).is_some()).collect();
        later.sort_by_key(|node| std::cmp::Reverse(self.hops_to(*node)));
        (self.sweep.later, self.sweep.nearing) = (later, Vec::new());
        for at in ports.into_iter().filter(|at| self.subnet.port(*at).is_some()).collect::<Vec<_>>() {
            self.ask(What::NodeDescription, at, 0);
            self.ask(What::PortInfo, at, 0);
        }
    }

    fn hops_to(&self, node: NodeIx) -> usize {
        self.subnet.node(node).map_or(0, |node| node.route.len())
    }

    /// Reads the next of the changed switches; `false` if none is left. The change may be the very cable on the route
    /// to a switch, and then the switch does not answer: so the near end of the cable is read first, and near switches
    /// come before those behind them.
    pub(crate) fn look_on(&mut self) -> bool {
        let near = std::mem::take(&mut self.sweep.nearing);
        for node in &near {
            self.sweep.isolated.retain(|at, _| at.node != *node);
            self.read_node(*node);
        }
        if !near.is_empty() {
            return true;
        }
        let Some(hops) = self.sweep.later.last().map(|node| self.hops_to(*node)) else { return false };
        let rest = self.sweep.later.iter().rposition(|node| self.hops_to(*node) != hops).map_or(0, |place| place + 1);
        self.sweep.nearing = self.sweep.later.split_off(rest);
        for node in self.sweep.nearing.clone() {
            if let Some(at) = self.port_towards(node) {
                self.ask(What::PortInfo, at, 0);
            }
        }
        true
    }

    /// Returns the port from which the route to a node leaves the previous node, if that is a switch.
    fn port_towards(&self, node: NodeIx) -> Option<PortIx> {
        let held = self.subnet.node(node)?;
        let (last, before) = held.route.split_last()?;
        let is_before = |at: &PortIx| {
            let other = self.subnet.node(at.node);
            at.port == *last && other.is_some_and(|other| other.switch.is_some() && other.route[..] == *before)
        };
        held.ports.iter().filter_map(|port| port.neighbor).find(is_before)
    }
}
