//! Requests for the RDMA connection manager. A process's first request registers it as a client. The first command that
//! leads to packets opens queue pair 1, and with it the port. Queue pair 1 stays open, so that a peer that asks for a
//! service without a listener gets a reject.

use std::time::Instant;

use weft_cm::rdma_cm::{Command, Credentials};
use weft_ipc::{CmStatus, Refusal, Request, Response};

use super::Attach;
use super::call::{Call, Outcome};
use super::host_cms::HostCms;
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::cm_service::{CmService, needs_network};
use crate::host::Host;
use crate::limits::{CM_CHANNELS_PER_USER_MAX, POOL_SLOTS_INITIAL};
use crate::refusal::{EMFILE, ENODEV, refuse};
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Cm(command) => {
            Rules::PLAIN.to(move |broker, call| broker.cms.command(&mut broker.shared, call, command))
        }
        Request::OpenCmChannel => Rules::PLAIN.to(|broker, call| broker.cms.open_channel(&mut broker.shared, call)),
        Request::CloseCmChannel { channel } => {
            Rules::PLAIN.to(move |broker, call| Ok(broker.cms.close_channel(&broker.shared, call, channel)))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Connection managers: the machine's, and those of virtual hosts.
#[derive(Debug)]
pub(super) struct ConnectionManagers {
    pub machine: CmService,
    pub hosts: HostCms,
    /// Number of the last opened event channel.
    last_channel: u32,
}

impl ConnectionManagers {
    pub fn new(now: Instant) -> ConnectionManagers {
        let machine = CmService::new(now, weft_sys::random::u64());
        ConnectionManagers { machine, hosts: HostCms::default(), last_channel: 0 }
    }

    /// Returns the number of objects of the machine's.
    pub fn status(&mut self, now: Instant) -> CmStatus {
        self.machine.status(now)
    }

    /// Returns all of them.
    fn all(&self) -> impl Iterator<Item = &CmService> {
        std::iter::once(&self.machine).chain(self.hosts.iter())
    }

    /// Returns all of them, mutably.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut CmService> {
        std::iter::once(&mut self.machine).chain(self.hosts.iter_mut())
    }

    fn command(
        &mut self,
        shared: &mut Shared,
        call: Call<'_, impl Host>,
        command: Command,
    ) -> Result<Outcome, Refusal> {
        let Call { now, id, .. } = call;
        self.introduce(shared, now, id)?;
        if shared.sessions.host(id).is_some() {
            return Ok(Response::Cm(self.hosts.command(shared, call, command)?).into());
        }
        let host = call.host;
        if needs_network(&command) {
            open_gsi(shared, host)?;
        }
        let netdevs = &shared.devices.netdevs;
        let reply = self.machine.command(now, id, command, host, |host, asked| host.resolve(now, asked, netdevs))?;
        Ok(Response::Cm(reply).into())
    }

    fn open_channel(&mut self, shared: &mut Shared, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
        let Call { now, id, host, .. } = call;
        self.introduce(shared, now, id)?;
        let uid = shared.sessions.uid(id);
        let is_users =
            |client: &ClientId| shared.sessions.get(*client).is_some_and(|client| client.credentials.uid == uid);
        let of_user: usize = self.all().map(|cm| cm.channels_of(is_users)).sum();
        if uid != 0 && of_user >= CM_CHANNELS_PER_USER_MAX {
            return Err(refuse(
                EMFILE,
                format!("user {uid} already has {of_user} event channels, the most that one user may have"),
            ));
        }
        let channel = self.new_channel_number();
        let cm = self.of_client(shared, id).ok_or_else(no_fabric)?;
        cm.open_channel(now, id, channel, host)?;
        let attach = Attach { channel: Some(channel), ..Attach::default() };
        Ok(Outcome::with(Response::CmChannel { channel }, attach))
    }

    fn close_channel(&mut self, shared: &Shared, call: Call<'_, impl Host>, channel: u32) -> Outcome {
        let Call { now, id, host, .. } = call;
        if let Some(cm) = self.of_client(shared, id) {
            cm.close_channel(now, id, channel, host);
        }
        Response::Done.into()
    }

    /// Returns a number that no open event channel has.
    fn new_channel_number(&mut self) -> u32 {
        loop {
            self.last_channel = self.last_channel.wrapping_add(1);
            if self.last_channel != 0 && !self.all().any(|cm| cm.has_channel(self.last_channel)) {
                return self.last_channel;
            }
        }
    }

    /// Returns the connection manager of a client: its host's, or the machine's; `None` if its host is gone.
    fn of_client(&mut self, shared: &Shared, id: ClientId) -> Option<&mut CmService> {
        match shared.sessions.host(id) {
            Some(host) => self.hosts.get_mut(host),
            None => Some(&mut self.machine),
        }
    }

    /// Registers a client with its connection manager, at its first request.
    fn introduce(&mut self, shared: &mut Shared, now: Instant, id: ClientId) -> Result<(), Refusal> {
        let Some(client) = shared.sessions.get(id) else { return Ok(()) };
        let known = self.all().any(|cm| cm.has_client(id));
        if known {
            return Ok(());
        }
        let uid = client.credentials.uid;
        let credentials = Credentials {
            pid: client.credentials.pid,
            uid,
            comm: client.program.clone(),
            privileged_ports: uid == 0,
            admin: shared.is_trusted(uid),
        };
        if shared.sessions.host(id).is_some() {
            return self.hosts.open_client(shared, now, id, credentials);
        }
        self.machine.open_client(id, credentials);
        Ok(())
    }
}

/// Opens queue pair 1, and the pool that it needs.
fn open_gsi(shared: &mut Shared, host: &mut impl Host) -> Result<(), Refusal> {
    if shared.slots.is_empty() {
        let slots = host.grow_pool(POOL_SLOTS_INITIAL)?;
        shared.slots.grow_to(slots);
        shared.changed = true;
    }
    host.open_gsi()
}

fn no_fabric() -> Refusal {
    refuse(ENODEV, "the fabric of this program's host has gone")
}
