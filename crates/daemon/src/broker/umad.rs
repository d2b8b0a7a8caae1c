//! Management datagrams: the ports that programs open, and the reports of running subnet managers.

use std::time::Instant;

use weft_ipc::umad::{UmadRequest, UmadResponse};
use weft_ipc::{Refusal, Request, Response};

use super::Attach;
use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::fabric::FabricHost;
use crate::host::Host;
use crate::refusal::{EINVAL, EMFILE, refuse};
use crate::slots::ClientId;
use crate::umad::{self, SmHolders, UmadService};

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Umad(request) => {
            let rules = match request {
                UmadRequest::SetIsSm { .. } => Rules::PLAIN.trusted("run a subnet manager"),
                _ => Rules::PLAIN,
            };
            rules.to(move |broker, call| broker.datagrams.answer(&mut broker.shared, call, request))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Management datagrams of virtual hosts.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub service: UmadService,
    /// Fabric that the open ports belong to: whether one is up, and its number.
    generation: (bool, u64),
    /// Sessions that report running subnet managers, by port.
    sm_holders: SmHolders,
}

impl Datagrams {
    fn answer(
        &mut self,
        shared: &mut Shared,
        call: Call<'_, impl Host>,
        request: UmadRequest,
    ) -> Result<Outcome, Refusal> {
        let Call { now, id, host, .. } = call;
        match request {
            UmadRequest::Open { device, port } => {
                must_be_let_manage(shared, id, device, port, host)?;
                let port = shared.host_port(id, device, port)?;
                let handle = self.service.open(id, port)?;
                match host.open_umad(handle) {
                    Ok(ring) => ring.into_iter().for_each(|ring| self.service.set_ring(handle, ring)),
                    Err(refusal) => {
                        self.service.close(handle);
                        return Err(refusal);
                    }
                }
                let attach = Attach { umad: Some(handle), ..Attach::default() };
                return Ok(Outcome::with(Response::Umad(UmadResponse::Opened { handle }), attach));
            }
            UmadRequest::Close { handle } => {
                self.must_have_open(id, handle)?;
                self.close(handle, host);
            }
            UmadRequest::Register { handle, agent } => {
                self.must_have_open(id, handle)?;
                let agent = self.service.register(handle, &agent)?;
                return Ok(Response::Umad(UmadResponse::Registered { agent }).into());
            }
            UmadRequest::Unregister { handle, agent } => {
                self.must_have_open(id, handle)?;
                self.service.unregister(handle, agent)?;
            }
            UmadRequest::SetIsSm { device, port, is_sm } => {
                let port = shared.host_port(id, device, port)?;
                let time = shared.fabric.time(now);
                let fabric = shared.fabric.required()?.fabric_mut();
                if !self.sm_holders.set(time, fabric, port, id, is_sm) {
                    return Err(refuse(EMFILE, "the program reports a subnet manager on too many ports"));
                }
                self.service.pump(time, fabric);
            }
            UmadRequest::Counters { device, port } => {
                let port = shared.host_port(id, device, port)?;
                let counters = umad::counters(shared.fabric.required()?.fabric(), port);
                return Ok(Response::Umad(UmadResponse::Counters(Box::new(counters))).into());
            }
        }
        Ok(Response::Umad(UmadResponse::Done).into())
    }

    fn must_have_open(&self, id: ClientId, handle: u32) -> Result<(), Refusal> {
        if self.service.is_of(id, handle) { Ok(()) } else { Err(refuse(EINVAL, "the port is not open")) }
    }

    /// Closes a port that a program opened.
    pub fn close(&mut self, handle: u32, host: &mut impl Host) {
        self.service.close(handle);
        host.close_umad(handle);
    }

    /// Closes an ended program's ports and withdraws its IsSM reports.
    pub fn leave(&mut self, shared: &mut Shared, now: Instant, id: ClientId, host: &mut impl Host) {
        for handle in self.service.of_client(id) {
            self.close(handle, host);
        }
        let time = shared.fabric.time(now);
        let fabric = shared.fabric.running_mut().map(|running| running.fabric_mut());
        self.sm_holders.forget(time, fabric, id);
    }

    /// Closes open ports with the fabric that they belong to; returns whether that fabric has gone.
    pub fn follow(&mut self, fabric: &FabricHost, host: &mut impl Host) -> bool {
        let generation = (fabric.running().is_some(), fabric.generation());
        if std::mem::replace(&mut self.generation, generation) == generation {
            return false;
        }
        for handle in self.service.handles() {
            self.close(handle, host);
        }
        self.sm_holders = SmHolders::default();
        true
    }
}

/// Checks permission to send management datagrams: root, the daemon's user, and users whom an administrator gave
/// access to the port's device node.
fn must_be_let_manage(shared: &Shared, id: ClientId, device: u32, port: u8, host: &impl Host) -> Result<(), Refusal> {
    let refused = shared.must_be_trusted(id, "send management datagrams");
    let Some(client) = shared.sessions.get(id).filter(|_| refused.is_err()) else { return refused };
    let devices = shared.devices_of_host(&client.host);
    let ports = devices.iter().filter(|info| info.index == device).filter_map(|info| info.infiniband.as_ref());
    let number = ports.flat_map(|adapter| &adapter.ports).find(|at| at.number == port).map(|at| at.umad);
    match number.is_some_and(|number| host.node_grants(id, &client.credentials, &client.host, number)) {
        true => Ok(()),
        false => refused.map_err(|refusal| Refusal {
            text: format!("{}; root may let others at /dev/infiniband/umadN by chmod or chgrp", refusal.text),
            ..refusal
        }),
    }
}
