//! The daemon's decisions, without sockets: takes in bytes of clients and the time, puts out bytes for clients. It
//! knows the clients, the devices, the owner of each slot, and each client's permissions.
//!
//! ```text
//! Recovering --anchor of a survivor--> Grace --20 s-> Normal        the predecessor's pool stays in use
//!     '-------- 3 s without a survivor ----------------^            its port stays taken until its programs end
//! ```

mod cable_requests;
mod cm_requests;
mod fabric_requests;
mod group_requests;
mod host_cm;
mod loss_requests;
mod path_requests;
mod peer_requests;
mod requests;
mod session;
mod slot_requests;
mod stat_requests;
#[cfg(test)]
mod tests;
mod umad_requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_ipc::{DaemonFrame, Event, McastGroup, Refusal, Usage, encode};
use weft_link::FaultSpec;
use weft_sys::unix::Credentials;

use crate::cm_service::CmService;
use crate::devices::Devices;
use crate::fabric::FabricHost;
use crate::hops::Cables;
use crate::host::Host;
use crate::limits;
use crate::saved::Saved;
use crate::slots::{ClientId, SlotTable};
use crate::umad::{SmHolders, UmadService};

pub use stat_requests::Left;

/// Configuration of the broker.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Process ID of the daemon.
    pub pid: u32,
    /// User ID of the daemon.
    pub uid: u32,
    /// Whether that ID stands for this user alone.
    pub uid_is_ours_alone: bool,
    /// Identifier that stays the same while the network namespace lives.
    pub namespace: u64,
    /// Maximum number of slots per user.
    pub slots_per_user_max: u32,
    /// How long a free slot stays reserved for its last user.
    pub slot_quarantine: Duration,
    /// Maximum number of connections per user.
    pub connections_per_user_max: u32,
    /// How long an unused daemon stays; `None` is forever.
    pub idle_exit: Option<Duration>,
    /// Whether programs that outlived a predecessor hold the port.
    pub survivors: bool,
}

/// An action for the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send to a client.
    Send {
        /// Recipient.
        client: ClientId,
        /// Message.
        bytes: Vec<u8>,
        /// Descriptors to attach.
        attach: Attach,
        /// Device that this event describes: a newer event about it replaces this one while it still waits.
        about: Option<u32>,
    },
    /// Close a client's connection after sending everything queued before, and confirm by [`Broker::disconnect`].
    Close {
        /// The client.
        client: ClientId,
    },
    /// End the daemon after sending everything queued before.
    Stop,
}

/// Descriptors attached to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attach {
    /// The sockets of this slot.
    pub sockets_of: Option<u32>,
    /// The anchor.
    pub anchor: bool,
    /// The program's end of this event channel.
    pub channel: Option<u32>,
    /// The program's end of this port for management datagrams.
    pub umad: Option<u32>,
    /// The ledger of this client.
    pub ledger_of: Option<ClientId>,
    /// The program's end of this client's cable.
    pub cable: Option<ClientId>,
    /// Publication of this slot's process: doorbell, board, arena.
    pub published: Option<u32>,
    /// Descriptors for the process of the first slot to reach the process of the second.
    pub meeting: Option<(u32, u32)>,
}

/// Result of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// The broker has processed it.
    Done,
    /// It must wait until recovery ends: keep it, read no more from this client, and submit it again then.
    Deferred,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Normal,
    Recovering { until: Instant },
    Grace { until: Instant },
}

#[derive(Debug)]
enum Standing {
    /// No hello yet; `Some` holds the reason for which the broker will refuse it.
    New(Option<String>),
    Session,
    /// About to be closed; further input is ignored.
    Leaving,
}

#[derive(Debug)]
struct Client {
    credentials: Credentials,
    standing: Standing,
    program: String,
    /// Virtual host that it runs as; empty for the machine itself.
    host: String,
    /// Faults that it requests, parsed and in its own syntax.
    fault: FaultSpec,
    fault_text: String,
    subscribed: bool,
    slot: Option<u32>,
    groups: BTreeSet<McastGroup>,
    usage: Usage,
    /// Whether it has a ledger.
    ledger: bool,
}

/// Clients over a quota that stay connected to receive their refusal.
const DOOMED_CLIENTS_MAX: usize = 32;

/// State and decisions of the daemon.
#[derive(Debug)]
pub struct Broker {
    config: BrokerConfig,
    devices: Devices,
    slots: SlotTable,
    clients: BTreeMap<ClientId, Client>,
    next_client: ClientId,
    phase: Phase,
    started: Instant,
    idle_since: Option<Instant>,
    /// The fabric was taken down: the daemon leaves soon if nothing else needs it.
    leaves_soon: bool,
    cm: CmService,
    /// Connection managers of virtual hosts.
    host_cms: host_cm::HostCms,
    /// Number of the last opened event channel.
    last_channel: u32,
    /// Management datagrams of virtual hosts.
    umad: UmadService,
    /// Fabric that the ports of `umad` belong to.
    umad_generation: (bool, u64),
    /// Sessions that report running subnet managers, by port.
    sm_holders: SmHolders,
    /// The InfiniBand fabric, if one is up.
    fabric: FabricHost,
    /// Connections between processes.
    meetings: peer_requests::Meetings,
    /// Paths over the fabric that programs asked about.
    paths: path_requests::Paths,
    /// Multicast groups of the fabric that programs listen and send to.
    groups: group_requests::Groups,
    /// Cables of programs in packet mode.
    cables: Cables,
    /// Counters of ended processes on the machine.
    left: Left,
    /// Counters of ended processes on the fabric's hosts, by host name. They end with the fabric.
    left_on_hosts: BTreeMap<String, Left>,
    /// When processes were last asked to bring their ledgers up to date.
    ledgers_refreshed: Option<Instant>,
    /// Whether the state saved for a successor may have changed.
    changed: bool,
    output: VecDeque<Output>,
}

impl Broker {
    /// Makes a broker that knows of no interface yet.
    pub fn new(now: Instant, config: BrokerConfig) -> Broker {
        let phase = match config.survivors {
            true => Phase::Recovering { until: now + limits::RECOVERY_WAIT },
            false => Phase::Normal,
        };
        Broker {
            devices: Devices::new(config.namespace),
            config,
            slots: SlotTable::default(),
            clients: BTreeMap::new(),
            next_client: 1,
            phase,
            started: now,
            idle_since: Some(now),
            leaves_soon: false,
            cm: CmService::new(now, weft_sys::random::u64()),
            host_cms: host_cm::HostCms::new(),
            last_channel: 0,
            umad: UmadService::default(),
            umad_generation: (false, 0),
            sm_holders: SmHolders::default(),
            fabric: FabricHost::new(now),
            meetings: peer_requests::Meetings::default(),
            paths: path_requests::Paths::default(),
            groups: group_requests::Groups::default(),
            cables: Cables::default(),
            left: Left::default(),
            left_on_hosts: BTreeMap::new(),
            ledgers_refreshed: None,
            changed: true,
            output: VecDeque::new(),
        }
    }

    /// Returns the interfaces and devices. After changing them call [`Broker::refresh`].
    pub fn devices(&mut self) -> &mut Devices {
        &mut self.devices
    }

    /// Returns the machine's connection manager.
    pub fn cm(&mut self) -> &mut CmService {
        &mut self.cm
    }

    /// Withdraws from the host the connection managers' questions that no command waits for any more.
    pub fn forget_questions(&mut self, now: Instant, host: &mut impl Host) {
        for cm in self.all_cms_mut() {
            cm.forget_questions(now, host);
        }
    }

    /// Returns whether the result of [`Broker::save`] may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Sends the changes to subscribers.
    pub fn refresh(&mut self, now: Instant) {
        self.changed = true;
        let events = self.devices.refresh(self.slots.in_use() > 0);
        self.cm.follow(now, &self.devices);
        self.broadcast(&events);
        // A device that kept the daemon alive may have gone with its interface.
        self.update_idle(now);
    }

    /// Registers a connection. `None`: close it immediately, there are too many.
    pub fn connect(&mut self, now: Instant, credentials: Credentials) -> Option<ClientId> {
        let same_user = self.clients.values().filter(|client| client.credentials.uid == credentials.uid).count();
        let over = if self.clients.len() >= limits::CONNECTIONS_MAX {
            Some(format!("there are {} connections to it, the most there can be", limits::CONNECTIONS_MAX))
        } else if credentials.uid != 0 && same_user >= self.config.connections_per_user_max as usize {
            Some(format!(
                "user {} has {same_user} connections to it, the most that one user may have: end some of the programs",
                credentials.uid
            ))
        } else {
            None
        };
        let doomed = |client: &&Client| matches!(client.standing, Standing::New(Some(_)));
        if over.is_some() && self.clients.values().filter(doomed).count() >= DOOMED_CLIENTS_MAX {
            return None;
        }
        let id = self.next_client;
        self.next_client += 1;
        self.leaves_soon = false;
        self.clients.insert(
            id,
            Client {
                credentials,
                standing: Standing::New(over),
                program: String::new(),
                host: String::new(),
                fault: FaultSpec::default(),
                fault_text: String::new(),
                subscribed: false,
                slot: None,
                groups: BTreeSet::new(),
                usage: Usage::default(),
                ledger: false,
            },
        );
        self.update_idle(now);
        Some(id)
    }

    /// Removes a client and frees everything that its process held.
    pub fn disconnect(&mut self, now: Instant, id: ClientId, host: &mut impl Host) {
        self.changed = true;
        for cm in self.all_cms_mut() {
            cm.close_client(now, id, host);
        }
        self.leave_fabric(now, id, host);
        self.close_cable(now, id, host);
        self.fabric.forget(id);
        self.paths.forget(id);
        self.groups.forget(id);
        self.close_ledger(id, host);
        if let Some(client) = self.clients.remove(&id)
            && let Some(slot) = client.slot
        {
            self.part(id, slot, host);
            for group in client.groups {
                let _ = host.multicast(slot, group, false);
            }
            host.seal_slot(slot);
            host.retire_slot(id, slot);
            self.slots.release(now, slot);
            if !self.is_trusted(client.credentials.uid) {
                host.steer();
            }
        }
        self.update_idle(now);
    }

    /// Returns whether any client requests faults.
    pub fn any_faults(&self) -> bool {
        self.clients.values().any(|client| client.fault != FaultSpec::default())
    }

    /// Returns the faults for packets to this client; `None` for none.
    pub fn faults_of(&self, id: ClientId) -> Option<FaultSpec> {
        self.clients.get(&id).map(|client| client.fault).filter(|fault| *fault != FaultSpec::default())
    }

    /// Returns whether to accept descriptors that a client sends. Unwanted ones must not even enter this process, which
    /// would have to close them, and closing an untrusted file can block forever. It wants proofs of slots while a
    /// predecessor's programs come back, and later the anchor, which only trusted users have.
    pub fn accepts_descriptors(&self, id: ClientId) -> bool {
        let trusted = || self.clients.get(&id).is_some_and(|client| self.is_trusted(client.credentials.uid));
        self.phase != Phase::Normal || (self.slots.is_empty() && trusted())
    }

    /// Returns whether some processes with slots could not bring the pool to a successor, since the daemon does not
    /// trust them with it.
    pub fn needs_standby(&self) -> bool {
        self.clients.values().any(|client| client.slot.is_some() && !self.is_trusted(client.credentials.uid))
    }

    /// Returns whether any process has a slot.
    pub fn slots_in_use(&self) -> bool {
        self.slots.in_use() > 0
    }

    /// Takes over a predecessor's pool from an anchor that this process holds itself.
    pub fn inherit(&mut self, now: Instant, anchor: &OwnedFd, host: &mut impl Host) -> Result<(), Refusal> {
        self.adopt(now, anchor, host)
    }

    /// Returns whether the broker defers messages.
    pub fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovering { .. })
    }

    /// Takes the next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Returns when [`Broker::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Normal => None,
            Phase::Recovering { until } | Phase::Grace { until } => Some(until),
        };
        let idle = self.idle_since.and_then(|since| Some(since + self.patience()?));
        [
            phase,
            idle,
            self.cm.poll_timeout(),
            self.fabric.poll_timeout(),
            self.poll_umad_timeout(),
            self.poll_host_cm_timeout(),
            self.poll_cable_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut impl Host) {
        self.cm.handle_timeout(now);
        self.fabric.handle_timeout(now);
        self.handle_cable_timeout(now);
        match self.phase {
            Phase::Recovering { until } if now >= until => self.phase = Phase::Normal,
            Phase::Grace { until } if now >= until => {
                self.phase = Phase::Normal;
                self.changed = true;
                for slot in self.slots.waiting() {
                    host.seal_slot(slot);
                    self.slots.release(now, slot);
                }
            }
            _ => {}
        }
        if let (Some(since), Some(patience)) = (self.idle_since, self.patience())
            && now >= since + patience
        {
            self.output.push_back(Output::Stop);
        }
    }

    /// Returns the state that a successor needs.
    pub fn save(&self) -> Saved {
        let (next_device, devices) = self.devices.save();
        Saved { next_device, devices, slots: self.slots.save(), left: self.left.clone() }
    }

    /// Returns how long an unused daemon stays.
    fn patience(&self) -> Option<Duration> {
        let patience = self.config.idle_exit?;
        Some(if self.leaves_soon { patience.min(limits::DOWN_EXIT) } else { patience })
    }

    fn update_idle(&mut self, now: Instant) {
        let has_settings = self.devices.any_settings() || self.cm.has_settings();
        let needed = !self.clients.is_empty() || has_settings || self.fabric.running().is_some();
        self.idle_since = match (needed, self.idle_since) {
            (true, _) => None,
            (false, since) => since.or(Some(now)),
        };
    }

    /// Returns whether a user may see all sockets and change devices: root, and the user who runs the daemon (and could
    /// do it anyway).
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || (uid == self.config.uid && self.config.uid_is_ours_alone)
    }

    fn broadcast(&mut self, events: &[Event]) {
        for event in events {
            let about = match event {
                Event::DeviceChanged(info) => Some(info.index),
                Event::DeviceRemoved { index } => Some(*index),
                Event::PeerCame { .. } | Event::PeerGone { .. } | Event::PathChanged { .. } => None,
                Event::GroupChanged { .. } => None,
                Event::RefreshLedger | Event::Disconnected | Event::Overrun => None,
            };
            let Ok(bytes) = encode(&DaemonFrame::Event(event.clone())) else { continue };
            for (&client, _) in self.clients.iter().filter(|(_, client)| client.subscribed) {
                let attach = Attach::default();
                self.output.push_back(Output::Send { client, bytes: bytes.clone(), attach, about });
            }
        }
    }
}
