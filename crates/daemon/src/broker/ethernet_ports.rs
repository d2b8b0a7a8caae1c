//! Ethernet interfaces of adapters on a fabric, as their hosts' power has them.

use weft_fabric::Fabric;

use crate::host::Host;
use crate::umad;

/// Switches the Ethernet interfaces of one node on or off.
pub(super) fn switch(
    fabric: &Fabric,
    (network, node): (u32, u32),
    adapters: &[u32],
    outside: &mut impl Host,
    is_on: bool,
) {
    let interfaces = umad::ethernet_interfaces(fabric, adapters);
    for (_, name) in interfaces.into_iter().filter(|(port, _)| port.node == node) {
        outside.switch_ethernet(network, &name, is_on);
    }
}

/// Switches those of a new network off whose nodes have no power.
pub(super) fn switch_off_unpowered(fabric: &Fabric, network: u32, adapters: &[u32], outside: &mut impl Host) {
    for &node in adapters.iter().filter(|node| !fabric.powered(**node)) {
        switch(fabric, (network, node), adapters, outside, false);
    }
}
