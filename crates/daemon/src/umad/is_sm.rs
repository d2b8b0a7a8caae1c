//! Who says that a subnet manager runs on a port. As in Linux the port's CapabilityMask shows IsSM as long as somebody
//! says so, and no longer than their session lasts.

use std::collections::BTreeSet;

use weft_fabric::{Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::mad::subn::CapabilityMask;

use crate::slots::ClientId;

/// Ports that one program may say it of.
const PORTS_PER_CLIENT_MAX: usize = 256;

/// Who says it of which port.
#[derive(Debug, Default)]
pub struct SmHolders(BTreeSet<(PortRef, ClientId)>);

impl SmHolders {
    /// A program says it, or says it no longer; false if it says it of too many.
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

    /// A program is gone.
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
