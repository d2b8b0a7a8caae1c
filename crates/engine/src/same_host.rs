//! Connections to the other processes of this host. The process publishes itself when it gets its slot. It meets
//! another process when a queue pair connects to it, when the daemon says so of an iWARP connection, when a datagram for
//! it waits, or when the other process has met this one. `WEFT_LOOPBACK`, `WEFT_FAULT` and `WEFT_PCAP` can force packets instead: then the process publishes
//! nothing and cannot be met.

use std::os::fd::{AsFd, OwnedFd};

use parking_lot::MutexGuard;
use weft_ipc::{PeerMet, RequestError};
use weft_link::shm::{Host, HostConfig, PeerConfig, directory_file, find_directory};
use weft_transport::peers::PeerId;
use weft_verbs::{Gid, QPN_INDEX_BITS, QpAttr, QpAttrMask, QpId, QpState, VerbsError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::pump::Pump;
use crate::session::Session;

/// EALREADY: another thread of this process has met it.
const MET_ALREADY: i32 = 114;

impl Engine {
    /// Moves a queue pair to another state and sets its attributes. If its peer is on this host, no packets pass
    /// between the two.
    ///
    /// # Errors
    /// The adapter refuses; the peer's process cannot be met.
    pub fn modify_qp(&self, id: QpId, attr: &QpAttr, mask: QpAttrMask) -> Result<(), VerbsError> {
        let needed = QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::DEST_QPN;
        let connects = mask.contains(needed) && attr.qp_state == QpState::Rtr;
        let way = match connects {
            true => self.query(|hca, _| Ok((hca.qpn(id)?, hca.fabric_path(id, attr, mask)))).ok(),
            false => None,
        };
        let goes_by_hops = connects && self.query(|hca, _| Ok(hca.goes_by_hops(id, attr, mask)))?;
        let peer = match (way, attr.av) {
            (Some((qpn, Some(way))), _) => self.fabric_neighbour(qpn, way)?,
            (Some((qpn, None)), Some(av)) => {
                self.leaves_fabric(qpn);
                if goes_by_hops { None } else { self.neighbour(av.dgid, attr.dest_qpn >> QPN_INDEX_BITS)? }
            }
            _ => None,
        };
        // Of an iWARP queue pair's peer, the connection manager tells at this point alone that it is on this host.
        let is_told = mask.contains(QpAttrMask::STATE | QpAttrMask::DEST_QPN) && !mask.contains(QpAttrMask::AV);
        if peer.is_some() || is_told && self.query(|hca, _| Ok(hca.is_iwarp(id)))? {
            self.share_registered();
        }
        if mask.contains(QpAttrMask::STATE) && matches!(attr.qp_state, QpState::Err | QpState::Reset) {
            self.settle_acknowledgements(id)?;
        }
        self.with(|hca, now| hca.modify_qp_local(now, id, attr, mask, peer))
    }

    /// Sends the acknowledgements that a queue pair owes, and processes those that have arrived for it. A hardware
    /// adapter does both at once, so a message that the peer received has completed there before either end can
    /// disconnect.
    fn settle_acknowledgements(&self, id: QpId) -> Result<(), VerbsError> {
        self.enter(|pump, now| {
            pump.hca.release_acks(now, Some(id));
            pump.turn(now, true);
            Ok(())
        })
    }

    /// Returns the process of a slot, if the address is of this host and the process can be met.
    fn neighbour(&self, gid: Gid, slot: u32) -> Result<Option<PeerId>, VerbsError> {
        if self.is_dead() || slot == 0 {
            return Ok(None);
        }
        let mut session = self.session.lock();
        if !session.is_published() || !session.devices().iter().any(|device| device.owns(gid)) {
            return Ok(None);
        }
        let met = self.meet(&mut session, slot);
        self.attend(&mut session);
        if !session.is_connected() {
            // The connection can be made without the daemon; the next call that needs it reports why there is none.
            let _ = self.refresh(&mut session);
        }
        met.map_err(|error| {
            crate::log::note(&format!(
                "the process of queue pairs {:#x}.. was not met: {error}",
                slot << QPN_INDEX_BITS
            ));
            VerbsError::AddressUnreachable("the peer's process is on this host, and could not be met")
        })
    }

    /// Meets the process of a slot, if possible.
    pub(crate) fn meet(&self, session: &mut Session, slot: u32) -> Result<Option<PeerId>, EngineError> {
        let known = |engine: &Engine| engine.with_host(|host| host.number_of_slot(slot)).flatten();
        if let Some(known) = known(self) {
            return Ok(Some(known));
        }
        let met = match session.client().meet_peer(slot, None) {
            Err(RequestError::Disconnected | RequestError::Silent { .. } | RequestError::Io(_)) => {
                self.refresh(session)?;
                session.client().meet_peer(slot, None)
            }
            result => result,
        };
        match met {
            Ok(Some(met)) => self.attach(slot, met),
            Ok(None) => {
                self.with_host(|host| host.on_refused(slot));
                Ok(None)
            }
            Err(RequestError::Refused(refusal)) if refusal.errno == MET_ALREADY && known(self).is_some() => {
                Ok(known(self))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn attach(&self, slot: u32, met: PeerMet) -> Result<Option<PeerId>, EngineError> {
        let PeerMet { generation, pair, doorbell, bell, process, shared } = met;
        let (directory, arena) = shared.unzip();
        let found = match (&directory, &bell, &process) {
            // A daemon of another user hands out no key directories: processes of the same user find each other's key
            // directories themselves.
            (None, None, Some(process)) => find_directory(process, slot, generation),
            _ => None,
        };
        let (is_found, directory) = (found.is_some(), found.or(directory));
        let config = PeerConfig { slot, generation, pair, doorbell, bell, process, directory, found: is_found, arena };
        let mut guard = self.driver.lock(&self.pump);
        let Some(pump) = guard.as_mut() else { return Ok(None) };
        let Some(host) = pump.hca.peers().host() else { return Ok(None) };
        let peer = host.attach(config)?;
        pump.hca.open_rings();
        // Frames may wait in its ring: a sleeping thread has not checked it.
        self.driver.wake();
        self.leave(guard);
        Ok(Some(peer))
    }

    /// Runs `f` on the shared-memory host, if there is one.
    fn with_host<R>(&self, f: impl FnOnce(&mut Host) -> R) -> Option<R> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.driver.lock(&self.pump);
        let result = guard.as_mut().and_then(|pump| pump.hca.peers().host()).map(f);
        self.driver.unlock(guard);
        result
    }

    /// Publishes this process, which has just got its slot.
    pub(crate) fn publish(&self, session: &mut Session, pump: &mut Pump, slot: u32) -> Result<(), EngineError> {
        let generation = weft_sys::random::u64();
        // Before any process can meet this one: with neither key directory, this process could not read its rings.
        let own_directory = directory_file();
        let published = session.publish_process(generation, own_directory.is_ok())?;
        let doorbell = published.doorbell.try_clone()?;
        let directory = published.shared.as_ref().map(|(directory, _)| directory.try_clone()).transpose()?;
        let directory = directory.or(own_directory.ok());
        if let Some((_, arena)) = &published.shared {
            self.sharing.set_file(arena.try_clone()?);
        }
        let host = Host::new(HostConfig { slot, generation, doorbell, directory })?;
        pump.hca.peers().set_host(host);
        Ok(())
    }

    /// Shares registered pages from the first queue pair on that connects within the host. The key directory announces
    /// them before any peer may use them.
    fn share_registered(&self) {
        if !self.share_all() {
            return;
        }
        let keys = self.with_host(|host| host.keys()).unwrap_or_default();
        let extents: std::collections::BTreeMap<(u64, u64), _> =
            keys.into_iter().map(|(addr, len)| ((addr, len), self.extent(addr, len))).collect();
        let mut guard = self.driver.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.peers().share_late(|addr, len| extents.get(&(addr, len)).copied().flatten());
        }
        self.driver.unlock(guard);
    }

    /// Meets the processes of the host that have met this one.
    pub(crate) fn greet(&self, session: &mut Session, slots: &[u32]) {
        for &slot in slots {
            if let Err(error) = self.meet(session, slot) {
                crate::log::note(&format!("the process of slot {slot} was not met: {error}"));
            }
        }
    }

    /// Handles messages that the daemon sent during a request: nothing else shows that they wait.
    pub(crate) fn attend(&self, session: &mut Session) {
        while session.client().has_events() {
            let met = self.hear(session);
            self.greet(session, &met);
        }
    }

    /// Meets the processes that datagrams wait for.
    pub(crate) fn meet_wanted(&self, session: &mut Session) {
        self.ask_wanted_paths(session);
        let wanted_before = self.with_host(|host| host.wants_to_meet()).unwrap_or_default();
        for slot in self.with_host(Host::take_wanted).unwrap_or_default() {
            let may = session.is_published() && session.is_connected();
            if !may || self.meet(session, slot).is_err() {
                self.with_host(|host| host.on_refused(slot));
            }
        }
        if wanted_before {
            self.release_datagrams();
        }
        self.attend(session);
    }

    /// Offers to a new daemon, which does not know them, the pairs that their other ends have not joined yet.
    pub(crate) fn rejoin(&self, session: &mut Session) {
        if !session.is_published() {
            return;
        }
        let copy = |host: &mut Host| -> Vec<(u32, OwnedFd)> {
            host.unused_pairs().filter_map(|(slot, pair)| Some((slot, pair.try_clone_to_owned().ok()?))).collect()
        };
        for (slot, pair) in self.with_host(copy).unwrap_or_default() {
            // A peer that does not come back has left; its process's end shows that.
            let _ = session.client().meet_peer(slot, Some(pair.as_fd()));
        }
        self.attend(session);
    }
}
