//! The InfiniBand fabric as a process of a virtual host knows it: which of its paths are open. Data goes through rings
//! and direct copies as between any processes of one host, as long as the daemon says that packets would arrive. On a
//! closed path it is lost, and the queue pair's own timers notice.

use parking_lot::MutexGuard;
use weft_hca::RefusedKey;
use weft_hca::paths::FabricPath;
use weft_ipc::{
    FABRIC_PATHS_PER_MESSAGE_MAX, GroupReply, KEY_VIOLATIONS_PER_MESSAGE_MAX, KeyViolation, LostPackets, PathReply,
    PathRequest, PathTraffic,
};
use weft_transport::Passed;
use weft_transport::peers::PeerId;
use weft_verbs::{Qpn, VerbsError};

use crate::clock;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::known_paths::KnownPaths;
use crate::pump::Pump;
use crate::session::Session;

/// Whether a path leads to a group.
fn is_group(path: &FabricPath) -> bool {
    path.slot == 0
}

fn request_of(path: &FabricPath) -> PathRequest {
    let FabricPath { device, port, dlid, dgid, sl, pkey, mtu, slot, there_and_back } = *path;
    PathRequest { device: device.0, port, dlid, dgid: dgid.0, sl, pkey, mtu, slot, there_and_back }
}

impl Engine {
    /// Returns the process that a queue pair will connect to over the fabric, if it is on the host with the given LID.
    pub(crate) fn fabric_neighbour(&self, qpn: Qpn, path: FabricPath) -> Result<Option<PeerId>, VerbsError> {
        if self.is_dead() {
            return Ok(None);
        }
        let mut session = self.session.lock();
        let reply = match self.ask_path(&mut session, path) {
            Ok(reply) => reply,
            Err(error) => {
                let to = if path.dlid == 0 { format!("GID {}", path.dgid) } else { format!("LID {}", path.dlid) };
                crate::log::note(&format!("no path over the fabric to {to}: {error}"));
                return Err(VerbsError::AddressUnreachable("the daemon does not say whether packets arrive"));
            }
        };
        self.set_qp_path(qpn, Some(reply));
        if !reply.meets || !session.is_published() || path.slot == 0 {
            return Ok(None);
        }
        let met = self.meet(&mut session, path.slot);
        self.attend(&mut session);
        // A process that cannot be met counts as unreachable, as if its host were down.
        Ok(met.unwrap_or_else(|error| {
            crate::log::note(&format!("the process of slot {} was not met: {error}", path.slot));
            None
        }))
    }

    /// Sets the path of a queue pair; `None` takes it off the fabric.
    fn set_qp_path(&self, qpn: Qpn, reply: Option<PathReply>) {
        let mut guard = self.driver.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.paths().set_qp(qpn, reply.map(|reply| reply.path));
            pump.hca.set_path_open(qpn, reply.is_none_or(|reply| reply.open));
            if let (Some(record), Some(reply)) = (&pump.record, reply) {
                record.fabric_path(clock::now(), qpn, reply.open);
            }
        }
        self.driver.unlock(guard);
    }

    /// Takes a newly connected queue pair off the fabric: a destroyed queue pair of the same number may have been on
    /// one.
    pub(crate) fn leaves_fabric(&self, qpn: Qpn) {
        self.set_qp_path(qpn, None);
    }

    fn ask_path(&self, session: &mut Session, path: FabricPath) -> Result<PathReply, EngineError> {
        let reply = session.client().path(request_of(&path))?;
        self.with_paths(|paths| paths.learn(path, reply));
        Ok(reply)
    }

    /// Requests the paths that datagrams wait for, and meets the processes at their ends.
    pub(crate) fn ask_wanted_paths(&self, session: &mut Session) {
        let wanted = self.with_paths(KnownPaths::take_wanted).unwrap_or_default();
        if wanted.is_empty() {
            return;
        }
        // Datagrams sent to a group so far went to the group's current members in the daemon's view: report them first.
        let traffic = if wanted.iter().any(is_group) { self.take_traffic() } else { Vec::new() };
        tell_traffic(session, traffic);
        for path in wanted {
            if is_group(&path) {
                self.ask_group(session, path);
                continue;
            }
            let closed = PathReply { path: u32::MAX, open: false, meets: false };
            match self.ask_path(session, path) {
                Ok(reply) if reply.meets => {
                    if let Err(error) = self.meet(session, path.slot) {
                        crate::log::note(&format!("the process of slot {} was not met: {error}", path.slot));
                    }
                }
                Ok(_) => {}
                Err(_) => drop(self.with_paths(|paths| paths.learn(path, closed))),
            }
        }
        self.release_datagrams();
    }

    /// Asks the daemon where a group's packets arrive, and meets the processes that listen there.
    fn ask_group(&self, session: &mut Session, path: FabricPath) {
        let nobody = GroupReply { path: u32::MAX, slots: Vec::new() };
        let reply = session.client().group_path(request_of(&path)).unwrap_or_else(|error| {
            crate::log::note(&format!("no path over the fabric to the group {:#x}: {error}", path.dlid));
            nobody
        });
        for slot in &reply.slots {
            if let Err(error) = self.meet(session, *slot) {
                crate::log::note(&format!("the process of slot {slot} was not met: {error}"));
            }
        }
        self.with_paths(|paths| paths.learn_group(path, reply));
    }

    /// Releases datagrams that waited for path information: they go out or are lost.
    pub(crate) fn release_datagrams(&self) {
        let mut guard = self.driver.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.release_datagrams();
            pump.hca.open_rings();
        }
        self.leave(guard);
    }

    fn take_traffic(&self) -> Vec<PathTraffic> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.driver.lock(&self.pump);
        let traffic = guard.as_mut().map(Pump::take_fabric_traffic);
        self.driver.unlock(guard);
        traffic.unwrap_or_default()
    }

    fn with_paths<R>(&self, f: impl FnOnce(&mut KnownPaths) -> R) -> Option<R> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.driver.lock(&self.pump);
        let result = guard.as_mut().map(|pump| f(pump.hca.paths()));
        self.driver.unlock(guard);
        result
    }
}

impl Pump {
    /// Handles the daemon's message that a path opened or closed.
    pub(crate) fn on_path_changed(&mut self, path: u32, open: bool) {
        for qpn in self.hca.paths().on_changed(path, open) {
            self.hca.set_path_open(qpn, open);
            if let Some(record) = &self.record {
                record.fabric_path(clock::now(), qpn, open);
            }
        }
    }

    /// Handles the loss of the daemon: every path is closed.
    pub(crate) fn on_fabric_lost(&mut self) {
        if let Some(record) = &self.record {
            record.fabric_lost(clock::now());
        }
        for qpn in self.hca.paths().on_lost() {
            self.hca.set_path_open(qpn, false);
        }
    }

    /// Takes the fabric traffic counted since the last call.
    pub(crate) fn take_fabric_traffic(&mut self) -> Vec<PathTraffic> {
        let (qps, datagrams) = (self.hca.take_passed(), self.hca.take_passed_datagrams());
        let paths = self.hca.paths();
        let of_qps = qps.into_iter().filter_map(|(qpn, passed)| Some(traffic(paths.number_of_qp(qpn)?, passed)));
        let of_datagrams =
            datagrams.into_iter().filter_map(|(path, passed)| Some(traffic(paths.number_of(&path)?, passed)));
        of_qps.chain(of_datagrams).collect()
    }
}

fn traffic(path: u32, passed: Passed) -> PathTraffic {
    let Passed { packets, bytes, packets_back, bytes_back } = passed;
    PathTraffic { path, packets, bytes, packets_back, bytes_back }
}

/// Losses on the fabric, in the daemon's format.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    lost: Vec<LostPackets>,
    keys: Vec<KeyViolation>,
}

impl Losses {
    /// Whether there are no losses.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.keys.is_empty()
    }

    /// Appends more losses.
    pub fn extend(&mut self, more: Losses) {
        self.lost.extend(more.lost);
        self.keys.extend(more.keys);
    }
}

impl Pump {
    /// Takes the losses on the fabric since the last call.
    pub(crate) fn take_fabric_losses(&mut self) -> Losses {
        let keys = self.hca.take_key_violations().iter().map(violation).collect();
        let (frames, datagrams) = (self.hca.take_lost_frames(), self.hca.take_lost_datagrams());
        let paths = self.hca.paths();
        let frames = frames.into_iter().filter_map(|((src_qp, dest_qp), packets)| {
            let path = paths.number_of_qp(src_qp)?;
            Some(LostPackets { path, src_qp, dest_qp, packets, bytes: 0 })
        });
        let datagrams = datagrams.into_iter().filter_map(|((path, src_qp, dest_qp), passed)| {
            let path = paths.number_of(&path)?;
            Some(LostPackets { path, src_qp, dest_qp, packets: passed.packets, bytes: passed.bytes })
        });
        Losses { lost: frames.chain(datagrams).collect(), keys }
    }
}

fn violation(refused: &weft_hca::KeyViolation) -> KeyViolation {
    let (is_qkey, key) = match refused.key {
        RefusedKey::Pkey(key) => (false, key.into()),
        RefusedKey::Qkey(key) => (true, key),
    };
    let weft_hca::KeyViolation { device, port, slid, dlid, sl, src_qp, dest_qp, gids, .. } = *refused;
    let gids = gids.map(|gids| gids.map(|gid| gid.0));
    KeyViolation { device: device.0, port, slid, dlid, sl, is_qkey, key, src_qp, dest_qp, gids }
}

/// Reports losses to the daemon.
pub(crate) fn tell_losses(session: &mut Session, losses: Losses) {
    for part in losses.lost.chunks(FABRIC_PATHS_PER_MESSAGE_MAX) {
        let _ = session.client().lost_packets(part.to_vec());
    }
    for part in losses.keys.chunks(KEY_VIOLATIONS_PER_MESSAGE_MAX) {
        let _ = session.client().key_violations(part.to_vec());
    }
}

/// Reports fabric traffic to the daemon. Traffic that the daemon does not receive is not counted.
pub(crate) fn tell_traffic(session: &mut Session, traffic: Vec<PathTraffic>) {
    for part in traffic.chunks(FABRIC_PATHS_PER_MESSAGE_MAX) {
        let _ = session.client().path_traffic(part.to_vec());
    }
}
