//! The daemon's decisions, without sockets: takes in bytes of clients and the time, puts out bytes for clients. It
//! knows the clients, the devices, the owner of each slot, and each client's permissions.
//!
//! `hello` turns bytes into requests, `dispatch` finds a request's feature and checks its rules. Each feature is a file
//! with its requests (rows as in `route`), its state and its handlers: `devices`, `slots`, `status`, `peers`,
//! `ledgers`, `cm`, `paths`, `groups`, `losses`, `packet_channels`, `captures`, `faults`, `modules`, `umad`, `fabric`.
//! State that several of them use is in `shared`.
//! Between requests the server calls [`Broker`] itself, for the fabric's traffic in `traffic`.
//!
//! ```text
//! Recovering --anchor of a survivor--> Grace --20 s-> Normal        the predecessor's pool stays in use
//!     '-------- 3 s without a survivor ----------------^            its port stays taken until its programs end
//! ```

mod call;
mod captures;
mod cm;
mod config;
mod devices;
mod dispatch;
mod ethernet;
mod ethernet_hosts;
mod ethernet_ports;
mod fabric;
mod faults;
mod groups;
mod hello;
mod host_cms;
mod host_files;
mod host_networks;
mod host_wake;
mod interface_packets;
mod ipoib_interfaces;
mod ledgers;
mod losses;
mod modules;
mod output;
mod packet_channels;
mod paths;
mod peers;
mod route;
mod sessions;
mod shared;
mod slots;
mod status;
mod streams;
#[cfg(test)]
mod tests;
mod traffic;
mod umad;

use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_ipc::Refusal;
use weft_link::FaultSpec;
use weft_sys::unix::Credentials;

use crate::cm_service::CmService;
use crate::devices::Devices;
use crate::hops::PacketChannels;
use crate::host::Host;
use crate::limits;
use crate::saved::Saved;
use crate::slots::ClientId;
use sessions::{Client, Standing};
use shared::{Phase, Shared};

pub use config::BrokerConfig;
pub use interface_packets::NetworkEffect;
pub use output::{Attach, Output};

/// Result of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// The broker has processed it.
    Done,
    /// It must wait until recovery ends: keep it, read no more from this client, and submit it again then.
    Deferred,
}

/// Clients over a quota that stay connected to receive their refusal.
const DOOMED_CLIENTS_MAX: usize = 32;

/// State and decisions of the daemon: what the features share, and each feature's own state.
#[derive(Debug)]
pub struct Broker {
    shared: Shared,
    /// Connections between processes.
    peers: peers::Peers,
    /// Counters of processes.
    ledgers: ledgers::Ledgers,
    /// RDMA connection managers.
    cms: cm::ConnectionManagers,
    /// Paths over the fabric that programs asked about.
    paths: paths::Paths,
    /// Multicast groups of the fabric that programs listen and send to.
    groups: groups::Groups,
    /// Packet channels of programs in packet mode.
    packet_channels: PacketChannels,
    /// Management datagrams of virtual hosts.
    datagrams: umad::Datagrams,
    /// Networks of virtual hosts.
    networks: host_networks::Networks,
    /// Kernel modules of virtual hosts and of the machine.
    modules: modules::Modules,
    /// Files of virtual hosts.
    host_files: host_files::HostFiles,
    /// Captures of the fabric's packets.
    captures: captures::Captures,
    /// Faults of running programs.
    faults: faults::Faults,
}

impl Broker {
    /// Makes a broker that knows of no interface yet.
    pub fn new(now: Instant, config: BrokerConfig) -> Broker {
        Broker {
            shared: Shared::new(now, config),
            peers: peers::Peers::default(),
            ledgers: ledgers::Ledgers::default(),
            cms: cm::ConnectionManagers::new(now),
            paths: paths::Paths::default(),
            groups: groups::Groups::default(),
            packet_channels: PacketChannels::default(),
            datagrams: umad::Datagrams::default(),
            networks: host_networks::Networks::default(),
            modules: modules::Modules::default(),
            host_files: host_files::HostFiles::default(),
            captures: captures::Captures::default(),
            faults: faults::Faults::default(),
        }
    }

    /// Returns the interfaces and devices. After changing them call [`Broker::refresh`].
    pub fn devices(&mut self) -> &mut Devices {
        &mut self.shared.devices
    }

    /// Returns the machine's connection manager.
    pub fn cm(&mut self) -> &mut CmService {
        &mut self.cms.machine
    }

    /// Accepts iWARP connections where ids listen, if that may have changed.
    ///
    /// # Errors
    /// The errno of an address that cannot be had.
    pub fn cm_listens(&mut self, host: &mut impl Host) -> Result<(), i32> {
        self.cms.machine.follow_stream_listeners(host)
    }

    /// Returns all connection managers: the machine's, and those of virtual hosts.
    pub fn all_cms_mut(&mut self) -> impl Iterator<Item = &mut CmService> {
        self.cms.all_mut()
    }

    /// Withdraws from the host the connection managers' questions that no command waits for any more.
    pub fn forget_questions(&mut self, now: Instant, host: &mut impl Host) {
        for cm in self.cms.all_mut() {
            cm.forget_questions(now, host);
        }
    }

    /// Returns whether the result of [`Broker::save`] may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.shared.changed)
    }

    /// Sends the changes to subscribers.
    pub fn refresh(&mut self, now: Instant) {
        let shared = &mut self.shared;
        shared.changed = true;
        let events = shared.devices.refresh(shared.slots.in_use() > 0);
        self.cms.machine.follow(now, &shared.devices);
        shared.sessions.broadcast(&events);
        // A device that kept the daemon alive may have gone with its interface.
        self.update_idle(now);
    }

    /// Registers a connection. `None`: close it immediately, there are too many.
    pub fn connect(&mut self, now: Instant, credentials: Credentials) -> Option<ClientId> {
        let Shared { sessions, config, .. } = &mut self.shared;
        let same_user = sessions.values().filter(|client| client.credentials.uid == credentials.uid).count();
        let over = if sessions.len() >= limits::CONNECTIONS_MAX {
            Some(format!("there are {} connections to it, the most there can be", limits::CONNECTIONS_MAX))
        } else if credentials.uid != 0 && same_user >= config.connections_per_user_max as usize {
            Some(format!(
                "user {} has {same_user} connections to it, the most that one user may have: end some of the programs",
                credentials.uid
            ))
        } else {
            None
        };
        let doomed = |client: &&Client| matches!(client.standing, Standing::New(Some(_)));
        if over.is_some() && sessions.values().filter(doomed).count() >= DOOMED_CLIENTS_MAX {
            return None;
        }
        let id = sessions.open(credentials, over);
        self.shared.stay.leaves_soon = false;
        self.update_idle(now);
        Some(id)
    }

    /// Removes a client and frees everything that its process held.
    pub fn disconnect(&mut self, now: Instant, id: ClientId, host: &mut impl Host) {
        self.shared.changed = true;
        for cm in self.cms.all_mut() {
            cm.close_client(now, id, host);
        }
        self.datagrams.leave(&mut self.shared, now, id, host);
        self.close_packet_channel(now, id, host);
        self.captures.close(&mut self.shared, id, host);
        self.abandon_ethernet(id, host);
        self.shared.fabric.forget(id);
        self.paths.forget(id);
        self.groups.forget(id);
        self.ledgers.close(&self.shared, id, host);
        self.forget_faults_of(id);
        if let Some(client) = self.shared.sessions.remove(id)
            && let Some(slot) = client.slot
        {
            self.peers.part(&mut self.shared.sessions, id, slot, host);
            for group in client.groups {
                let _ = host.multicast(slot, group, false);
            }
            host.seal_slot(slot);
            host.retire_slot(id, slot);
            self.shared.slots.release(now, slot);
            self.cms.machine.handle_slot_gone(now, slot);
            if !self.shared.is_trusted(client.credentials.uid) {
                host.steer();
            }
        }
        self.update_idle(now);
    }

    /// Returns whether any client requests faults.
    pub fn any_faults(&self) -> bool {
        self.shared.sessions.values().any(|client| !client.faults.is_empty())
    }

    /// Returns the faults for packets to this client; `None` for none.
    pub fn faults_of(&self, id: ClientId) -> Option<&[(u32, FaultSpec)]> {
        self.shared.sessions.get(id).map(|client| client.faults.as_slice()).filter(|faults| !faults.is_empty())
    }

    /// Returns whether to accept descriptors that a client sends. Unwanted ones must not even enter this process, which
    /// would have to close them, and closing an untrusted file can block forever. It wants proofs of slots while a
    /// predecessor's programs come back, and later the anchor, which only trusted users have.
    pub fn accepts_descriptors(&self, id: ClientId) -> bool {
        let trusted =
            || self.shared.sessions.get(id).is_some_and(|client| self.shared.is_trusted(client.credentials.uid));
        self.shared.phase != Phase::Normal || (self.shared.slots.is_empty() && trusted())
    }

    /// Returns whether some processes with slots could not bring the pool to a successor, since the daemon does not
    /// trust them with it.
    pub fn needs_standby(&self) -> bool {
        self.shared
            .sessions
            .values()
            .any(|client| client.slot.is_some() && !self.shared.is_trusted(client.credentials.uid))
    }

    /// Returns whether any process has a slot.
    pub fn slots_in_use(&self) -> bool {
        self.shared.slots.in_use() > 0
    }

    /// Takes over a predecessor's pool from an anchor that this process holds itself.
    pub fn inherit(&mut self, now: Instant, anchor: &OwnedFd, host: &mut impl Host) -> Result<(), Refusal> {
        self.adopt(now, anchor, host)
    }

    /// Returns whether the broker defers messages.
    pub fn is_recovering(&self) -> bool {
        self.shared.is_recovering()
    }

    /// Takes the next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.shared.sessions.poll_output()
    }

    /// Returns when [`Broker::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.shared.phase {
            Phase::Normal => None,
            Phase::Recovering { until } | Phase::Grace { until } => Some(until),
        };
        let idle = self.shared.stay.until(self.shared.config.idle_exit);
        [
            phase,
            idle,
            self.cms.machine.poll_timeout(),
            self.shared.fabric.poll_timeout(),
            self.poll_umad_timeout(),
            self.cms.hosts.poll_timeout(),
            self.poll_packet_channel_timeout(),
            // A deferred request that is to come again at once.
            self.shared.ethernet_start.as_ref().map(|start| start.due),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut impl Host) {
        self.cms.machine.handle_timeout(now);
        self.shared.fabric.handle_timeout(now);
        self.handle_packet_channel_timeout(now);
        match self.shared.phase {
            Phase::Recovering { until } if now >= until => self.shared.phase = Phase::Normal,
            Phase::Grace { until } if now >= until => {
                self.shared.phase = Phase::Normal;
                self.shared.changed = true;
                for slot in self.shared.slots.waiting() {
                    host.seal_slot(slot);
                    self.shared.slots.release(now, slot);
                }
            }
            _ => {}
        }
        if self.shared.stay.until(self.shared.config.idle_exit).is_some_and(|at| now >= at) {
            self.shared.sessions.stop();
        }
    }

    /// Returns the state that a successor needs.
    pub fn save(&self) -> Saved {
        let (next_device, devices) = self.shared.devices.save();
        Saved { next_device, devices, slots: self.shared.slots.save(), left: self.ledgers.save() }
    }

    fn update_idle(&mut self, now: Instant) {
        let Shared { sessions, devices, fabric, ethernet, stay, .. } = &mut self.shared;
        let has_settings = devices.any_settings() || self.cms.machine.has_settings();
        stay.update(now, !sessions.is_empty() || has_settings || fabric.running().is_some() || ethernet.is_some());
    }
}
