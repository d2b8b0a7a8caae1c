//! The connection manager as a value. Its inputs are commands, packets, results from the host, and the time; its
//! outputs are replies, events, packets and requests to the host. No call blocks. The files beside this one implement
//! the commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use weft_verbs::Instant;

use super::channel::{Channels, Waiting};
use super::client::{ChannelId, ClientId};
use super::clients::Clients;
use super::command::{Command, IdNumber, IdOption, Reply};
use super::device::{Device, DeviceGid, LocalAddress};
use super::devices::{Devices, Entry};
use super::errno::{EINVAL, ENODEV, ENOENT, ENOMEM, EPERM, Errno};
use super::event::{EventKind, EventParam};
use super::groups::Groups;
use super::host::{MulticastRequest, MulticastResult, PathResult, QuestionId, ResolveRequest, ResolveResult};
use super::id::{Ids, QPT_RC, QPT_XRC_SEND, State};
use super::limits::WRITTEN_EVENTS_PER_ID_MAX;
use super::ports::Ports;
use super::rng::Rng;
use crate::{ib, iw};

/// Time that a device may take to acknowledge a packet, 4.096 µs × 2^15: the value of Soft-RoCE (`local_ca_ack_delay`).
const CA_ACK_DELAY: u8 = 15;

/// Equivalent of Linux's `rdma_cm` and `rdma_ucm` modules for one network namespace.
#[derive(Debug)]
pub struct Service {
    pub(super) clients: Clients,
    pub(super) channels: Channels,
    pub(super) ids: Ids,
    pub(super) ports: Ports,
    pub(super) devices: Devices,
    pub(super) groups: Groups,
    /// Pending requests to the host, and the ids that wait for them.
    pub(super) questions: FxHashMap<QuestionId, IdNumber>,
    /// Their deadlines.
    pub(super) deadlines: BTreeSet<(Instant, IdNumber)>,
    pub(super) resolve_out: VecDeque<ResolveRequest>,
    pub(super) last_question: u64,
    /// The underlying InfiniBand connection manager.
    pub(super) ib: ib::Cm,
    /// Ids by their underlying connections.
    pub(super) owners: BTreeMap<ib::ConnId, IdNumber>,
    /// The underlying connection manager of RNICs.
    pub(super) iw: iw::Cm,
    /// Ids by their connections there.
    pub(super) stream_owners: BTreeMap<iw::ConnId, IdNumber>,
    pub(super) rng: Rng,
}

impl Service {
    /// Creates a service without devices and clients. `seed` must not be predictable: communication ids, transaction
    /// ids and starting ports derive from it.
    pub fn new(seed: u64) -> Service {
        let mut rng = Rng::new(seed);
        let ib = ib::Cm::new(rng.next_u64());
        Service {
            clients: Clients::default(),
            channels: Channels::default(),
            ids: Ids::default(),
            ports: Ports::default(),
            devices: Devices::default(),
            groups: Groups::default(),
            questions: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            resolve_out: VecDeque::new(),
            last_question: 0,
            ib,
            owners: BTreeMap::new(),
            iw: iw::Cm::default(),
            stream_owners: BTreeMap::new(),
            rng,
        }
    }

    /// Adds or updates a device. The defaults of new ids are kept; ids whose GID was removed get ADDR_CHANGE.
    pub fn set_device(&mut self, _now: Instant, device: Device) {
        let info = ib::CaInfo { node_guid: device.node_guid, ack_delay: CA_ACK_DELAY };
        self.ib.set_device(device.index, info);
        let (place, rows) = (device.place(), device.gids.clone());
        if let Some(before) = self.devices.set(device) {
            let gone = |row: &DeviceGid| rows.iter().all(|other| other.gid != row.gid);
            let gone: Vec<_> = before.gids.iter().filter(|row| gone(row)).map(|row| row.gid).collect();
            self.tell_address_change(place, &gone);
        }
    }

    /// Removes a device: every id on it gets DEVICE_REMOVAL.
    pub fn remove_device(&mut self, now: Instant, index: u32) {
        if self.devices.remove(index) {
            self.detach_all(now, index);
            self.ib.remove_device(index);
        }
    }

    /// Sets all addresses of the host, including those of interfaces without a device: `bind` needs them to distinguish
    /// EADDRNOTAVAIL from ENODEV.
    pub fn set_local_addresses(&mut self, addresses: Vec<LocalAddress>) {
        self.devices.set_local(addresses);
    }

    /// Sets the range of ports for port 0, as in `net.ipv4.ip_local_port_range`; 32768 to 60999 at first.
    pub fn set_local_ports(&mut self, low: u16, high: u16) {
        self.ports.set_range(low, high);
    }

    /// Sets whether [`Service::poll_event`] may return events of the channel: `false` while the connection that carries
    /// them is full. They stay queued here. A new channel is ready.
    pub fn set_channel_ready(&mut self, channel: ChannelId, ready: bool) {
        self.channels.set_ready(channel, ready);
    }

    /// Handles the result of a request of [`Service::poll_resolve`].
    pub fn handle_resolved(&mut self, _now: Instant, question: QuestionId, result: ResolveResult) {
        self.on_resolved(question, result);
    }

    /// Handles subnet administration's answer to a request of [`Service::poll_resolve`]; a late one is dropped.
    pub fn handle_path(&mut self, _now: Instant, question: QuestionId, result: PathResult) {
        self.on_path(question, result);
    }

    /// Handles the result of a join of [`Service::poll_multicast`].
    pub fn handle_multicast(&mut self, _now: Instant, group: u32, result: MulticastResult) {
        self.on_multicast(group, result);
    }

    /// Returns the next request to the host's routing and neighbour tables.
    pub fn poll_resolve(&mut self) -> Option<ResolveRequest> {
        self.resolve_out.pop_front()
    }

    /// Returns the next group to join or to leave on an interface.
    pub fn poll_multicast(&mut self) -> Option<MulticastRequest> {
        self.groups.poll()
    }

    /// Executes a command of a process.
    pub fn handle_command(&mut self, now: Instant, client: ClientId, command: Command) -> Result<Reply, Errno> {
        if let Some(number) = subject(&command) {
            self.check_owner(client, number)?;
        }
        match command {
            Command::CreateId { channel, port_space, qp_type, cookie } => {
                self.create_id(client, ChannelId(channel), port_space, qp_type, cookie).map(Reply::Id)
            }
            Command::DestroyId { id } => Ok(Reply::EventsReported(self.destroy_id(now, id))),
            Command::MigrateId { id, channel } => self.migrate_id(id, ChannelId(channel)),
            Command::Bind { id, addr } => {
                self.bind(id, addr, None)?;
                Ok(Reply::Route(Box::new(self.route_info(id)?)))
            }
            Command::Listen { id, backlog } => {
                self.listen(id, backlog)?;
                Ok(Reply::Route(Box::new(self.route_info(id)?)))
            }
            Command::Query { id } => Ok(Reply::Route(Box::new(self.route_info(id)?))),
            Command::InitQpAttr { id, qp_state } => Ok(Reply::QpAttributes(Box::new(self.init_qp_attr(id, qp_state)?))),
            Command::JoinMulticast { id, addr, join, cookie } => {
                self.join_multicast(id, addr, join, cookie).map(Reply::Group)
            }
            Command::LeaveMulticast { group } => {
                self.check_owner(client, self.groups.id_of(group).ok_or(ENOENT)?)?;
                self.leave_multicast(group).map(Reply::EventsReported)
            }
            Command::QueryDefaults { device } => self.defaults(device),
            Command::SetDefaults { device, roce_mode, roce_tos } => {
                if !self.clients.credentials(client).is_some_and(|credentials| credentials.admin) {
                    return Err(EPERM);
                }
                // Soft-RoCE has no RoCE v1. As in Linux, a framing that no GID has is refused.
                let lacks = |entry: &Entry, wanted| entry.device.gids.iter().all(|row| row.mode != wanted);
                let refused =
                    |entry: &Entry| roce_mode.is_some_and(|mode| mode != entry.roce_mode && lacks(entry, mode));
                if self.devices.of_device(device).any(refused) {
                    return Err(EINVAL);
                }
                for entry in self.devices.change(device) {
                    entry.roce_mode = roce_mode.unwrap_or(entry.roce_mode);
                    entry.roce_tos = roce_tos.unwrap_or(entry.roce_tos);
                }
                self.defaults(device)
            }
            Command::ListIds { after } => Ok(self.list_ids(client, after)),
            other => self.act(now, other).map(|()| Reply::Done),
        }
    }

    /// Executes the commands whose only reply is success.
    fn act(&mut self, now: Instant, command: Command) -> Result<(), Errno> {
        match command {
            Command::ResolveAddr { id, src, dst, timeout_ms } => self.resolve_addr(now, id, src, dst, timeout_ms),
            Command::ResolveRoute { id, timeout_ms } => self.resolve_route(now, id, timeout_ms),
            Command::Connect { id, param, ece } => self.connect(now, id, param, ece),
            Command::Accept { id, cookie, param, ece } => self.accept(now, id, cookie, param, ece),
            Command::Reject { id, private_data, reason } => self.reject(now, id, &private_data, reason),
            Command::Disconnect { id } => self.disconnect(now, id),
            Command::Notify { id, event } => self.notify(now, id, event),
            Command::SetOption { id, option } => self.set_option(id, option),
            Command::WriteEvent { id, event, status, arg } => self.write_event(id, event, status, arg),
            _ => Err(EINVAL),
        }
    }

    fn check_owner(&self, client: ClientId, number: IdNumber) -> Result<(), Errno> {
        match self.ids.look(number) {
            Some(id) if id.client == client => Ok(()),
            _ => Err(ENOENT),
        }
    }

    fn defaults(&self, device: u32) -> Result<Reply, Errno> {
        let entry = self.devices.of_device(device).next().ok_or(ENODEV)?;
        Ok(Reply::Defaults { roce_mode: entry.roce_mode, roce_tos: entry.roce_tos })
    }

    /// `rdma_write_cm_event`. A limit stops a program that writes and does not read.
    fn write_event(&mut self, number: IdNumber, event: u32, status: i32, arg: u64) -> Result<(), Errno> {
        let kind =
            [EventKind::User, EventKind::Internal].into_iter().find(|kind| *kind as u32 == event).ok_or(EINVAL)?;
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let written = |waiting: &Waiting| {
            waiting.owner == number && matches!(waiting.event.kind, EventKind::User | EventKind::Internal)
        };
        // Requests that wait for a listener do not keep its program from writing.
        if id.events_waiting as usize >= WRITTEN_EVENTS_PER_ID_MAX
            && self.channels.count(id.channel, written) >= WRITTEN_EVENTS_PER_ID_MAX
        {
            return Err(ENOMEM);
        }
        self.emit(number, kind, status, EventParam::User(arg));
        Ok(())
    }

    /// `rdma_set_option`.
    fn set_option(&mut self, number: IdNumber, option: IdOption) -> Result<(), Errno> {
        if let IdOption::IbPath(paths) = option {
            return self.set_ib_path(number, &paths);
        }
        let id = self.ids.change(number).ok_or(ENOENT)?;
        match option {
            IdOption::Tos(tos) => id.options.tos = Some(tos),
            IdOption::ReuseAddr(reuse) if id.state == State::Idle || (reuse && id.state != State::Listen) => {
                id.options.reuseaddr = reuse;
            }
            IdOption::AfOnly(afonly) if matches!(id.state, State::Idle | State::AddrBound) => {
                id.options.afonly = afonly;
                id.options.afonly_set = true;
            }
            IdOption::Mpa(mpa) => id.options.mpa = mpa,
            IdOption::AckTimeout(timeout) if timeout < 32 && matches!(id.qp_type, QPT_RC | QPT_XRC_SEND) => {
                id.options.ack_timeout = Some(timeout);
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}

/// Returns the id that a command is about, which must be the client's own.
fn subject(command: &Command) -> Option<IdNumber> {
    match command {
        Command::DestroyId { id }
        | Command::Bind { id, .. }
        | Command::ResolveAddr { id, .. }
        | Command::ResolveRoute { id, .. }
        | Command::Query { id }
        | Command::InitQpAttr { id, .. }
        | Command::Connect { id, .. }
        | Command::Listen { id, .. }
        | Command::Accept { id, .. }
        | Command::Reject { id, .. }
        | Command::Disconnect { id }
        | Command::Notify { id, .. }
        | Command::SetOption { id, .. }
        | Command::WriteEvent { id, .. }
        | Command::JoinMulticast { id, .. }
        | Command::MigrateId { id, .. } => Some(*id),
        Command::CreateId { .. }
        | Command::LeaveMulticast { .. }
        | Command::QueryDefaults { .. }
        | Command::SetDefaults { .. }
        | Command::ListIds { .. } => None,
    }
}
