//! The network of `weft up --ethernet`, whose hosts have nothing else.

use std::time::Instant;

use weft_ipc::ethernet::{EthernetFailure, EthernetSpec};
use weft_ipc::fabric::FabricReply;
use weft_ipc::{Refusal, Response};

use super::Broker;
use super::call::{Call, Outcome};
use super::shared::{EthernetStart, Shared};
use crate::ethernet::{self, EthernetNetwork};
use crate::host::Host;
use crate::host_networks::Helper;
use crate::refusal::{ECANCELED, EEXIST, refuse};
use crate::slots::ClientId;

/// Hosts of an Ethernet network that are made in one turn: each takes some milliseconds.
const ETHERNET_HOSTS_PER_TURN: u32 = 4;

impl Broker {
    /// Brings up an Ethernet network. The request is deferred, and comes again, until all hosts are made.
    pub(super) fn start_ethernet(&mut self, call: Call<'_, impl Host>, spec: EthernetSpec) -> Result<Outcome, Refusal> {
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
            return Err(ethernet::is_up());
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
