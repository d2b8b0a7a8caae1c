//! Requests about the fabric. Every user may inspect it; only users who may change devices may bring it up, take it
//! down or inject faults.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::{Changes, PortRef};
use weft_ipc::fabric::{FabricRequest, NodeChange};
use weft_ipc::{DeviceInfo, Event, Refusal, Request, Response, VIEW_KEEPER};

use super::Broker;
use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::sessions::{Client, Sessions};
use super::shared::Shared;
use crate::fabric::FabricHost;
use crate::host::Host;
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Fabric(request) => {
            let rules = match &request {
                request if looks(request) => Rules::PLAIN,
                FabricRequest::Describe(_) | FabricRequest::Up { .. } => Rules::PLAIN.trusted("bring up a fabric"),
                _ => Rules::PLAIN.trusted("change the fabric"),
            };
            rules.to(move |broker, call| answer(broker, call, request))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Returns whether a request only inspects the fabric.
fn looks(request: &FabricRequest) -> bool {
    use FabricRequest::{Hosts, LiveState, Picture, Ports, Stamp, Status, Traffic};
    matches!(request, Status | Stamp | Hosts { .. } | Picture { .. } | LiveState { .. } | Traffic { .. } | Ports { .. })
}

fn answer(broker: &mut Broker, call: Call<'_, impl Host>, request: FabricRequest) -> Result<Outcome, Refusal> {
    if broker.shared.ethernet.is_some() || broker.shared.ethernet_start.is_some() {
        match request {
            FabricRequest::Down => return Ok(broker.end_ethernet(call.now, call.host)),
            FabricRequest::Up { .. } => return Err(crate::ethernet::is_up()),
            _ => {}
        }
    }
    let (shared, now, id) = (&mut broker.shared, call.now, call.id);
    let looks = looks(&request);
    let down = matches!(request, FabricRequest::Down);
    let counts = matches!(request, FabricRequest::Status | FabricRequest::Hosts { .. });
    let counted = if counts { programs_of_hosts(&shared.sessions) } else { BTreeMap::new() };
    let adapters = match &request {
        FabricRequest::Down => adapters_of_clients(shared, |_| true),
        // Programs die with their host: they lose the adapter, and peers find no process there.
        FabricRequest::Node { name, change: NodeChange::Off | NodeChange::Reboot { .. } } => {
            let guid = shared.fabric.running().and_then(|running| running.node_guid(name));
            adapters_of_clients(shared, |device| Some(device.node_guid) == guid)
        }
        _ => Vec::new(),
    };
    // A request to take down a fabric that is already down asks the daemon to leave, too.
    shared.stay.leaves_soon |= down;
    let reply = shared.fabric.answer(now, id, request, &counted)?;
    for (client, index) in adapters {
        shared.sessions.tell(client, &Event::DeviceRemoved { index }, Some(index));
    }
    if !looks {
        shared.stay.leaves_soon = down;
        broker.update_idle(now);
    }
    Ok(Response::Fabric(reply).into())
}

/// Changes of the fabric's ports since the last look.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Nodes whose ports changed.
    pub nodes: BTreeSet<u32>,
    /// Ports whose programs must register again with the subnet administration.
    pub reregister: BTreeSet<PortRef>,
}

/// Takes the changes.
pub(super) fn take_changed(fabric: &mut FabricHost) -> Changed {
    let mut changed = Changed::default();
    let Some(running) = fabric.running_mut() else { return changed };
    while let Some(event) = running.fabric_mut().poll_event() {
        changed.nodes.insert(event.port.node);
        if event.changes.contains(Changes::REREGISTER) {
            changed.reregister.insert(event.port);
        }
    }
    changed
}

/// Sends the programs of the hosts of these nodes the current state of their ports.
pub(super) fn tell_ports(shared: &mut Shared, nodes: &BTreeSet<u32>) {
    let mut hosts: BTreeMap<String, Vec<ClientId>> = BTreeMap::new();
    for (id, client) in shared.sessions.iter().filter(|(_, client)| follows(client) && client.in_session()) {
        hosts.entry(client.host.clone()).or_default().push(id);
    }
    for (host, clients) in hosts {
        let adapters = shared.fabric.running().and_then(|running| running.adapters(&host)).unwrap_or_default();
        if !adapters.iter().any(|node| nodes.contains(node)) {
            continue;
        }
        for device in shared.devices_of_host(&host) {
            let index = device.index;
            let event = Event::DeviceChanged(device);
            clients.iter().for_each(|client| shared.sessions.tell(*client, &event, Some(index)));
        }
    }
}

/// Returns whether a client follows the changes of a virtual host's adapters.
fn follows(client: &Client) -> bool {
    client.subscribed && client.is_on_host()
}

/// Returns subscribed clients of virtual hosts with those of their adapters that satisfy `wanted`.
fn adapters_of_clients(shared: &Shared, wanted: impl Fn(&DeviceInfo) -> bool) -> Vec<(ClientId, u32)> {
    let followers = shared.sessions.iter().filter(|(_, client)| follows(client));
    let adapters = |host: &str| shared.devices_of_host(host).into_iter().filter(|device| wanted(device));
    followers.flat_map(|(id, client)| adapters(&client.host).map(move |device| (id, device.index))).collect()
}

/// Returns how many of the users' programs run as each virtual host, which the keepers of views are not. A process with
/// several connections counts once; processes whose ID the daemon cannot see count once per connection.
fn programs_of_hosts(sessions: &Sessions) -> BTreeMap<String, u32> {
    let (mut counted, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let is_users = |client: &&Client| client.in_session() && client.is_on_host() && client.program != VIEW_KEEPER;
    let programs = sessions.values().filter(is_users);
    for client in programs {
        let pid = client.credentials.pid;
        if pid == 0 || seen.insert((client.host.as_str(), pid)) {
            *counted.entry(client.host.clone()).or_insert(0) += 1;
        }
    }
    counted
}
