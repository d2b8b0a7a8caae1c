//! Connection managers of virtual hosts: one for each host whose programs connect, or that receives a connection
//! request. They end with the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weft_cm::rdma_cm::{Command, Credentials, Reply};
use weft_fabric::Delivery;
use weft_ipc::Refusal;

use super::call::Call;
use super::shared::Shared;
use crate::cm_service::CmService;
use crate::cm_service::on_fabric::{Addressed, HostCm};
use crate::host::Host;
use crate::refusal::{ENODEV, refuse};
use crate::slots::ClientId;
use crate::umad::UmadService;

/// Connection managers of virtual hosts.
#[derive(Debug, Default)]
pub(super) struct HostCms {
    by_name: BTreeMap<String, HostCm>,
}

impl HostCms {
    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &CmService> {
        self.by_name.values().map(|host| &host.cm)
    }

    /// Returns all of them, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut CmService> {
        self.by_name.values_mut().map(|host| &mut host.cm)
    }

    /// Returns that of a host, if it runs.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut CmService> {
        self.by_name.get_mut(name).map(|host| &mut host.cm)
    }

    /// Starts the connection manager of a fabric host, unless it runs already.
    fn start(&mut self, shared: &mut Shared, now: Instant, name: &str) -> Result<(), Refusal> {
        if self.by_name.contains_key(name) {
            return Ok(());
        }
        if shared.fabric.running().and_then(|running| running.adapters(name)).is_none() {
            return Err(refuse(
                ENODEV,
                format!("no host {name} is on a fabric: `weft status` shows the one that is up"),
            ));
        }
        self.by_name.insert(name.to_owned(), HostCm::new(now, weft_sys::random::u64()));
        self.follow(shared, now, name);
        Ok(())
    }

    /// Updates the connection managers of the hosts of these changed nodes.
    pub fn follow_nodes(&mut self, shared: &mut Shared, now: Instant, nodes: &BTreeSet<u32>) {
        let topology = shared.fabric.running().map(|running| running.topology());
        let name_of = |node: &u32| Some(topology?.nodes.get(*node as usize)?.host.clone());
        let names: BTreeSet<String> = nodes.iter().filter_map(name_of).collect();
        for name in names.iter().filter(|name| self.by_name.contains_key(*name)).cloned().collect::<Vec<_>>() {
            self.follow(shared, now, &name);
        }
    }

    /// Gives a host's connection manager the current state of its adapters.
    fn follow(&mut self, shared: &mut Shared, now: Instant, name: &str) {
        let list = shared.devices_of_host(name);
        let time = shared.fabric.time(now);
        let generation = shared.fabric.generation();
        let (Some(cm), Some(running)) = (self.by_name.get_mut(name), shared.fabric.running_mut()) else { return };
        let adapters = running.adapters(name).unwrap_or_default().to_vec();
        let (fabric, addresses) = running.addressed();
        let subnet = Addressed { fabric, addresses, now: time };
        let place = |info: &weft_ipc::DeviceInfo| {
            crate::umad::port_of(generation, &adapters, info.index, 1).map(|port| port.node)
        };
        cm.follow(now, &list, place, &subnet);
    }

    /// Executes a command from a program of a virtual host.
    pub fn command(
        &mut self,
        shared: &mut Shared,
        call: Call<'_, impl Host>,
        command: Command,
    ) -> Result<Reply, Refusal> {
        let Call { now, id, host, .. } = call;
        let name = shared.sessions.host(id).unwrap_or_default();
        let time = shared.fabric.time(now);
        let (Some(cm), Some(running)) = (self.by_name.get_mut(name), shared.fabric.running_mut()) else {
            return Err(refuse(ENODEV, "the fabric has gone"));
        };
        let (fabric, addresses) = running.addressed();
        let mut subnet = Addressed { fabric, addresses, now: time };
        let own = cm.addresses().to_vec();
        let ask = |_: &mut _, asked: &_| Some(HostCm::resolve(asked, &own, &subnet));
        let reply = cm.cm.command(now, id, command, host, ask)?;
        cm.perform(now, &mut subnet);
        Ok(reply)
    }

    /// Registers a client with the connection manager of its host.
    pub fn open_client(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        id: ClientId,
        credentials: Credentials,
    ) -> Result<(), Refusal> {
        let name = shared.sessions.host(id).unwrap_or_default().to_owned();
        self.start(shared, now, &name)?;
        if let Some(cm) = self.by_name.get_mut(&name).filter(|cm| !cm.cm.has_client(id)) {
            cm.cm.open_client(id, credentials);
        }
        Ok(())
    }

    /// Passes datagrams of the connection manager's classes, which no program's agent wanted, to the hosts' connection
    /// managers unless `claim` takes them, and runs their timers. Returns whether it did anything, so that answers may be under way.
    pub fn carry(
        &mut self,
        shared: &mut Shared,
        umad: &mut UmadService,
        now: Instant,
        claim: &mut impl FnMut(&mut Shared, &Delivery) -> bool,
    ) -> bool {
        let mut any = false;
        while let Some(delivery) = umad.poll_unclaimed() {
            if !claim(shared, &delivery) {
                self.hand_over(shared, now, &delivery);
            }
            any = true;
        }
        let due: Vec<String> = self
            .by_name
            .iter()
            .filter(|(_, cm)| cm.poll_timeout().is_some_and(|at| at <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.with(shared, now, &name, |cm, subnet| cm.handle_timeout(now, subnet));
            any = true;
        }
        any
    }

    fn hand_over(&mut self, shared: &mut Shared, now: Instant, delivery: &Delivery) {
        let node = delivery.port.node as usize;
        let topology = shared.fabric.running().map(|running| running.topology());
        let Some(name) = topology.and_then(|topology| topology.nodes.get(node)).map(|node| node.host.clone()) else {
            return;
        };
        if self.start(shared, now, &name).is_ok() {
            self.with(shared, now, &name, |cm, subnet| {
                cm.handle_delivery(now, delivery, subnet);
            });
        }
    }

    fn with(&mut self, shared: &mut Shared, now: Instant, name: &str, what: impl FnOnce(&mut HostCm, &Addressed<'_>)) {
        let time = shared.fabric.time(now);
        let (Some(cm), Some(running)) = (self.by_name.get_mut(name), shared.fabric.running_mut()) else { return };
        let (fabric, addresses) = running.addressed();
        let mut subnet = Addressed { fabric, addresses, now: time };
        what(cm, &subnet);
        cm.perform(now, &mut subnet);
    }

    /// Returns when [`HostCms::carry`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.by_name.values().filter_map(HostCm::poll_timeout).min()
    }

    /// Ends the hosts' connection managers with their fabric: for programs the devices of its hosts are gone, even if
    /// another fabric is up.
    pub fn end(&mut self, now: Instant) {
        for cm in self.by_name.values_mut() {
            cm.end(now);
        }
    }
}
