//! The session with the daemon: devices, the slot, multicast groups. A daemon that dies is replaced, without an effect
//! on the process's queue pairs and packets.

use std::io;
use std::os::fd::OwnedFd;

use weft_ipc::Published;
use weft_ipc::stat::{Ledger, Page};
use weft_ipc::{
    Client, ConnectError, ConnectOptions, Event, HopsFds, RequestError, Slot, SlotFate, StreamGrant, trust,
};
use weft_link::hops::{HopsLink, ProcessFds};
use weft_sys::fork;
use weft_verbs::{DeviceId, Qpn};

use crate::devices::{DeviceSnapshot, snapshot};
use crate::error::EngineError;
use crate::instruments::LedgerUpdate;

/// A change reported by the daemon.
#[derive(Debug)]
pub enum Change {
    /// A device is new or has changed.
    Set(DeviceSnapshot),
    /// A device is gone.
    Removed(DeviceId),
    /// A process of this slot has met this one.
    Came(u32),
    /// A process that this one has met, by slot and generation, is gone.
    Gone(u32, u64),
    /// A path over the fabric, by its number, opened or closed.
    Path(u32, bool),
    /// A path to a group of the fabric, by its number, leads elsewhere.
    Group(u32),
    /// The daemon is a new one: the old one's fabric is gone, and the faults that it kept.
    FabricLost,
    /// A user adds a fault, by its number and specification.
    FaultAdded(u32, String),
    /// A user removes the fault with this number.
    FaultRemoved(u32),
    /// A queue pair's connection is negotiated, and this is its socket.
    StreamOpened(StreamGrant, OwnedFd),
    /// The connection manager closes the connection of a queue pair, by its number.
    CloseStream(Qpn),
}

/// The session.
#[derive(Debug)]
pub struct Session {
    client: Client,
    devices: Vec<DeviceSnapshot>,
    /// Counts connections, so that a watcher of the descriptor notices a new one.
    generation: u64,
    /// The ledger for this process's counters, once it has a slot.
    ledger: Option<Ledger>,
    /// The daemon requested a ledger update.
    asked: bool,
    /// This process's generation number, and the descriptors with which other processes meet it.
    published: Option<(u64, Published)>,
}

impl Session {
    /// Connects to the daemon of this network namespace, starting one if there is none.
    pub fn open() -> Result<Session, EngineError> {
        let here = Session::open as fn() -> _;
        let options = ConnectOptions {
            library_dir: weft_sys::mapping::file_of_code(here as usize)
                .and_then(|file| Some(file.parent()?.to_owned())),
            ..ConnectOptions::default()
        };
        let mut client = Client::connect(&options)?;
        let devices = client.subscribe()?.iter().map(snapshot).collect();
        fork::track(client.fd());
        Ok(Session { client, devices, generation: 1, ledger: None, asked: false, published: None })
    }

    /// Returns the devices, in the order in which programs see them.
    pub fn devices(&self) -> &[DeviceSnapshot] {
        &self.devices
    }

    /// Finds a device.
    pub fn device(&self, id: DeviceId) -> Option<&DeviceSnapshot> {
        self.devices.iter().find(|d| d.id == id)
    }

    /// Allocates a slot for this process.
    pub fn allocate_slot(&mut self) -> Result<Slot, RequestError> {
        let slot = self.client.allocate_slot()?;
        self.open_ledger();
        Ok(slot)
    }

    /// Opens the packet channel to the switches of a fabric whose packets go hop by hop, if this process is on one.
    pub fn open_packet_channel(&mut self) -> Result<Option<HopsLink>, EngineError> {
        if self.devices.iter().all(|device| device.attr.fabric().is_none()) {
            return Ok(None);
        }
        let Some(HopsFds { memory, bell, call }) = self.client.open_packet_channel()? else { return Ok(None) };
        // The memory's descriptor closes once the memory is mapped.
        [&bell, &call].into_iter().for_each(fork::track);
        Ok(Some(HopsLink::new(ProcessFds { memory, bell, call })?))
    }

    /// Opens the ledger. Without one everything works, but this process's counters are invisible.
    fn open_ledger(&mut self) {
        self.ledger = match self.client.open_ledger() {
            Ok(ledger) => Some(ledger),
            Err(error) => {
                crate::log::note(&format!("no ledger: {error}"));
                None
            }
        };
        self.asked = true;
    }

    /// Whether the daemon requested a ledger update.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Takes the request for a ledger update.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Writes to the ledger. Data that does not fit or cannot be written is dropped.
    pub fn publish(&mut self, told: &LedgerUpdate) {
        if let Some(ledger) = &mut self.ledger {
            let _ = ledger.write(Page::Counters, &told.counters);
            if let Some(objects) = &told.objects {
                let _ = ledger.write(Page::Objects, objects);
            }
        }
    }

    /// Lets other processes of the host meet this one. Those of the same user may access its memory, unless the daemon,
    /// which creates the key directory for that, runs as a user without a right to that memory. `has_directory` says
    /// that the process has made a key directory of its own.
    pub fn publish_process(&mut self, generation: u64, has_directory: bool) -> Result<&Published, RequestError> {
        let daemon = self.client.daemon_credentials()?;
        let shares = trust::is_trusted(&daemon);
        if !shares && !has_directory {
            return Err(
                io::Error::new(io::ErrorKind::FileTooLarge, "no key directory could be made (ulimit -f)").into()
            );
        }
        let published = self.client.publish(generation, shares)?;
        Ok(&self.published.insert((generation, published)).1)
    }

    /// Whether other processes can meet this one, and this one them.
    pub fn is_published(&self) -> bool {
        self.published.is_some()
    }

    /// Withdraws the publication: no process can be met.
    pub fn unpublish(&mut self) {
        self.published = None;
    }

    /// Publishes the process to the next daemon.
    fn publish_again(&mut self) {
        if let Some((generation, published)) = self.published.take() {
            match self.client.publish_again(generation, &published) {
                Ok(()) => self.published = Some((generation, published)),
                Err(error) => crate::log::note(&format!("no more processes of this host are met: {error}")),
            }
        }
    }

    /// Returns the client, for requests.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Returns the connection's number, and a descriptor that is readable when events wait there; `None` without a
    /// daemon.
    pub fn watch(&self) -> (u64, Option<OwnedFd>) {
        let fd = self.client.is_connected().then(|| self.client.fd().try_clone_to_owned().ok()).flatten();
        (self.generation, fd)
    }

    /// Returns the connection's number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the daemon is there, as far as the process knows.
    pub fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Processes the daemon's messages.
    pub fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for event in self.client.poll_events() {
            match event {
                Event::DeviceChanged(info) => self.set(snapshot(&info), &mut changes),
                Event::DeviceRemoved { index } => self.remove(DeviceId(index), &mut changes),
                Event::PathChanged { path, open } => changes.push(Change::Path(path, open)),
                Event::GroupChanged { path } => changes.push(Change::Group(path)),
                Event::Overrun => {
                    if let Ok(devices) = self.client.list_devices() {
                        self.replace(devices.iter().map(snapshot).collect(), &mut changes);
                    }
                }
                Event::RefreshLedger => self.asked = true,
                Event::PeerCame { slot, .. } => changes.push(Change::Came(slot)),
                Event::PeerGone { slot, generation } => changes.push(Change::Gone(slot, generation)),
                Event::StreamOpened(grant) => {
                    changes.extend(self.client.take_stream().map(|socket| Change::StreamOpened(grant, socket)));
                }
                Event::FaultAdded { number, spec } => changes.push(Change::FaultAdded(number, spec)),
                Event::FaultRemoved { number } => changes.push(Change::FaultRemoved(number)),
                Event::CloseStream { qp_num } => changes.push(Change::CloseStream(qp_num)),
                Event::Disconnected => {
                    crate::log::note("the weft daemon is gone");
                    self.generation += 1;
                }
            }
        }
        changes
    }

    /// Connects to the next daemon. This may take seconds.
    pub fn reconnect(&mut self) -> Result<Vec<Change>, EngineError> {
        fork::forget(self.client.fd());
        let reconnected = self.client.reconnect();
        fork::track(self.client.fd());
        self.generation += 1;
        let reconnected = match reconnected {
            // The fabric ended with its daemon, and this host's adapters with it.
            Err(ConnectError::NoHost(why)) if !self.devices.is_empty() => {
                crate::log::note(&format!("the adapters of this host are gone: {why}"));
                return Ok(self.lose_all());
            }
            reconnected => reconnected?,
        };
        if self.client.slot().is_some() {
            self.open_ledger();
        }
        self.publish_again();
        if let SlotFate::Lost(why) = &reconnected.slot {
            crate::log::note(&format!("the place of this process is lost: {why}"));
            return Ok(self.lose_all());
        }
        let mut changes = vec![Change::FabricLost];
        self.replace(reconnected.devices.iter().map(snapshot).collect(), &mut changes);
        Ok(changes)
    }

    /// Drops all devices.
    fn lose_all(&mut self) -> Vec<Change> {
        let removed = std::mem::take(&mut self.devices).into_iter().map(|device| Change::Removed(device.id));
        std::iter::once(Change::FabricLost).chain(removed).collect()
    }

    fn set(&mut self, new: DeviceSnapshot, changes: &mut Vec<Change>) {
        match self.devices.iter_mut().find(|d| d.id == new.id) {
            Some(old) if *old == new => return,
            Some(old) => *old = new.clone(),
            None => self.devices.push(new.clone()),
        }
        changes.push(Change::Set(new));
    }

    fn remove(&mut self, id: DeviceId, changes: &mut Vec<Change>) {
        let before = self.devices.len();
        self.devices.retain(|d| d.id != id);
        if self.devices.len() != before {
            changes.push(Change::Removed(id));
        }
    }

    fn replace(&mut self, new: Vec<DeviceSnapshot>, changes: &mut Vec<Change>) {
        for old in &self.devices {
            if new.iter().all(|d| d.id != old.id) {
                changes.push(Change::Removed(old.id));
            }
        }
        for device in &new {
            if !self.devices.contains(device) {
                changes.push(Change::Set(device.clone()));
            }
        }
        self.devices = new;
    }
}
