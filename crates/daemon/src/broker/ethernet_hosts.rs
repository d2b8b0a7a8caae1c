//! Hosts of a fabric with Ethernet ports: they are made together, and leave the switch with their power.

use std::collections::BTreeSet;
use std::time::Instant;

use weft_fabric::PortRef;

use super::ethernet_ports;
use super::host_networks::Networks;
use super::shared::Shared;
use crate::fabric::{FabricHost, Running};
use crate::host::Host;

/// Hosts of a fabric that are made with the first one that has an Ethernet port.
const NEIGHBOURS_MAX: usize = 64;

/// Returns the host of a port.
fn host_of(running: &Running, port: PortRef) -> Option<&str> {
    Some(&running.topology().nodes.get(port.node as usize)?.host)
}

impl Networks {
    /// Makes the other hosts on the Ethernet switch: the switch asks hosts for their addresses, and the daemon, which could
    /// make a missing one, sees no frames.
    pub(super) fn open_neighbours(&mut self, shared: &mut Shared, now: Instant, outside: &mut impl Host, host: &str) {
        let Some(running) = shared.fabric.running() else { return };
        let hosts: BTreeSet<&str> =
            running.fabric().ethernet().iter().filter_map(|port| host_of(running, port)).collect();
        if !hosts.contains(host) {
            return;
        }
        let others: Vec<String> = hosts.into_iter().take(NEIGHBOURS_MAX).map(str::to_owned).collect();
        for other in others {
            // A program that runs as one of them hears of a failure.
            let _ = self.open_host(shared, now, outside, other);
        }
    }

    /// Switches Ethernet interfaces off whose hosts have lost their power, and on again.
    pub(super) fn follow_power(&mut self, fabric: &FabricHost, nodes: &BTreeSet<u32>, outside: &mut impl Host) {
        let Some(running) = fabric.running() else { return };
        for &node in nodes {
            let is_on = running.fabric().powered(node);
            let is_changed = if is_on { self.unpowered.remove(&node) } else { self.unpowered.insert(node) };
            let host = running.topology().nodes.get(node as usize).map(|node| &node.host);
            let Some(adapters) = host.and_then(|host| running.adapters(host)).filter(|_| is_changed) else { continue };
            let Some(network) = adapters.first().filter(|network| self.of.contains_key(network)) else { continue };
            ethernet_ports::switch(running.fabric(), (*network, node), adapters, outside, is_on);
        }
    }
}
