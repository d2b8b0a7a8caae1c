//! Requests for the RDMA connection manager. A process's first request registers it as a client. The first command that
//! leads to packets opens queue pair 1, and with it the port. Queue pair 1 stays open, so that a peer that asks for a
//! service without a listener gets a reject.

use std::time::Instant;

use weft_cm::rdma_cm::{Command, Credentials};
use weft_ipc::{Refusal, Response};

use super::session::Outcome;
use super::{Attach, Broker};
use crate::cm_service::{CmService, needs_network};
use crate::host::Host;
use crate::limits::{CM_CHANNELS_PER_USER_MAX, POOL_SLOTS_INITIAL};
use crate::refusal::{EMFILE, ENODEV, refuse};
use crate::slots::ClientId;

impl Broker {
    pub(super) fn cm_command(
        &mut self,
        now: Instant,
        id: ClientId,
        command: Command,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        self.introduce_to_cm(now, id)?;
        if self.host_of(id).is_some() {
            return self.host_cm_command(now, id, command, host);
        }
        if needs_network(&command) {
            self.open_gsi(host)?;
        }
        let netdevs = &self.devices.netdevs;
        let reply = self.cm.command(now, id, command, host, |host, asked| host.resolve(now, asked, netdevs))?;
        Ok(Response::Cm(reply).into())
    }

    pub(super) fn open_cm_channel(
        &mut self,
        now: Instant,
        id: ClientId,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        self.introduce_to_cm(now, id)?;
        let uid = self.clients.get(&id).map_or(u32::MAX, |client| client.credentials.uid);
        let is_users = |client: &ClientId| self.clients.get(client).is_some_and(|client| client.credentials.uid == uid);
        let of_user: usize = self.all_cms().map(|cm| cm.channels_of(is_users)).sum();
        if uid != 0 && of_user >= CM_CHANNELS_PER_USER_MAX {
            return Err(refuse(
                EMFILE,
                format!("user {uid} already has {of_user} event channels, the most that one user may have"),
            ));
        }
        let channel = self.new_channel_number();
        let cm = self.cm_of(id).ok_or_else(no_fabric)?;
        cm.open_channel(now, id, channel, host)?;
        let attach = Attach { channel: Some(channel), ..Attach::default() };
        Ok(Outcome::Reply(Box::new(Response::CmChannel { channel }), attach))
    }

    pub(super) fn close_cm_channel(
        &mut self,
        now: Instant,
        id: ClientId,
        channel: u32,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        if let Some(cm) = self.cm_of(id) {
            cm.close_channel(now, id, channel, host);
        }
        Ok(Response::Done.into())
    }

    /// Returns a number that no open event channel has.
    fn new_channel_number(&mut self) -> u32 {
        loop {
            self.last_channel = self.last_channel.wrapping_add(1);
            if self.last_channel != 0 && !self.all_cms().any(|cm| cm.has_channel(self.last_channel)) {
                return self.last_channel;
            }
        }
    }

    /// Returns the connection manager of a client: its host's, or the machine's; `None` if its host is gone.
    fn cm_of(&mut self, id: ClientId) -> Option<&mut CmService> {
        match self.host_of(id).map(str::to_owned) {
            Some(host) => self.host_cms.get_mut(&host).map(|host| &mut host.cm),
            None => Some(&mut self.cm),
        }
    }

    /// Returns all connection managers.
    fn all_cms(&self) -> impl Iterator<Item = &CmService> {
        std::iter::once(&self.cm).chain(self.host_cms.values().map(|host| &host.cm))
    }

    /// Returns all connection managers, mutably.
    pub fn all_cms_mut(&mut self) -> impl Iterator<Item = &mut CmService> {
        std::iter::once(&mut self.cm).chain(self.host_cms.values_mut().map(|host| &mut host.cm))
    }

    fn introduce_to_cm(&mut self, now: Instant, id: ClientId) -> Result<(), Refusal> {
        let Some(client) = self.clients.get(&id) else { return Ok(()) };
        let known = self.all_cms().any(|cm| cm.has_client(id));
        if known {
            return Ok(());
        }
        let uid = client.credentials.uid;
        let credentials = Credentials {
            pid: client.credentials.pid,
            uid,
            comm: client.program.clone(),
            privileged_ports: uid == 0,
            admin: self.is_trusted(uid),
        };
        if self.host_of(id).is_some() {
            return self.open_host_cm_client(now, id, credentials);
        }
        self.cm.open_client(id, credentials);
        Ok(())
    }

    fn open_gsi(&mut self, host: &mut impl Host) -> Result<(), Refusal> {
        if self.slots.is_empty() {
            let slots = host.grow_pool(POOL_SLOTS_INITIAL)?;
            self.slots.grow_to(slots);
            self.changed = true;
        }
        host.open_gsi()
    }
}

fn no_fabric() -> Refusal {
    refuse(ENODEV, "the fabric of this program's host has gone")
}
