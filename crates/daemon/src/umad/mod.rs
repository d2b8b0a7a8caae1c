//! Management datagrams of virtual hosts: the open ports of each program, their agents, and the traffic of those
//! agents. The rules are those of Linux's ib_mad and ib_umad, and [`weft_mad::Port`] implements them; this module
//! connects its agents to programs, and its datagrams to the fabric.
//!
//! No I/O, except for [`Outbox`], which can send its packets to a socket.

mod agent;
mod capabilities;
mod devices;
mod is_sm;
mod outbox;
mod peer;
mod sockets;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::{Delivery, PortRef};
use weft_ipc::Refusal;
use weft_ipc::umad::{UmadAgent, UmadHead};
use weft_ipc::umad_ring::DaemonRing;
use weft_mad::{AgentId, RegisterError};

use crate::refusal::{EINVAL, EMFILE, ENOMEM, refuse};
use crate::slots::ClientId;

pub use devices::{counters, describe, ethernet_interfaces, indexes, port_of, ports_of};
pub use is_sm::SmHolders;
pub use outbox::Outbox;
pub use peer::HostPeer;
pub use sockets::UmadSockets;
pub use transfer::Called;

/// Agents on one open port, as in Linux.
const AGENTS_PER_PORT_MAX: usize = 32;

/// Ports that one program may have open.
const PORTS_PER_CLIENT_MAX: usize = 256;

/// An open port.
#[derive(Debug)]
struct Open {
    client: ClientId,
    port: PortRef,
    agents: [Option<AgentId>; AGENTS_PER_PORT_MAX],
    /// The received part of a long datagram.
    partial: Option<(UmadHead, Vec<u8>)>,
    outbox: Outbox,
    /// It is listed in `ready`.
    is_ready: bool,
}

/// Owner of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    handle: u32,
    /// Number of the agent on the open port.
    number: u32,
    /// Queue pair of the agent.
    qpn: u32,
}

/// A port of the fabric that has agents.
#[derive(Debug, Default)]
struct HostPort {
    mad: weft_mad::Port<HostPeer>,
    owners: BTreeMap<AgentId, Owner>,
    /// Agents that answer device management.
    device_managers: BTreeSet<AgentId>,
}

/// All open ports of programs.
#[derive(Debug, Default)]
pub struct UmadService {
    open: BTreeMap<u32, Open>,
    next_handle: u32,
    ports: BTreeMap<PortRef, HostPort>,
    /// Ports with datagrams to send or to deliver.
    busy: Vec<PortRef>,
    /// Open ports with new packets in their outboxes, each once.
    ready: Vec<u32>,
    /// Ports whose agents for device management may have changed.
    device_managed: BTreeSet<PortRef>,
    /// Datagrams for the connection manager that no program's agent wants.
    unclaimed: VecDeque<Delivery>,
}

impl UmadService {
    /// Opens a port for a program; returns its handle.
    pub fn open(&mut self, client: ClientId, port: PortRef) -> Result<u32, Refusal> {
        if self.open.values().filter(|open| open.client == client).count() >= PORTS_PER_CLIENT_MAX {
            let text = format!("the program has {PORTS_PER_CLIENT_MAX} ports open, the most there can be: close some");
            return Err(refuse(EMFILE, text));
        }
        loop {
            self.next_handle = self.next_handle.wrapping_add(1).max(1);
            if !self.open.contains_key(&self.next_handle) {
                break;
            }
        }
        let outbox = Outbox::default();
        let open = Open { client, port, agents: [None; AGENTS_PER_PORT_MAX], partial: None, outbox, is_ready: false };
        self.open.insert(self.next_handle, open);
        Ok(self.next_handle)
    }

    /// Gives a newly opened port a ring.
    pub fn set_ring(&mut self, handle: u32, ring: DaemonRing) {
        if let Some(open) = self.open.get_mut(&handle) {
            open.outbox = Outbox::new(Some(ring));
        }
    }

    /// Closes a port and removes its agents.
    pub fn close(&mut self, handle: u32) {
        let Some(open) = self.open.remove(&handle) else { return };
        self.ready.retain(|other| *other != handle);
        for id in open.agents.into_iter().flatten() {
            self.forget_agent(open.port, id);
        }
    }

    /// Returns the open ports of a program.
    pub fn of_client(&self, client: ClientId) -> Vec<u32> {
        self.open.iter().filter(|(_, open)| open.client == client).map(|(&handle, _)| handle).collect()
    }

    /// Returns all open ports.
    pub fn handles(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// Returns whether a program has this port open.
    pub fn is_of(&self, client: ClientId, handle: u32) -> bool {
        self.open.get(&handle).is_some_and(|open| open.client == client)
    }

    /// Registers an agent; returns its number on the port.
    pub fn register(&mut self, handle: u32, agent: &UmadAgent) -> Result<u32, Refusal> {
        let spec = agent::check(agent)?;
        let gone = || refuse(EINVAL, "the port is not open");
        let open = self.open.get_mut(&handle).ok_or_else(gone)?;
        let free = (0u32..).zip(&mut open.agents).find(|(_, place)| place.is_none());
        let Some((number, place)) = free else {
            let text = format!("the port has {AGENTS_PER_PORT_MAX} agents, the most there can be");
            return Err(refuse(ENOMEM, text));
        };
        let port = self.ports.entry(open.port).or_default();
        let id = port.mad.register(spec).map_err(|error| match error {
            RegisterError::Taken(_) => refuse(EINVAL, error.to_string()),
            RegisterError::TooMany => refuse(ENOMEM, error.to_string()),
        })?;
        *place = Some(id);
        port.owners.insert(id, Owner { handle, number, qpn: agent.qpn.into() });
        if agent::is_device_manager(agent) {
            port.device_managers.insert(id);
            self.device_managed.insert(open.port);
        }
        Ok(number)
    }

    /// Unregisters an agent.
    pub fn unregister(&mut self, handle: u32, number: u32) -> Result<(), Refusal> {
        let missing = || refuse(EINVAL, "the port has no such agent");
        let open = self.open.get_mut(&handle).ok_or_else(missing)?;
        let id = open.agents.get_mut(number as usize).and_then(Option::take).ok_or_else(missing)?;
        let port = open.port;
        self.forget_agent(port, id);
        Ok(())
    }

    fn forget_agent(&mut self, port: PortRef, id: AgentId) {
        let Some(of) = self.ports.get_mut(&port) else { return };
        of.mad.unregister(id);
        of.owners.remove(&id);
        if of.device_managers.remove(&id) {
            self.device_managed.insert(port);
        }
        if of.owners.is_empty() {
            self.ports.remove(&port);
        }
    }

    /// Returns a port whose agents for device management have changed, and whether it has any now.
    fn poll_device_managed(&mut self) -> Option<(PortRef, bool)> {
        let port = self.device_managed.pop_first()?;
        Some((port, self.ports.get(&port).is_some_and(|of| !of.device_managers.is_empty())))
    }

    /// Returns an open port whose outbox has new packets.
    pub fn poll_ready(&mut self) -> Option<u32> {
        let handle = self.ready.pop()?;
        self.open.get_mut(&handle)?.is_ready = false;
        Some(handle)
    }

    /// Returns the outbox of an open port.
    pub fn outbox(&mut self, handle: u32) -> Option<&mut Outbox> {
        self.open.get_mut(&handle).map(|open| &mut open.outbox)
    }

    /// Returns a datagram of the connection manager's class that no program's agent wants.
    pub fn poll_unclaimed(&mut self) -> Option<Delivery> {
        self.unclaimed.pop_front()
    }
}
