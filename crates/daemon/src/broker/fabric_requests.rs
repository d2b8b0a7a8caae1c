//! Requests about the fabric. Every user may inspect it; only users who may change devices may bring it up, take it
//! down or inject faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weft_ipc::fabric::{FabricRequest, NodeChange};
use weft_ipc::{DeviceInfo, Event, Refusal, Response};

use super::session::Outcome;
use super::{Broker, Standing};
use crate::fabric::FabricHost;
use crate::slots::ClientId;

impl Broker {
    /// Returns the fabric of this network namespace.
    pub fn fabric(&mut self) -> &mut FabricHost {
        &mut self.fabric
    }

    pub(super) fn fabric_request(
        &mut self,
        now: Instant,
        id: ClientId,
        request: FabricRequest,
    ) -> Result<Outcome, Refusal> {
        let looks = match &request {
            FabricRequest::Status | FabricRequest::Hosts { .. } | FabricRequest::Picture { .. } => true,
            FabricRequest::Describe(_) | FabricRequest::Up { .. } => {
                self.must_be_trusted(id, "bring up a fabric")?;
                false
            }
            _ => {
                self.must_be_trusted(id, "change the fabric")?;
                false
            }
        };
        let down = matches!(request, FabricRequest::Down);
        let counted = if looks { self.programs_of_hosts() } else { BTreeMap::new() };
        let adapters = match &request {
            FabricRequest::Down => self.adapters_of_clients(|_| true),
            // Programs die with their host: they lose the adapter, and peers find no process there.
            FabricRequest::Node { name, change: NodeChange::Off | NodeChange::Reboot { .. } } => {
                let guid = self.fabric.running().and_then(|running| running.node_guid(name));
                self.adapters_of_clients(|device| Some(device.node_guid) == guid)
            }
            _ => Vec::new(),
        };
        // A request to take down a fabric that is already down asks the daemon to leave, too.
        self.leaves_soon |= down;
        let reply = self.fabric.answer(now, id, request, &counted)?;
        for (client, index) in adapters {
            self.tell(client, &Event::DeviceRemoved { index }, Some(index));
        }
        if !looks {
            self.leaves_soon = down;
            self.update_idle(now);
        }
        Ok(Response::Fabric(reply).into())
    }

    /// Returns subscribed clients of virtual hosts with those of their adapters that satisfy `wanted`.
    fn adapters_of_clients(&self, wanted: impl Fn(&DeviceInfo) -> bool) -> Vec<(ClientId, u32)> {
        let followers = self.clients.iter().filter(|(_, client)| client.subscribed && !client.host.is_empty());
        let adapters = |host: &str| self.devices_of_host(host).into_iter().filter(|device| wanted(device));
        followers.flat_map(|(id, client)| adapters(&client.host).map(|device| (*id, device.index))).collect()
    }

    /// Returns how many programs run as each virtual host. A process with several connections counts once; processes
    /// whose ID the daemon cannot see count once per connection.
    fn programs_of_hosts(&self) -> BTreeMap<String, u32> {
        let (mut counted, mut seen) = (BTreeMap::new(), BTreeSet::new());
        let sessions = self.clients.values().filter(|client| matches!(client.standing, Standing::Session));
        for client in sessions.filter(|client| !client.host.is_empty()) {
            let pid = client.credentials.pid;
            if pid == 0 || seen.insert((client.host.as_str(), pid)) {
                *counted.entry(client.host.clone()).or_insert(0) += 1;
            }
        }
        counted
    }
}
