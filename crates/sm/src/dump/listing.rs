//! Switches and LIDs in the order of the dump files.

use std::collections::BTreeMap;

use crate::subnet::{Node, Port, Subnet, SwitchState};

/// Yields every switch, in order of GUID.
pub(super) fn switches(subnet: &Subnet) -> impl Iterator<Item = (&Node, &SwitchState)> {
    subnet.by_guid.values().filter_map(|at| {
        let node = subnet.node(*at)?;
        Some((node, node.switch.as_ref()?))
    })
}

/// Returns the port of each LID; a port with several LIDs appears once for each.
pub(super) fn owners(subnet: &Subnet) -> BTreeMap<u16, (&Node, &Port)> {
    let owner = |(lid, at): (&u16, &crate::subnet::PortIx)| {
        let node = subnet.node(at.node)?;
        Some((*lid, (node, node.ports.get(usize::from(at.port))?)))
    };
    subnet.by_lid.iter().filter_map(owner).collect()
}
