//! State that several features share: the sessions, the devices, the slots, the fabric, and how long the daemon stays.

use std::time::{Duration, Instant};

use weft_fabric::PortRef;
use weft_ipc::{DeviceInfo, Refusal};

use super::config::BrokerConfig;
use super::sessions::Sessions;
use crate::devices::Devices;
use crate::ethernet::EthernetNetwork;
use crate::fabric::FabricHost;
use crate::limits;
use crate::refusal::{ENODEV, EPERM, refuse};
use crate::slots::{ClientId, SlotTable};
use crate::umad;

/// Where the daemon stands after the death of a predecessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Normal,
    Recovering { until: Instant },
    Grace { until: Instant },
}

/// State that several features share. Each feature owns the rest of its state in its own struct.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: BrokerConfig,
    pub sessions: Sessions,
    pub devices: Devices,
    pub slots: SlotTable,
    /// The InfiniBand fabric, if one is up.
    pub fabric: FabricHost,
    /// The Ethernet network, if one is up.
    pub ethernet: Option<EthernetNetwork>,
    /// The Ethernet network whose hosts are being made.
    pub ethernet_start: Option<EthernetStart>,
    pub started: Instant,
    pub phase: Phase,
    pub stay: Stay,
    /// Whether the state saved for a successor may have changed.
    pub changed: bool,
}

/// An Ethernet network on its way up: its hosts are made a few at a time, and other requests are answered in between.
#[derive(Debug)]
pub(super) struct EthernetStart {
    pub network: EthernetNetwork,
    /// The client whose request waits for it.
    pub client: ClientId,
    /// Number of the next host to make.
    pub next: u32,
    /// Since when the next hosts may be made.
    pub due: Instant,
    /// Whether another client took the network down meanwhile.
    pub is_cancelled: bool,
}

/// How long an unused daemon stays.
#[derive(Debug)]
pub(super) struct Stay {
    idle_since: Option<Instant>,
    /// The fabric was taken down: the daemon leaves soon if nothing else needs it.
    pub leaves_soon: bool,
}

impl Stay {
    /// Records whether anything needs the daemon.
    pub fn update(&mut self, now: Instant, needed: bool) {
        self.idle_since = match (needed, self.idle_since) {
            (true, _) => None,
            (false, since) => since.or(Some(now)),
        };
    }

    /// Returns when the daemon leaves, given how long an unused one stays.
    pub fn until(&self, idle_exit: Option<Duration>) -> Option<Instant> {
        let patience = idle_exit?;
        let patience = if self.leaves_soon { patience.min(limits::DOWN_EXIT) } else { patience };
        Some(self.idle_since? + patience)
    }
}

impl Shared {
    pub fn new(now: Instant, config: BrokerConfig) -> Shared {
        let phase = match config.survivors {
            true => Phase::Recovering { until: now + limits::RECOVERY_WAIT },
            false => Phase::Normal,
        };
        Shared {
            devices: Devices::new(config.namespace),
            config,
            sessions: Sessions::new(),
            slots: SlotTable::default(),
            fabric: FabricHost::new(now),
            ethernet: None,
            ethernet_start: None,
            started: now,
            phase,
            stay: Stay { idle_since: Some(now), leaves_soon: false },
            changed: true,
        }
    }

    /// Returns whether requests wait for a predecessor's programs.
    pub fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovering { .. })
    }

    /// Returns whether a user may see all sockets and change devices: root, and the user who runs the daemon (and could
    /// do it anyway).
    pub fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || (uid == self.config.uid && self.config.uid_is_ours_alone)
    }

    /// Refuses clients of untrusted users; `what` completes "may not".
    pub fn must_be_trusted(&self, id: ClientId, what: &str) -> Result<(), Refusal> {
        let uid = self.sessions.uid(id);
        if self.is_trusted(uid) {
            return Ok(());
        }
        let text = format!("user {uid} may not {what}: only root and user {}, who runs the daemon", self.config.uid);
        Err(refuse(EPERM, text))
    }

    /// Returns the full name of the virtual host that a program names; else the message for the person.
    pub fn host_called(&self, host: &str) -> Result<String, String> {
        match &self.ethernet {
            Some(ethernet) => ethernet.host_called(host),
            None => self.fabric.host_called(host),
        }
    }

    /// Returns the adapters of a virtual host.
    pub fn devices_of_host(&self, host: &str) -> Vec<DeviceInfo> {
        let generation = self.fabric.generation();
        let described = self.fabric.running().and_then(|running| {
            let adapters = running.adapters(host)?;
            Some(umad::describe(running.fabric(), running.topology(), generation, host, adapters))
        });
        described.unwrap_or_default()
    }

    /// Returns the port that a program's device and port number name.
    pub fn host_port(&mut self, id: ClientId, device: u32, port: u8) -> Result<PortRef, Refusal> {
        let host = self.sessions.host(id).unwrap_or_default().to_owned();
        let generation = self.fabric.generation();
        let running = self.fabric.required()?;
        let adapters = running.adapters(&host).unwrap_or_default();
        let found = umad::port_of(generation, adapters, device, port);
        found
            .filter(|port| running.fabric().port_info(*port).is_some())
            .ok_or_else(|| refuse(ENODEV, format!("host {host:?} has no such port: `ibstat` shows what it has")))
    }
}
