//! Creation and destruction of ids, channels and clients. In whatever way an id ends, this side informs its peer, frees
//! its port, leaves its groups, and drops its pending requests and events.

use weft_verbs::Instant;

use super::channel::Waiting;
use super::client::{ChannelId, ClientId, Credentials};
use super::command::{IdNumber, IdSummary};
use super::device::Place;
use super::errno::{EINVAL, EMFILE, ENOENT, ENOMEM, Errno};
use super::event::{CmEvent, EventKind, EventParam};
use super::id::{Attachment, Id, QPT_RC, QPT_UC, QPT_UD, QPT_XRC_RECV, QPT_XRC_SEND, State};
use super::limits::{CHANNELS_PER_CLIENT_MAX, IDS_MAX, IDS_PER_PAGE};
use super::param::Ece;
use super::service::Service;
use super::{PortSpace, command::Reply};

/// First PSNs have 24 bits.
const PSN_MASK: u32 = 0xff_ffff;

impl Service {
    /// Adds a process.
    pub fn open_client(&mut self, client: ClientId, credentials: Credentials) {
        self.clients.add(client, credentials);
    }

    /// Removes a process: everything that it had is destroyed, and its peers are informed.
    pub fn close_client(&mut self, now: Instant, client: ClientId) {
        for channel in self.channels.of_client(client) {
            self.close_channel(now, channel);
        }
        self.clients.remove(client);
    }

    /// Opens an event channel of a process. `EMFILE` if it has too many.
    pub fn open_channel(&mut self, client: ClientId) -> Result<ChannelId, Errno> {
        let number = self.channels.unused();
        self.open_channel_as(client, number).map(|()| number)
    }

    /// Opens an event channel with a number that the owner of several services chose: `EINVAL` if it is taken.
    pub fn open_channel_as(&mut self, client: ClientId, number: ChannelId) -> Result<(), Errno> {
        let owner = self.clients.change(client).ok_or(ENOENT)?;
        if owner.channels >= CHANNELS_PER_CLIENT_MAX {
            return Err(EMFILE);
        }
        if !self.channels.open(client, number) {
            return Err(EINVAL);
        }
        owner.channels += 1;
        Ok(())
    }

    /// Closes an event channel: its ids are destroyed.
    pub fn close_channel(&mut self, now: Instant, channel: ChannelId) {
        let Some(closed) = self.channels.close(channel) else { return };
        for number in closed.ids {
            self.destroy_id(now, number);
        }
        if let Some(client) = self.clients.change(closed.client) {
            client.channels = client.channels.saturating_sub(1);
        }
    }

    /// `rdma_create_id`.
    pub(super) fn create_id(
        &mut self,
        client: ClientId,
        channel: ChannelId,
        port_space: PortSpace,
        qp_type: u8,
        cookie: u64,
    ) -> Result<IdNumber, Errno> {
        let qp_type = match port_space {
            PortSpace::Tcp => QPT_RC,
            PortSpace::Udp | PortSpace::Ipoib => QPT_UD,
            PortSpace::Ib => qp_type,
        };
        if !matches!(qp_type, 0 | QPT_RC | QPT_UC | QPT_UD | QPT_XRC_SEND | QPT_XRC_RECV) || cookie == 0 {
            return Err(EINVAL);
        }
        if self.channels.look(channel).is_none_or(|channel| channel.client != client) {
            return Err(EINVAL);
        }
        self.add_id(client, channel, port_space, qp_type, Some(cookie))
    }

    /// Adds an id; one without a cookie belongs to a listener and is not yet accepted.
    pub(super) fn add_id(
        &mut self,
        client: ClientId,
        channel: ChannelId,
        port_space: PortSpace,
        qp_type: u8,
        cookie: Option<u64>,
    ) -> Result<IdNumber, Errno> {
        if self.ids.len() >= IDS_MAX {
            return Err(ENOMEM);
        }
        self.clients.charge(client)?;
        let starting_psn = self.rng.next_u32() & PSN_MASK;
        let id = Id { cookie, ..Id::new(client, channel, port_space, qp_type, starting_psn) };
        let number = self.ids.insert(id);
        if let Some(channel) = self.channels.change(channel) {
            channel.ids.insert(number);
        }
        Ok(number)
    }

    /// `rdma_destroy_id`; returns how many of its events were given out.
    pub(super) fn destroy_id(&mut self, now: Instant, number: IdNumber) -> u32 {
        self.forget_question(number);
        let Some(id) = self.ids.look(number) else { return 0 };
        for group in id.groups.clone() {
            // The id is a member, so leaving cannot fail.
            let _ = self.leave_multicast(group);
        }
        self.drop_connection(now, number);
        let Some(id) = self.ids.remove(number) else { return 0 };
        if let Some((port_space, port)) = id.port {
            self.ports.release(port_space, port, number);
        }
        if let Some(channel) = self.channels.change(id.channel) {
            channel.ids.remove(&number);
        }
        self.clients.release(id.client);
        if id.events_waiting != 0 {
            for waiting in self.channels.withdraw(id.channel, |waiting| waiting.owner == number) {
                if waiting.event.kind == EventKind::ConnectRequest {
                    self.destroy_id(now, waiting.event.id);
                }
            }
        }
        id.events_reported
    }

    /// `rdma_migrate_id`: moves queued events, and the new ids that only such an event names.
    pub(super) fn migrate_id(&mut self, number: IdNumber, channel: ChannelId) -> Result<Reply, Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let (old, client, reported) = (id.channel, id.client, id.events_reported);
        if self.channels.look(channel).is_none_or(|channel| channel.client != client) {
            return Err(EINVAL);
        }
        let moved = match id.events_waiting {
            0 => Vec::new(),
            _ => self.channels.withdraw(old, |waiting| waiting.owner == number),
        };
        self.move_id(number, old, channel);
        for waiting in moved {
            if waiting.event.kind == EventKind::ConnectRequest {
                self.move_id(waiting.event.id, old, channel);
            }
            self.channels.push(channel, waiting);
        }
        Ok(Reply::EventsReported(reported))
    }

    fn move_id(&mut self, number: IdNumber, from: ChannelId, to: ChannelId) {
        if let Some(id) = self.ids.change(number) {
            id.channel = to;
        }
        if let Some(channel) = self.channels.change(from) {
            channel.ids.remove(&number);
        }
        if let Some(channel) = self.channels.change(to) {
            channel.ids.insert(number);
        }
    }

    /// Reports an event to the owner of an id. An id not yet accepted has no owner.
    pub(super) fn emit(&mut self, number: IdNumber, kind: EventKind, status: i32, param: EventParam) {
        self.emit_ece(number, kind, status, param, Ece::default());
    }

    /// Reports an event with the options that the peer offered.
    pub(super) fn emit_ece(&mut self, number: IdNumber, kind: EventKind, status: i32, param: EventParam, ece: Ece) {
        let Some(cookie) = self.ids.look(number).and_then(|id| id.cookie) else { return };
        let event = CmEvent { kind, id: number, listener: None, group: None, cookie, status, param, ece };
        self.push_event(number, event);
    }

    /// Queues an event of an id.
    pub(super) fn push_event(&mut self, owner: IdNumber, event: CmEvent) {
        let Some(id) = self.ids.change(owner) else { return };
        id.events_waiting += 1;
        self.channels.push(id.channel, Waiting { owner, event });
    }

    /// Returns the next event of any ready channel. Those of one channel come in order. An event given out counts as
    /// reported, and one of a listener frees a slot in its backlog.
    pub fn poll_event(&mut self) -> Option<(ChannelId, CmEvent)> {
        let (channel, Waiting { owner, event }) = self.channels.pop()?;
        if let Some(id) = self.ids.change(owner) {
            id.events_waiting = id.events_waiting.saturating_sub(1);
            id.events_reported = id.events_reported.wrapping_add(1);
            if event.kind == EventKind::ConnectRequest {
                id.backlog += 1;
            }
        }
        if let Some(group) = event.group {
            self.groups.count_reported(group);
        }
        Some((channel, event))
    }

    /// Returns a page of the ids that a client may see: its own user's, or all if the client is root.
    pub(super) fn list_ids(&self, client: ClientId, after: IdNumber) -> Reply {
        let viewer = self.clients.credentials(client).map(|credentials| credentials.uid);
        let visible = |id: &Id| {
            let owner = self.clients.credentials(id.client).map(|credentials| credentials.uid);
            viewer == Some(0) || viewer == owner
        };
        let mut ids = Vec::new();
        for (number, id) in self.ids.after(after).filter(|(_, id)| visible(id)) {
            if ids.len() == IDS_PER_PAGE {
                return Reply::Ids { ids, more: true };
            }
            ids.push(self.summary(number, id));
        }
        Reply::Ids { ids, more: false }
    }

    fn summary(&self, number: IdNumber, id: &Id) -> IdSummary {
        let owner = self.clients.credentials(id.client);
        IdSummary {
            id: number,
            device: id.attachment.map(|attachment| attachment.device),
            qp_num: id.qp_num,
            qp_type: id.qp_type,
            state: id.state as u8,
            port_space: id.port_space,
            pid: owner.map_or(0, |owner| owner.pid),
            comm: owner.map_or(String::new(), |owner| owner.comm.clone()),
            src: id.src,
            dst: id.dst,
        }
    }

    /// Returns whether a process may bind ports below 1024.
    pub(super) fn may_take_privileged_ports(&self, client: ClientId) -> bool {
        self.clients.credentials(client).is_some_and(|credentials| credentials.privileged_ports)
    }

    /// Informs the ids of a port whose local GID was removed.
    pub(super) fn tell_address_change(&mut self, place: Place, gone: &[[u8; 16]]) {
        let uses = |(number, id): (IdNumber, &Id)| {
            let used = |own: Attachment| own.place() == place && gone.contains(&own.sgid);
            id.attachment.is_some_and(used).then_some(number)
        };
        let numbers: Vec<IdNumber> = match gone {
            [] => return,
            _ => self.ids.after(0).filter_map(uses).collect(),
        };
        for number in numbers {
            self.emit(number, EventKind::AddrChange, 0, EventParam::None);
        }
    }

    /// Reports the removal of a device to each of its ids and drops their connections; such an id can only be
    /// destroyed.
    pub(super) fn detach_all(&mut self, now: Instant, device: u32) {
        let on_device = |(number, id): (IdNumber, &Id)| {
            id.attachment.is_some_and(|attachment| attachment.device == device).then_some(number)
        };
        let numbers: Vec<IdNumber> = self.ids.after(0).filter_map(on_device).collect();
        for number in numbers {
            self.emit(number, EventKind::DeviceRemoval, 0, EventParam::None);
            self.forget_question(number);
            self.drop_connection(now, number);
            if let Some(id) = self.ids.change(number) {
                id.state = State::DeviceRemoval;
                id.attachment = None;
            }
        }
    }
}
