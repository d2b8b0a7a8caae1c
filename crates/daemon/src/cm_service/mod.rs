//! The RDMA connection manager: [`weft_cm::rdma_cm::Service`] with the devices of this host and the connected
//! processes. It does no I/O: the server fetches what the service wants to send, ask or join.

mod channels;
mod devices;
mod memberships;
pub mod on_fabric;
mod stream_sockets;
mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use weft_cm::rdma_cm::{
    ChannelId, ClientId as CmClientId, CmEvent, Command, Credentials, Device, GmpAddress, LocalAddress, MadBytes,
    MulticastRequest, MulticastResult, PathQuestion, PathResult, QuestionId, Reply, ResolveQuestion, ResolveRequest,
    ResolveResult, Service, State,
};
use weft_ipc::{CmStatus, Refusal};
use weft_verbs::Instant as CmInstant;

pub use channels::{ChannelSockets, Sent};
pub use memberships::Memberships;
pub use stream_sockets::{StreamSockets, errno_of};

use crate::devices::Devices;
use crate::gsi::Directory;
use crate::host::Host;
use crate::refusal::refuse;
use crate::slots::ClientId;

/// Client that reads all ids for `weft status`.
const OBSERVER: CmClientId = CmClientId(0);

/// The connection manager of this daemon.
#[derive(Debug)]
pub struct CmService {
    service: Service,
    started: Instant,
    /// Number of channels of each process.
    clients: BTreeMap<ClientId, usize>,
    /// Owner of each channel, by channel number.
    channels: BTreeMap<u32, ClientId>,
    known: devices::Known,
    directory: Directory,
    /// Questions to the subnet administration.
    paths: VecDeque<PathQuestion>,
    /// The addresses where iWARP connections are accepted may have changed.
    listeners_changed: bool,
}

impl CmService {
    /// Makes a connection manager without devices and processes.
    pub fn new(now: Instant, seed: u64) -> CmService {
        let mut service = Service::new(seed);
        let observer = Credentials { pid: 0, uid: 0, comm: String::new(), privileged_ports: false, admin: false };
        service.open_client(OBSERVER, observer);
        CmService {
            service,
            started: now,
            clients: BTreeMap::new(),
            channels: BTreeMap::new(),
            known: devices::Known::default(),
            directory: Directory::default(),
            paths: VecDeque::new(),
            listeners_changed: false,
        }
    }

    /// Converts to the service's time.
    pub fn time(&self, now: Instant) -> CmInstant {
        let since = now.saturating_duration_since(self.started);
        CmInstant(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the map from addresses to devices and rows.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns whether a process uses the connection manager.
    pub fn has_client(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Returns the number of channels of the processes that satisfy a condition.
    pub fn channels_of(&self, mut condition: impl FnMut(&ClientId) -> bool) -> usize {
        self.clients.iter().filter(|(client, _)| condition(client)).map(|(_, channels)| channels).sum()
    }

    /// Converts the service's time to the daemon's.
    pub fn instant(&self, at: CmInstant) -> Instant {
        self.started + Duration::from_nanos(at.0)
    }

    /// Sets the range of ports for programs that ask for port 0.
    pub fn set_local_ports(&mut self, low: u16, high: u16) {
        self.service.set_local_ports(low, high);
    }

    /// Updates the devices and addresses of this machine.
    pub fn follow(&mut self, now: Instant, devices: &Devices) {
        if self.follow_list(now, devices::of_machine(devices), devices::addresses_of_machine(devices)) {
            self.directory = Directory::new(&devices::with_roce_v1(devices));
        }
    }

    /// Updates to these devices and addresses; returns whether devices changed.
    pub fn follow_list(&mut self, now: Instant, devices: Vec<Device>, addresses: Vec<LocalAddress>) -> bool {
        let time = self.time(now);
        self.listeners_changed = true;
        self.known.follow(&mut self.service, time, devices, addresses)
    }

    /// Registers a process, at its first request.
    pub fn open_client(&mut self, client: ClientId, credentials: Credentials) {
        self.clients.entry(client).or_default();
        self.service.open_client(CmClientId(client), credentials);
    }

    /// Removes a process.
    pub fn close_client(&mut self, now: Instant, client: ClientId, host: &mut impl Host) {
        if self.clients.remove(&client).is_none() {
            return;
        }
        let time = self.time(now);
        self.listeners_changed = true;
        self.service.close_client(time, CmClientId(client));
        self.channels.retain(|&channel, owner| {
            if *owner == client {
                host.close_channel(channel);
            }
            *owner != client
        });
    }

    /// Opens an event channel of this number; the reader's end goes out with the answer.
    pub fn open_channel(
        &mut self,
        now: Instant,
        client: ClientId,
        channel: u32,
        host: &mut impl Host,
    ) -> Result<(), Refusal> {
        let number = ChannelId(channel);
        self.service.open_channel_as(CmClientId(client), number).map_err(|errno| said_no(errno, "open a channel"))?;
        if let Err(refusal) = host.open_channel(channel) {
            let time = self.time(now);
            self.service.close_channel(time, number);
            return Err(refusal);
        }
        self.channels.insert(channel, client);
        *self.clients.entry(client).or_default() += 1;
        Ok(())
    }

    /// Returns whether there is an event channel of this number.
    pub fn has_channel(&self, channel: u32) -> bool {
        self.channels.contains_key(&channel)
    }

    /// Closes one of a process's channels.
    pub fn close_channel(&mut self, now: Instant, client: ClientId, channel: u32, host: &mut impl Host) {
        if self.channels.get(&channel) == Some(&client) {
            self.channels.remove(&channel);
            if let Some(channels) = self.clients.get_mut(&client) {
                *channels = channels.saturating_sub(1);
            }
            let time = self.time(now);
            self.listeners_changed = true;
            self.service.close_channel(time, ChannelId(channel));
            host.close_channel(channel);
        }
    }

    /// Executes a command of a process. If it leads to questions about addresses, `ask` asks them.
    pub fn command<H: Host>(
        &mut self,
        now: Instant,
        client: ClientId,
        command: Command,
        host: &mut H,
        ask: impl FnMut(&mut H, &ResolveQuestion) -> Option<ResolveResult>,
    ) -> Result<Reply, Refusal> {
        let time = self.time(now);
        let resolves = matches!(command, Command::ResolveAddr { .. } | Command::ResolveRoute { .. });
        if let Some(channel) = self.service.recalls(&command)
            && self.channels.get(&channel.0) == Some(&client)
        {
            self.service.put_back(channel, host.take_back(channel.0));
            self.service.set_channel_ready(channel, true);
        }
        let what = name_of(&command);
        self.listeners_changed |= matches!(command, Command::Listen { .. } | Command::DestroyId { .. });
        let listener = if let Command::Listen { id, .. } = command { Some(id) } else { None };
        let reply =
            self.service.handle_command(time, CmClientId(client), command).map_err(|errno| said_no(errno, what))?;
        if let Some(id) = listener
            && let Err(errno) = self.follow_stream_listeners(host)
        {
            self.service.unlisten(id);
            self.listeners_changed = true;
            return Err(said_no(errno, what));
        }
        if resolves {
            self.resolve(now, host, ask).map_err(|errno| said_no(errno, what))?;
        }
        Ok(reply)
    }

    /// Asks the service's open questions. The command that led to a question fails if there is no route.
    fn resolve<H: Host>(
        &mut self,
        now: Instant,
        host: &mut H,
        mut ask: impl FnMut(&mut H, &ResolveQuestion) -> Option<ResolveResult>,
    ) -> Result<(), i32> {
        let time = self.time(now);
        let mut refused = Ok(());
        while let Some(request) = self.service.poll_resolve() {
            match request {
                ResolveRequest::Forget(question) => {
                    self.paths.retain(|asked| asked.question != question);
                    host.forget(question);
                }
                ResolveRequest::AskPath(asked) => self.paths.push_back(asked),
                ResolveRequest::Ask(asked) => match ask(host, &asked) {
                    Some(Err(errno)) => {
                        self.service.refuse_question(asked.question);
                        refused = Err(errno);
                    }
                    Some(answer) => self.service.handle_resolved(time, asked.question, answer),
                    None => {}
                },
            }
        }
        refused
    }

    /// Withdraws from the host the questions that no command waits for any more.
    pub fn forget_questions(&mut self, now: Instant, host: &mut impl Host) {
        // Only commands raise questions, so none is asked or refused here.
        let _ = self.resolve(now, host, |_, _| None);
    }

    /// Returns whether an administrator changed the defaults of new ids.
    pub fn has_settings(&self) -> bool {
        self.service.has_settings()
    }

    /// Returns the process that a management datagram is for, if there is one.
    pub fn addressee(&self, from: &GmpAddress, mad: &MadBytes) -> Option<ClientId> {
        self.service.addressee(from, mad).map(|client| client.0).filter(|client| self.clients.contains_key(client))
    }

    /// Returns the program that sends a datagram.
    pub fn sender(&self, mad: &MadBytes) -> Option<ClientId> {
        self.service.sender(mad).map(|client| client.0).filter(|client| self.clients.contains_key(client))
    }

    /// Handles a management datagram.
    pub fn handle_gmp(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        let time = self.time(now);
        self.service.handle_gmp(time, from, mad);
    }

    /// Handles the host's answer to a question.
    pub fn handle_resolved(&mut self, now: Instant, question: QuestionId, result: ResolveResult) {
        let time = self.time(now);
        self.service.handle_resolved(time, question, result);
    }

    /// Handles the subnet administration's answer to a question.
    pub fn handle_path(&mut self, now: Instant, question: QuestionId, result: PathResult) {
        let time = self.time(now);
        self.service.handle_path(time, question, result);
    }

    /// Returns the next question to the subnet administration.
    pub fn poll_path(&mut self) -> Option<PathQuestion> {
        self.paths.pop_front()
    }

    /// Handles the result of joining a group.
    pub fn handle_multicast(&mut self, now: Instant, group: u32, result: MulticastResult) {
        let time = self.time(now);
        self.service.handle_multicast(time, group, result);
    }

    /// Sets whether a channel accepts events.
    pub fn set_channel_ready(&mut self, channel: u32, ready: bool) {
        self.service.set_channel_ready(ChannelId(channel), ready);
    }

    /// Returns the next event for a channel.
    pub fn poll_event(&mut self) -> Option<(u32, CmEvent)> {
        self.service.poll_event().map(|(channel, event)| (channel.0, event))
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(GmpAddress, MadBytes)> {
        self.service.poll_transmit()
    }

    /// Returns the next group to join or leave.
    pub fn poll_multicast(&mut self) -> Option<MulticastRequest> {
        self.service.poll_multicast()
    }

    /// Returns when [`CmService::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.service.poll_timeout().map(|at| self.instant(at))
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let time = self.time(now);
        if self.service.poll_timeout().is_some_and(|at| at <= time) {
            self.service.handle_timeout(time);
        }
    }

    /// Returns the number of its objects.
    pub fn status(&mut self, now: Instant) -> CmStatus {
        let time = self.time(now);
        let mut status = CmStatus {
            processes: self.clients.len() as u32,
            channels: self.channels.len() as u32,
            ..CmStatus::default()
        };
        let mut after = 0;
        while let Ok(Reply::Ids { ids, more }) = self.service.handle_command(time, OBSERVER, Command::ListIds { after })
        {
            for id in &ids {
                match id.state {
                    state if state == State::Listen as u8 => status.listeners += 1,
                    state if state == State::Connect as u8 => status.connections += 1,
                    _ => status.idle_ids += 1,
                }
                after = id.id;
            }
            if !more || ids.is_empty() {
                break;
            }
        }
        status
    }
}

/// Returns whether a command leads to packets, so that queue pair 1 has to be open first.
pub fn needs_network(command: &Command) -> bool {
    matches!(
        command,
        Command::Listen { .. } | Command::ResolveAddr { .. } | Command::Connect { .. } | Command::JoinMulticast { .. }
    )
}

fn said_no(errno: i32, what: &str) -> Refusal {
    refuse(errno, format!("the RDMA connection manager refuses to {what} (errno {errno})"))
}

fn name_of(command: &Command) -> &'static str {
    match command {
        Command::CreateId { .. } => "create an id",
        Command::DestroyId { .. } => "destroy an id",
        Command::Bind { .. } => "bind an id",
        Command::ResolveAddr { .. } => "resolve an address",
        Command::ResolveRoute { .. } => "resolve a route",
        Command::Query { .. } => "tell about an id",
        Command::InitQpAttr { .. } => "tell attributes of a queue pair",
        Command::Connect { .. } => "connect",
        Command::Listen { .. } => "listen",
        Command::Accept { .. } => "accept a connection",
        Command::Reject { .. } => "reject a connection",
        Command::Disconnect { .. } => "disconnect",
        Command::Notify { .. } => "take note of a queue pair's event",
        Command::SetOption { .. } => "set an option",
        Command::JoinMulticast { .. } => "join a group",
        Command::LeaveMulticast { .. } => "leave a group",
        Command::MigrateId { .. } => "migrate an id",
        Command::QueryDefaults { .. } => "tell the defaults of a device",
        Command::SetDefaults { .. } => "set the defaults of a device",
        Command::ListIds { .. } => "list the ids",
        Command::WriteEvent { .. } => "tell an event",
    }
}
