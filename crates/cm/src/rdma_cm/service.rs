//! The connection manager as a value: commands, packets, answers of the host and the time go in; replies, events,
//! packets and questions come out. Nothing in here waits.

use std::collections::BTreeMap;

use weft_verbs::Instant;

use super::client::{ChannelId, ClientId, Credentials};
use super::command::{Command, Reply};
use super::device::{Device, LocalAddress};
use super::errno::Errno;
use super::event::CmEvent;
use super::host::{MulticastRequest, QuestionId, ResolveRequest, ResolveResult};

/// What Linux's `rdma_cm` and `rdma_ucm` modules do for one network namespace.
#[derive(Debug, Default)]
pub struct Service {
    clients: BTreeMap<ClientId, Credentials>,
}

impl Service {
    /// A service without devices and clients. `seed` must not be predictable: communication ids, transaction ids and
    /// starting ports come from it.
    pub fn new(seed: u64) -> Service {
        let _ = seed;
        Service::default()
    }

    /// A device is new or has changed. What uses a GID that is gone gets ADDR_CHANGE, or fails by its own timers.
    pub fn set_device(&mut self, now: Instant, device: Device) {
        let _ = (now, device);
    }

    /// A device is gone: every id on it gets DEVICE_REMOVAL.
    pub fn remove_device(&mut self, now: Instant, index: u32) {
        let _ = (now, index);
    }

    /// All addresses of the host, of interfaces without a device too: `bind` tells by them EADDRNOTAVAIL from ENODEV.
    pub fn set_local_addresses(&mut self, addresses: Vec<LocalAddress>) {
        let _ = addresses;
    }

    /// A process has come.
    pub fn open_client(&mut self, client: ClientId, credentials: Credentials) {
        self.clients.insert(client, credentials);
    }

    /// A process has gone: everything that it had is cleaned away, and its peers are told.
    pub fn close_client(&mut self, now: Instant, client: ClientId) {
        let _ = now;
        self.clients.remove(&client);
    }

    /// A new event channel of a process. `EMFILE` if it has too many.
    pub fn open_channel(&mut self, client: ClientId) -> Result<ChannelId, Errno> {
        let _ = client;
        Err(super::errno::EMFILE)
    }

    /// An event channel was closed: its ids are destroyed.
    pub fn close_channel(&mut self, now: Instant, channel: ChannelId) {
        let _ = (now, channel);
    }

    /// Whether events of the channel may come out of [`Service::poll_event`]: `false` while the connection that carries
    /// them is full. They wait here and are not lost. A new channel is ready.
    pub fn set_channel_ready(&mut self, channel: ChannelId, ready: bool) {
        let _ = (channel, ready);
    }

    /// A command of a process.
    pub fn handle_command(&mut self, now: Instant, client: ClientId, command: Command) -> Result<Reply, Errno> {
        let _ = (now, client, command);
        Err(super::errno::ENOSYS)
    }

    /// The answer to a question of [`Service::poll_resolve`].
    pub fn handle_resolved(&mut self, now: Instant, question: QuestionId, result: ResolveResult) {
        let _ = (now, question, result);
    }

    /// Whether a join of [`Service::poll_multicast`] was done.
    pub fn handle_multicast(&mut self, now: Instant, group: u32, result: Result<(), Errno>) {
        let _ = (now, group, result);
    }

    /// Lets everything happen that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When [`Service::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next event of any channel that is ready. Those of one channel come in their order; an event given out counts
    /// as reported.
    pub fn poll_event(&mut self) -> Option<(ChannelId, CmEvent)> {
        None
    }

    /// The next question to the host's routing and neighbour tables.
    pub fn poll_resolve(&mut self) -> Option<ResolveRequest> {
        None
    }

    /// The next group to join or to leave on an interface.
    pub fn poll_multicast(&mut self) -> Option<MulticastRequest> {
        None
    }
}
