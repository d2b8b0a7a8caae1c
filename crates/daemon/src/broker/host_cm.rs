//! Connection managers of virtual hosts: one for each host whose programs connect, or that receives a connection
//! request. They end with the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weft_cm::rdma_cm::{Command, Credentials};
use weft_fabric::Delivery;
use weft_ipc::{Refusal, Response};

use super::Broker;
use super::session::Outcome;
use crate::cm_service::on_fabric::{Addressed, HostCm};
use crate::host::Host;
use crate::refusal::{ENODEV, refuse};
use crate::slots::ClientId;

/// Connection managers by host name.
pub(super) type HostCms = BTreeMap<String, HostCm>;

impl Broker {
    /// Returns the virtual host that a client runs as.
    pub(super) fn host_of(&self, id: ClientId) -> Option<&str> {
        self.clients.get(&id).map(|client| client.host.as_str()).filter(|host| !host.is_empty())
    }

    /// Starts the connection manager of a fabric host, unless it runs already.
    pub(super) fn start_host_cm(&mut self, now: Instant, name: &str) -> Result<(), Refusal> {
        if self.host_cms.contains_key(name) {
            return Ok(());
        }
        if self.fabric.running().and_then(|running| running.adapters(name)).is_none() {
            return Err(refuse(
                ENODEV,
                format!("no host {name} is on a fabric: `weft status` shows the one that is up"),
            ));
        }
        self.host_cms.insert(name.to_owned(), HostCm::new(now, weft_sys::random::u64()));
        self.follow_host(now, name);
        Ok(())
    }

    /// Updates the connection managers of the hosts of these changed nodes.
    pub(super) fn follow_hosts(&mut self, now: Instant, nodes: &BTreeSet<u32>) {
        let topology = self.fabric.running().map(|running| running.topology());
        let name_of = |node: &u32| Some(topology?.nodes.get(*node as usize)?.host.clone());
        let names: BTreeSet<String> = nodes.iter().filter_map(name_of).collect();
        for name in names.iter().filter(|name| self.host_cms.contains_key(*name)).cloned().collect::<Vec<_>>() {
            self.follow_host(now, &name);
        }
    }

    /// Gives a host's connection manager the current state of its adapters.
    pub(super) fn follow_host(&mut self, now: Instant, name: &str) {
        let list = self.devices_of_host(name);
        let time = self.fabric.time(now);
        let generation = self.fabric.generation();
        let (Some(cm), Some(running)) = (self.host_cms.get_mut(name), self.fabric.running_mut()) else { return };
        let adapters = running.adapters(name).unwrap_or_default().to_vec();
        let (fabric, addresses) = running.addressed();
        let subnet = Addressed { fabric, addresses, now: time };
        let place = |info: &weft_ipc::DeviceInfo| {
            crate::umad::port_of(generation, &adapters, info.index, 1).map(|port| port.node)
        };
        cm.follow(now, &list, place, &subnet);
    }

    /// Executes a command from a program of a virtual host.
    pub(super) fn host_cm_command(
        &mut self,
        now: Instant,
        id: ClientId,
        command: Command,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        let name = self.host_of(id).unwrap_or_default().to_owned();
        let time = self.fabric.time(now);
        let (Some(cm), Some(running)) = (self.host_cms.get_mut(&name), self.fabric.running_mut()) else {
            return Err(refuse(ENODEV, "the fabric has gone"));
        };
        let (fabric, addresses) = running.addressed();
        let mut subnet = Addressed { fabric, addresses, now: time };
        let own = cm.addresses().to_vec();
        let ask = |_: &mut _, asked: &_| Some(HostCm::resolve(asked, &own, &subnet));
        let reply = cm.cm.command(now, id, command, host, ask)?;
        cm.perform(now, &mut subnet);
        Ok(Response::Cm(reply).into())
    }

    /// Registers a client with the connection manager of its host.
    pub(super) fn open_host_cm_client(
        &mut self,
        now: Instant,
        id: ClientId,
        credentials: Credentials,
    ) -> Result<(), Refusal> {
        let name = self.host_of(id).unwrap_or_default().to_owned();
        self.start_host_cm(now, &name)?;
        if let Some(cm) = self.host_cms.get_mut(&name).filter(|cm| !cm.cm.has_client(id)) {
            cm.cm.open_client(id, credentials);
        }
        Ok(())
    }

    /// Passes datagrams of the connection manager's classes, which no program's agent wanted, to the hosts' connection
    /// managers, and runs their timers. Returns whether it did anything, so that answers may be under way.
    pub(super) fn carry_to_host_cms(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(delivery) = self.umad.poll_unclaimed() {
            self.hand_to_host_cm(now, &delivery);
            any = true;
        }
        let due: Vec<String> = self
            .host_cms
            .iter()
            .filter(|(_, cm)| cm.poll_timeout().is_some_and(|at| at <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.with_host_cm(now, &name, |cm, subnet| cm.handle_timeout(now, subnet));
            any = true;
        }
        any
    }

    fn hand_to_host_cm(&mut self, now: Instant, delivery: &Delivery) {
        let node = delivery.port.node as usize;
        let topology = self.fabric.running().map(|running| running.topology());
        let Some(name) = topology.and_then(|topology| topology.nodes.get(node)).map(|node| node.host.clone()) else {
            return;
        };
        if self.start_host_cm(now, &name).is_ok() {
            self.with_host_cm(now, &name, |cm, subnet| {
                cm.handle_delivery(now, delivery, subnet);
            });
        }
    }

    fn with_host_cm(&mut self, now: Instant, name: &str, what: impl FnOnce(&mut HostCm, &Addressed<'_>)) {
        let time = self.fabric.time(now);
        let (Some(cm), Some(running)) = (self.host_cms.get_mut(name), self.fabric.running_mut()) else { return };
        let (fabric, addresses) = running.addressed();
        let mut subnet = Addressed { fabric, addresses, now: time };
        what(cm, &subnet);
        cm.perform(now, &mut subnet);
    }

    /// Returns when [`Broker::carry_to_host_cms`] is due.
    pub(super) fn poll_host_cm_timeout(&self) -> Option<Instant> {
        self.host_cms.values().filter_map(HostCm::poll_timeout).min()
    }

    /// Ends the hosts' connection managers with their fabric: for programs the devices of its hosts are gone, even if
    /// another fabric is up.
    pub(super) fn end_host_cms(&mut self, now: Instant) {
        for cm in self.host_cms.values_mut() {
            cm.end(now);
        }
    }
}
