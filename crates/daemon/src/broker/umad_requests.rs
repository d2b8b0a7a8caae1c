//! Requests about management datagrams and the adapters of a virtual host.

use std::time::Instant;

use weft_fabric::PortRef;
use weft_ipc::umad::{UmadRequest, UmadResponse};
use weft_ipc::{DeviceInfo, Refusal, Response};

use super::session::Outcome;
use super::{Attach, Broker};
use crate::host::Host;
use crate::refusal::{EINVAL, EMFILE, ENODEV, EOPNOTSUPP, refuse};
use crate::slots::ClientId;
use crate::umad::{self, Called};

/// Rounds of messages between connection managers in one turn of the loop. No conversation of theirs takes as many.
const ANSWERS_MAX: u32 = 1000;

impl Broker {
    /// Returns the adapters of a virtual host.
    pub(super) fn devices_of_host(&self, host: &str) -> Vec<DeviceInfo> {
        let generation = self.fabric.generation();
        let described = self.fabric.running().and_then(|running| {
            let adapters = running.adapters(host)?;
            Some(umad::describe(running.fabric(), running.topology(), generation, host, adapters))
        });
        described.unwrap_or_default()
    }

    /// Refuses to rename devices that a program of a virtual host sees: its adapters, which the fabric names.
    pub(super) fn must_be_renamable(&self, id: ClientId, name: &str) -> Result<(), Refusal> {
        let Some(client) = self.clients.get(&id).filter(|client| !client.host.is_empty()) else { return Ok(()) };
        let host = &client.host;
        let devices = self.devices_of_host(host);
        if devices.iter().any(|device| device.name == name) {
            let text = format!(
                "{name} keeps its name: it is an adapter of host {host} of the fabric; only devices on interfaces can be renamed"
            );
            return Err(refuse(EOPNOTSUPP, text));
        }
        let names: Vec<String> = devices.into_iter().map(|device| device.name).collect();
        Err(refuse(ENODEV, format!("host {host} has no device {name}; it has {}", names.join(", "))))
    }

    pub(super) fn umad_request(
        &mut self,
        now: Instant,
        id: ClientId,
        request: UmadRequest,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        match request {
            UmadRequest::Open { device, port } => {
                self.must_be_let_manage(id, device, port, host)?;
                let port = self.host_port(id, device, port)?;
                let handle = self.umad.open(id, port)?;
                match host.open_umad(handle) {
                    Ok(ring) => ring.into_iter().for_each(|ring| self.umad.set_ring(handle, ring)),
                    Err(refusal) => {
                        self.umad.close(handle);
                        return Err(refusal);
                    }
                }
                let attach = Attach { umad: Some(handle), ..Attach::default() };
                return Ok(Outcome::Reply(Box::new(Response::Umad(UmadResponse::Opened { handle })), attach));
            }
            UmadRequest::Close { handle } => {
                self.must_have_open(id, handle)?;
                self.close_umad(handle, host);
            }
            UmadRequest::Register { handle, agent } => {
                self.must_have_open(id, handle)?;
                let agent = self.umad.register(handle, &agent)?;
                return Ok(Response::Umad(UmadResponse::Registered { agent }).into());
            }
            UmadRequest::Unregister { handle, agent } => {
                self.must_have_open(id, handle)?;
                self.umad.unregister(handle, agent)?;
            }
            UmadRequest::SetIsSm { device, port, is_sm } => {
                self.must_be_trusted(id, "run a subnet manager")?;
                let port = self.host_port(id, device, port)?;
                let time = self.fabric.time(now);
                let fabric = self.fabric.required()?.fabric_mut();
                if !self.sm_holders.set(time, fabric, port, id, is_sm) {
                    return Err(refuse(EMFILE, "the program reports a subnet manager on too many ports"));
                }
                self.umad.pump(time, fabric);
            }
            UmadRequest::Counters { device, port } => {
                let port = self.host_port(id, device, port)?;
                let counters = umad::counters(self.fabric.required()?.fabric(), port);
                return Ok(Response::Umad(UmadResponse::Counters(Box::new(counters))).into());
            }
        }
        Ok(Response::Umad(UmadResponse::Done).into())
    }

    /// Checks permission to send management datagrams: root, the daemon's user, and users whom an administrator gave
    /// access to the port's device node.
    fn must_be_let_manage(&mut self, id: ClientId, device: u32, port: u8, host: &mut impl Host) -> Result<(), Refusal> {
        let refused = self.must_be_trusted(id, "send management datagrams");
        let Some(client) = self.clients.get(&id).filter(|_| refused.is_err()) else { return refused };
        let devices = self.devices_of_host(&client.host);
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

    /// Returns the port that a program's device and port number name.
    pub(super) fn host_port(&mut self, id: ClientId, device: u32, port: u8) -> Result<PortRef, Refusal> {
        let host = self.clients.get(&id).map(|client| client.host.clone()).unwrap_or_default();
        let generation = self.fabric.generation();
        let running = self.fabric.required()?;
        let adapters = running.adapters(&host).unwrap_or_default();
        let found = umad::port_of(generation, adapters, device, port);
        found
            .filter(|port| running.fabric().port_info(*port).is_some())
            .ok_or_else(|| refuse(ENODEV, format!("host {host:?} has no such port: `ibstat` shows what it has")))
    }

    fn must_have_open(&self, id: ClientId, handle: u32) -> Result<(), Refusal> {
        if self.umad.is_of(id, handle) { Ok(()) } else { Err(refuse(EINVAL, "the port is not open")) }
    }

    /// Closes a port that a program opened.
    pub fn close_umad(&mut self, handle: u32, host: &mut impl Host) {
        self.umad.close(handle);
        host.close_umad(handle);
    }

    /// Closes an ended program's ports and withdraws its IsSM reports.
    pub(super) fn leave_fabric(&mut self, now: Instant, id: ClientId, host: &mut impl Host) {
        for handle in self.umad.of_client(id) {
            self.close_umad(handle, host);
        }
        let time = self.fabric.time(now);
        let fabric = self.fabric.running_mut().map(|running| running.fabric_mut());
        self.sm_holders.forget(time, fabric, id);
    }

    /// Closes open ports with the fabric that they belong to.
    fn follow_fabric(&mut self, now: Instant, host: &mut impl Host) {
        let generation = (self.fabric.running().is_some(), self.fabric.generation());
        if std::mem::replace(&mut self.umad_generation, generation) != generation {
            for handle in self.umad.handles() {
                self.close_umad(handle, host);
            }
            self.sm_holders = umad::SmHolders::default();
            self.follow_cables();
            self.end_host_cms(now);
            self.left_on_hosts.clear();
        }
    }

    /// Handles a packet from a program on the socket of a port that it opened.
    pub fn handle_umad_packet(&mut self, now: Instant, handle: u32, packet: &[u8]) -> Called {
        let time = self.fabric.time(now);
        let Some(running) = self.fabric.running_mut() else { return Called::No };
        self.umad.handle_packet(time, running.fabric_mut(), handle, packet)
    }

    /// Takes at most `most` datagrams from the ring of a port that a program opened; returns how many there were.
    pub fn handle_umad_ring(&mut self, now: Instant, handle: u32, most: usize) -> usize {
        let time = self.fabric.time(now);
        let Some(running) = self.fabric.running_mut() else { return 0 };
        self.umad.handle_ring(time, running.fabric_mut(), handle, most)
    }

    /// Delivers datagrams of the fabric to programs, and does what is due.
    pub fn carry_datagrams(&mut self, now: Instant, host: &mut impl Host) {
        self.follow_fabric(now, host);
        self.follow_paths(now);
        self.follow_groups();
        let time = self.fabric.time(now);
        let Some(running) = self.fabric.running_mut() else { return };
        self.umad.pump(time, running.fabric_mut());
        if self.umad.poll_timeout().is_some_and(|at| at <= time) {
            self.umad.handle_timeout(time, running.fabric_mut());
        }
        // A connection manager's answers are under way immediately, and may be for another connection manager.
        for _ in 0..ANSWERS_MAX {
            if !self.carry_to_host_cms(now) {
                return;
            }
            let Some(running) = self.fabric.running_mut() else { return };
            self.umad.pump(time, running.fabric_mut());
        }
    }

    /// Returns when [`Broker::carry_datagrams`] is due.
    pub(super) fn poll_umad_timeout(&self) -> Option<Instant> {
        self.umad.poll_timeout().map(|at| self.fabric.instant(at))
    }

    /// Returns the management datagram service of virtual hosts.
    pub fn umad(&mut self) -> &mut umad::UmadService {
        &mut self.umad
    }
}
