//! Requests for the RDMA connection manager. A process becomes known to it by its first one; queue pair 1, and with it
//! the port, is opened for the first command that leads to packets. It stays open, so that who asks for a service that
//! nobody offers any more is told so.

use std::time::Instant;

use weft_cm::rdma_cm::{Command, Credentials};
use weft_ipc::{Refusal, Response};

use super::session::Outcome;
use super::{Attach, Broker};
use crate::cm_service::needs_network;
use crate::host::Host;
use crate::limits::{CM_CHANNELS_PER_USER_MAX, POOL_SLOTS_INITIAL};
use crate::refusal::{EMFILE, refuse};
use crate::slots::ClientId;

impl Broker {
    pub(super) fn cm_command(
        &mut self,
        now: Instant,
        id: ClientId,
        command: Command,
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        self.introduce_to_cm(id);
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
        self.introduce_to_cm(id);
        let uid = self.clients.get(&id).map_or(u32::MAX, |client| client.credentials.uid);
        let is_users = |client: &ClientId| self.clients.get(client).is_some_and(|client| client.credentials.uid == uid);
        let of_user = self.cm.channels_of(is_users);
        if uid != 0 && of_user >= CM_CHANNELS_PER_USER_MAX {
            return Err(refuse(
                EMFILE,
                format!("user {uid} already has {of_user} event channels, the most that one user may have"),
            ));
        }
        let channel = self.new_channel_number();
        self.cm.open_channel(now, id, channel, host)?;
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
        self.cm.close_channel(now, id, channel, host);
        Ok(Response::Done.into())
    }

    /// A number that no open event channel has.
    fn new_channel_number(&mut self) -> u32 {
        loop {
            self.last_channel = self.last_channel.wrapping_add(1);
            if self.last_channel != 0 && !self.cm.has_channel(self.last_channel) {
                return self.last_channel;
            }
        }
    }

    fn introduce_to_cm(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        if self.cm.has_client(id) {
            return;
        }
        let uid = client.credentials.uid;
        let credentials = Credentials {
            pid: client.credentials.pid,
            uid,
            comm: client.program.clone(),
            privileged_ports: uid == 0,
            admin: self.is_trusted(uid),
        };
        self.cm.open_client(id, credentials);
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
