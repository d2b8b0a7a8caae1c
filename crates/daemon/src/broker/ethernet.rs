//! Ethernet between virtual hosts: the network of `weft up --ethernet`, whose hosts have nothing else, and the Ethernet ports
//! of a fabric's adapters.

use std::collections::BTreeSet;
use std::time::Instant;

use weft_fabric::PortRef;
use weft_ipc::ethernet::{EthernetFailure, EthernetSpec};
use weft_ipc::fabric::FabricReply;
use weft_ipc::{Refusal, Request, Response};

use super::Broker;
use super::call::{Call, Outcome};
use super::dispatch::{Routed, Rules};
use super::host_networks::Networks;
use super::shared::{EthernetStart, Shared};
use crate::ethernet::EthernetNetwork;
use crate::fabric::{FabricHost, Running};
use crate::host::Host;
use crate::host_networks::Helper;
use crate::refusal::{ECANCELED, EEXIST, refuse};
use crate::slots::ClientId;
use crate::umad;

/// Hosts of an Ethernet network that are made in one turn: each takes some milliseconds.
const ETHERNET_HOSTS_PER_TURN: u32 = 4;
/// Hosts of a fabric that are made with the first one that has an Ethernet port.
const NEIGHBOURS_MAX: usize = 64;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::EthernetUp(spec) => {
            Rules::PLAIN.trusted("bring up a network").to(move |broker, call| broker.start_ethernet(call, spec))
        }
        Request::EthernetStatus => Rules::PLAIN.to(|broker, call| {
            let status = broker.shared.ethernet.as_ref().map(|network| network.status(call.now));
            Ok(Response::Ethernet(status).into())
        }),
        other => return Routed::Elsewhere(other),
    })
}

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
            let interfaces = umad::ethernet_interfaces(running.fabric(), adapters);
            for (_, name) in interfaces.into_iter().filter(|(port, _)| port.node == node) {
                outside.switch_ethernet(*network, &name, is_on);
            }
        }
    }
}

/// The refusal of another network or fabric while an Ethernet network is up.
pub(super) fn ethernet_is_up() -> Refusal {
    refuse(EEXIST, "an Ethernet network is up already: take it down first with `weft down`")
}

impl Broker {
    /// Brings up an Ethernet network. The request is deferred, and comes again, until all hosts are made.
    fn start_ethernet(&mut self, call: Call<'_, impl Host>, spec: EthernetSpec) -> Result<Outcome, Refusal> {
        let EthernetStart { network, next, is_cancelled, .. } =
            match self.shared.ethernet_start.take_if(|start| start.client == call.id) {
                Some(start) => start,
                None => self.begin_ethernet(&call, spec).and_then(|start| {
                    start.network.make_hosts_file(call.host)?;
                    Ok(start)
                })?,
            };
        if is_cancelled {
            return Err(refuse(ECANCELED, "the network was taken down before all hosts were made"));
        }
        let made = network.open_hosts(call.host, next, ETHERNET_HOSTS_PER_TURN);
        if let Some(next) = made.inspect_err(|_| call.host.close_networks())? {
            let start = EthernetStart { network, client: call.id, next, due: call.now, is_cancelled: false };
            self.shared.ethernet_start = Some(start);
            return Ok(Outcome::Deferred);
        }
        self.shared.ethernet = Some(network);
        self.update_idle(call.now);
        Ok(Response::Done.into())
    }

    fn begin_ethernet(&self, call: &Call<'_, impl Host>, spec: EthernetSpec) -> Result<EthernetStart, Refusal> {
        if self.shared.ethernet.is_some() || self.shared.ethernet_start.is_some() {
            return Err(ethernet_is_up());
        }
        if let Some(running) = self.shared.fabric.running() {
            let text = format!("a fabric is up already ({}): take it down first with `weft down`", running.title());
            return Err(refuse(EEXIST, text));
        }
        let network = EthernetNetwork::new(call.now, spec)?;
        Ok(EthernetStart { network, client: call.id, next: 0, due: call.now, is_cancelled: false })
    }

    /// Notes that a process that networks depend on has ended.
    pub fn note_ended(&mut self, helper: Helper) {
        let failure = match helper {
            Helper::Provisioner => EthernetFailure::Switch,
            Helper::Shaper => EthernetFailure::Cables,
        };
        let Shared { ethernet, ethernet_start, .. } = &mut self.shared;
        let network = ethernet.as_mut().or(ethernet_start.as_mut().map(|start| &mut start.network));
        network.into_iter().for_each(|network| network.fail(failure));
    }

    /// Ends an Ethernet network whose client is gone before its hosts were made.
    pub(super) fn abandon_ethernet(&mut self, client: ClientId, host: &mut impl Host) {
        if let Some(start) = self.shared.ethernet_start.take_if(|start| start.client == client)
            && !start.is_cancelled
        {
            host.close_networks();
        }
    }

    /// Ends the Ethernet network with its hosts, also one that is not all made.
    pub(super) fn end_ethernet(&mut self, now: Instant, host: &mut impl Host) -> Outcome {
        self.shared.ethernet = None;
        // The client that waits for it hears so.
        self.shared.ethernet_start.iter_mut().for_each(|start| start.is_cancelled = true);
        host.close_networks();
        self.update_idle(now);
        self.shared.stay.leaves_soon = true;
        Response::Fabric(FabricReply::Done).into()
    }
}
