//! Cables of programs to the fabric's switches, in packet mode (every packet travels hop by hop).

use std::time::Instant;

use weft_fabric::PortRef;
use weft_ipc::{Refusal, Response};

use super::group_requests::Groups;
use super::session::Outcome;
use super::{Attach, Broker};
use crate::hops::{Cables, Listeners};
use crate::host::Host;
use crate::refusal::{EALREADY, EINVAL, refuse};
use crate::slots::ClientId;
use crate::umad;

/// Packets that the daemon still carries for an ending program: as many of the smallest as its ring holds.
const LEFT_MAX: usize = 1 << 15;

impl Listeners for Groups {
    fn at(&self, port: PortRef, mlid: u16) -> Vec<ClientId> {
        self.listeners(std::iter::once(port), mlid).into_iter().collect()
    }
}

impl Broker {
    pub(super) fn open_cable(&mut self, id: ClientId, host: &mut impl Host) -> Result<Outcome, Refusal> {
        let client = self.clients.get(&id).filter(|client| !client.host.is_empty());
        let (Some(client), Some(running)) = (client, self.fabric.running().filter(|running| running.packets())) else {
            return Ok(Response::Cable { packets: false }.into());
        };
        let slot = client.slot.ok_or_else(|| refuse(EINVAL, "a cable needs a slot: ask for a slot first"))?;
        let adapters = running.adapters(&client.host).unwrap_or_default();
        let ports = umad::ports_of(running.fabric(), self.fabric.generation(), adapters);
        // The existing cable may hold waiting packets, and other cables' packets may wait for it.
        if self.cables.has(id) {
            return Err(refuse(EALREADY, "a program has one cable"));
        }
        let end = host.open_cable(id)?;
        if let Some(end) = end {
            self.cables.connect(id, slot, ports, end);
        }
        let attach = Attach { cable: Some(id), ..Attach::default() };
        Ok(Outcome::Reply(Box::new(Response::Cable { packets: true }), attach))
    }

    /// Closes the cable of a program that is gone or can no longer call, after carrying the packets that it had sent.
    pub fn close_cable(&mut self, now: Instant, id: ClientId, host: &mut impl Host) {
        if self.cables.has(id) {
            self.cables.stop_waiting(id);
            self.carry_packets(now, id, LEFT_MAX);
            self.cables.disconnect(id);
            host.close_cable(id);
        }
    }

    /// Carries at most `most` packets of a program; returns how many there were.
    pub fn carry_packets(&mut self, now: Instant, id: ClientId, most: usize) -> usize {
        let time = self.fabric.time(now);
        let Some(running) = self.fabric.running_mut() else { return 0 };
        self.cables.carry(time, running.fabric_mut(), &self.groups, id, most)
    }

    /// Retries packets that wait for room.
    pub fn flush_cables(&mut self, now: Instant) {
        let time = self.fabric.time(now);
        if let Some(running) = self.fabric.running_mut() {
            self.cables.flush(time, running.fabric_mut());
        }
    }

    /// Resets the cables after the fabric changed or went down.
    pub(super) fn follow_cables(&mut self) {
        let (clients, generation) = (&self.clients, self.fabric.generation());
        let running = self.fabric.running().filter(|running| running.packets());
        self.cables.start_anew(|id| {
            let adapters = clients.get(&id).and_then(|client| running?.adapters(&client.host)).unwrap_or_default();
            running.map_or(Vec::new(), |running| umad::ports_of(running.fabric(), generation, adapters))
        });
    }

    pub(super) fn handle_cable_timeout(&mut self, now: Instant) {
        let time = self.fabric.time(now);
        if self.cables.poll_timeout().is_some_and(|at| at <= time)
            && let Some(running) = self.fabric.running_mut()
        {
            self.cables.handle_timeout(time, running.fabric_mut(), &self.groups);
        }
    }

    pub(super) fn poll_cable_timeout(&self) -> Option<Instant> {
        self.cables.poll_timeout().map(|at| self.fabric.instant(at))
    }

    /// Returns the cables.
    pub fn cables(&mut self) -> &mut Cables {
        &mut self.cables
    }
}
