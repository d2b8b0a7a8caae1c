//! The session with the daemon: which devices there are, the slot, multicast groups. A daemon that dies is replaced; the
//! queue pairs and the packets of the process do not notice.

use std::io;
use std::os::fd::OwnedFd;

use weft_ipc::Published;
use weft_ipc::stat::{Ledger, Page};
use weft_ipc::{Client, ConnectError, ConnectOptions, Event, HopsFds, RequestError, Slot, SlotFate, trust};
use weft_link::hops::{HopsLink, ProcessFds};
use weft_sys::fork;
use weft_verbs::DeviceId;

use crate::devices::{DeviceSnapshot, snapshot};
use crate::error::EngineError;
use crate::instruments::Told;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A device is new or different.
    Set(DeviceSnapshot),
    /// A device is gone.
    Removed(DeviceId),
    /// A process of this slot has met ours.
    Came(u32),
    /// A process that ours has met, by slot and generation, is gone.
    Gone(u32, u64),
    /// A way over the fabric, by its number, opened or closed.
    Path(u32, bool),
    /// A way to a group of the fabric, by its number, leads elsewhere.
    Group(u32),
    /// The daemon is another one: its fabric is gone.
    FabricLost,
}

/// The session.
#[derive(Debug)]
pub struct Session {
    client: Client,
    devices: Vec<DeviceSnapshot>,
    /// Counts connections, so that whoever watches the descriptor knows when there is a new one.
    generation: u64,
    /// What this process counts, once it has a slot.
    ledger: Option<Ledger>,
    /// Somebody wants it brought up to date.
    asked: bool,
    /// What other processes meet ours with, and the number that tells it from others.
    published: Option<(u64, Published)>,
}

impl Session {
    /// Reach the daemon of this network namespace, starting one if there is none.
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

    /// The devices, in the order in which programs see them.
    pub fn devices(&self) -> &[DeviceSnapshot] {
        &self.devices
    }

    /// A device.
    pub fn device(&self, id: DeviceId) -> Option<&DeviceSnapshot> {
        self.devices.iter().find(|d| d.id == id)
    }

    /// A slot for this process.
    pub fn allocate_slot(&mut self) -> Result<Slot, RequestError> {
        let slot = self.client.allocate_slot()?;
        self.open_ledger();
        Ok(slot)
    }

    /// The cable to the switches of a fabric whose packets go hop by hop, if this process is on one.
    pub fn open_cable(&mut self) -> Result<Option<HopsLink>, EngineError> {
        if self.devices.iter().all(|device| device.attr.fabric().is_none()) {
            return Ok(None);
        }
        let Some(HopsFds { memory, bell, call }) = self.client.open_cable()? else { return Ok(None) };
        // The memory's descriptor is closed once it is mapped.
        [&bell, &call].into_iter().for_each(fork::track);
        Ok(Some(HopsLink::new(ProcessFds { memory, bell, call })?))
    }

    /// Without a ledger everything works, and nobody sees what this process counts.
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

    /// Whether the ledger is to be brought up to date.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Take that note.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Write to the ledger. What does not fit or cannot be written is not seen: there is nobody to tell.
    pub fn publish(&mut self, told: &Told) {
        if let Some(ledger) = &mut self.ledger {
            let _ = ledger.write(Page::Counters, &told.counters);
            if let Some(objects) = &told.objects {
                let _ = ledger.write(Page::Objects, objects);
            }
        }
    }

    /// Let other processes of the host meet ours. Those of our user get at our memory, unless the daemon, which makes what
    /// they get at it by, is somebody's whom that memory is no business of.
    /// `has_board` says that ours has a board of its own.
    pub fn publish_process(&mut self, generation: u64, has_board: bool) -> Result<&Published, RequestError> {
        let daemon = self.client.daemon_credentials()?;
        let shares = trust::is_trusted(&daemon);
        if !shares && !has_board {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "no board could be made (ulimit -f)").into());
        }
        let published = self.client.publish(generation, shares)?;
        Ok(&self.published.insert((generation, published)).1)
    }

    /// Whether other processes can meet ours, and so ours them.
    pub fn is_published(&self) -> bool {
        self.published.is_some()
    }

    /// Nobody will be met.
    pub fn unpublish(&mut self) {
        self.published = None;
    }

    /// To the next daemon.
    fn publish_again(&mut self) {
        if let Some((generation, published)) = self.published.take() {
            match self.client.publish_again(generation, &published) {
                Ok(()) => self.published = Some((generation, published)),
                Err(error) => crate::log::note(&format!("no more processes of this host are met: {error}")),
            }
        }
    }

    /// The client, for requests.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Number of the connection, and a descriptor that is readable when events wait there; `None` while there is no
    /// daemon.
    pub fn watch(&self) -> (u64, Option<OwnedFd>) {
        let fd = self.client.is_connected().then(|| self.client.fd().try_clone_to_owned().ok()).flatten();
        (self.generation, fd)
    }

    /// Number of the connection.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the daemon is there, as far as we know.
    pub fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Take in what the daemon told.
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
                Event::Disconnected => {
                    crate::log::note("the weft daemon is gone");
                    self.generation += 1;
                }
            }
        }
        changes
    }

    /// Reach the next daemon. It may take seconds.
    pub fn reconnect(&mut self) -> Result<Vec<Change>, EngineError> {
        fork::forget(self.client.fd());
        let reconnected = self.client.reconnect();
        fork::track(self.client.fd());
        self.generation += 1;
        let reconnected = match reconnected {
            // The fabric ended with the daemon that it was in, and this host's adapters with it.
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

    /// No device is left.
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
