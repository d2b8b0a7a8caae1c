//! IsSM reports of programs. As in Linux the port's CapabilityMask shows IsSM as long as a program reports a running
//! subnet manager, and at most until its session ends.

use std::collections::BTreeSet;

use weft_fabric::{Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::mad::subn::CapabilityMask;

use crate::slots::ClientId;

/// Ports that one program may report.
const PORTS_PER_CLIENT_MAX: usize = 256;

/// Ports with the programs that report a subnet manager there.
#[derive(Debug, Default)]
pub struct SmHolders(BTreeSet<(PortRef, ClientId)>);

impl SmHolders {
    /// Sets or clears a program's report; returns false if the program reports too many.
    #[must_use]
    pub fn set(&mut self, now: Instant, fabric: &mut Fabric, port: PortRef, client: ClientId, is_sm: bool) -> bool {
        let full = || self.0.iter().filter(|(_, other)| *other == client).count() >= PORTS_PER_CLIENT_MAX;
        if is_sm && full() {
            return false;
        }
        let changed = if is_sm { self.0.insert((port, client)) } else { self.0.remove(&(port, client)) };
        if changed {
            let held = self.0.iter().any(|(other, _)| *other == port);
            fabric.set_capabilities(now, port, CapabilityMask::SM, held);
        }
        true
    }

    /// Removes the reports of a program.
    pub fn forget(&mut self, now: Instant, fabric: Option<&mut Fabric>, client: ClientId) {
        let ports: Vec<PortRef> = self.0.iter().filter(|(_, other)| *other == client).map(|(port, _)| *port).collect();
        self.0.retain(|(_, other)| *other != client);
        let Some(fabric) = fabric else { return };
        for port in ports {
            if !self.0.iter().any(|(other, _)| *other == port) {
                fabric.set_capabilities(now, port, CapabilityMask::SM, false);
            }
        }
    }
}
