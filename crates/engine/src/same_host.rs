//! The way to the other processes of this host. Ours publishes itself when it gets its slot, and meets another when a
//! queue pair is to be connected to it, when it has a datagram for it, or when the other has met ours. `WEFT_LOOPBACK`,
//! `WEFT_FAULT` and `WEFT_PCAP` can have packets instead: then ours publishes nothing, and nobody meets it.

use std::os::fd::{AsFd, OwnedFd};

use parking_lot::MutexGuard;
use weft_ipc::{PeerMet, RequestError};
use weft_link::shm::{Host, HostConfig, PeerConfig, board_file, find_board};
use weft_transport::same_host::PeerId;
use weft_verbs::{Gid, QPN_INDEX_BITS, QpAttr, QpAttrMask, QpId, QpState, VerbsError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::pump::Pump;
use crate::session::{Change, Session};

/// EALREADY: whoever else of ours asked has met it.
const MET_ALREADY: i32 = 114;

impl Engine {
    /// Move a queue pair from state to state and set its attributes. If it is to be connected to one of this host, no
    /// packets pass between the two.
    ///
    /// # Errors
    /// What the adapter refuses; the peer's process could not be met.
    pub fn modify_qp(&self, id: QpId, attr: &QpAttr, mask: QpAttrMask) -> Result<(), VerbsError> {
        let needed = QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::DEST_QPN;
        let connects = mask.contains(needed) && attr.qp_state == QpState::Rtr;
        let way = match connects {
            true => self.quietly(|hca, _| Ok((hca.qpn(id)?, hca.fabric_way(id, attr, mask)))).ok(),
            false => None,
        };
        let peer = match (way, attr.av) {
            (Some((qpn, Some(way))), _) => self.fabric_neighbour(qpn, way)?,
            (Some((qpn, None)), Some(av)) => {
                self.leaves_fabric(qpn);
                self.neighbour(av.dgid, attr.dest_qpn >> QPN_INDEX_BITS)?
            }
            _ => None,
        };
        if peer.is_some() {
            self.share_registered();
        }
        if mask.contains(QpAttrMask::STATE) && matches!(attr.qp_state, QpState::Err | QpState::Reset) {
            self.settle_acknowledgements(id)?;
        }
        self.with(|hca, now| hca.modify_qp_local(now, id, attr, mask, peer))
    }

    /// Sends the acknowledgements that a queue pair owes, and takes in those that have arrived for it. An adapter does both
    /// at once, so a message that the peer received has completed there before either end can disconnect.
    fn settle_acknowledgements(&self, id: QpId) -> Result<(), VerbsError> {
        self.enter(|pump, now| {
            pump.hca.release_acks(now, Some(id));
            pump.turn(now, true);
            Ok(())
        })
    }

    /// The process of a slot, if the address is of this host and the process can be met.
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
            // What it wants now it can do without; the next that needs the daemon says why there is none.
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

    /// Meet the process of a slot, if it can be met.
    pub(crate) fn meet(&self, session: &mut Session, slot: u32) -> Result<Option<PeerId>, EngineError> {
        let known = |engine: &Engine| engine.with_host(|host| host.number_of_slot(slot)).flatten();
        if let Some(known) = known(self) {
            return Ok(Some(known));
        }
        let met = match session.client().meet_peer(slot, None) {
            Err(RequestError::Disconnected | RequestError::Io(_)) => {
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
        let (board, arena) = shared.unzip();
        let found = match (&board, &bell, &process) {
            // A daemon of another user hands no boards out: those of our user find each other's themselves.
            (None, None, Some(process)) => find_board(process, slot, generation),
            _ => None,
        };
        let (is_found, board) = (found.is_some(), found.or(board));
        let config = PeerConfig { slot, generation, pair, doorbell, bell, process, board, found: is_found, arena };
        let mut guard = self.handover.lock(&self.pump);
        let Some(pump) = guard.as_mut() else { return Ok(None) };
        let Some(host) = pump.hca.memory().same_host.host() else { return Ok(None) };
        let peer = host.attach(config)?;
        pump.hca.open_lanes();
        // Frames may wait in its lane: whoever sleeps did not look there.
        self.handover.wake();
        self.leave(guard);
        Ok(Some(peer))
    }

    /// Do something with what is shared with the host's other processes, if anything is.
    fn with_host<R>(&self, f: impl FnOnce(&mut Host) -> R) -> Option<R> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.handover.lock(&self.pump);
        let result = guard.as_mut().and_then(|pump| pump.hca.memory().same_host.host()).map(f);
        self.handover.unlock(guard);
        result
    }

    /// Publish our process, which has just got its slot.
    pub(crate) fn publish(&self, session: &mut Session, pump: &mut Pump, slot: u32) -> Result<(), EngineError> {
        let generation = weft_sys::random::u64();
        // Before anybody can meet us: with neither board nothing could be read from our lanes.
        let own_board = board_file();
        let published = session.publish_process(generation, own_board.is_ok())?;
        let doorbell = published.doorbell.try_clone()?;
        let board = published.shared.as_ref().map(|(board, _)| board.try_clone()).transpose()?;
        let board = board.or(own_board.ok());
        if let Some((_, arena)) = &published.shared {
            self.sharing.set_file(arena.try_clone()?);
        }
        let host = Host::new(HostConfig { slot, generation, doorbell, board })?;
        pump.hca.memory().same_host.set_host(host);
        Ok(())
    }

    /// From the first queue pair on that is connected within the host, registered pages are shared; and the board says
    /// which, before anybody may use them.
    fn share_registered(&self) {
        if !self.share_all() {
            return;
        }
        let keys = self.with_host(|host| host.keys()).unwrap_or_default();
        let extents: std::collections::BTreeMap<(u64, u64), _> =
            keys.into_iter().map(|(addr, len)| ((addr, len), self.extent(addr, len))).collect();
        let mut guard = self.handover.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.memory().same_host.share_late(|addr, len| extents.get(&(addr, len)).copied().flatten());
        }
        self.handover.unlock(guard);
    }

    /// What the daemon told of other processes.
    pub(crate) fn greet(&self, session: &mut Session, changes: &[Change]) {
        for change in changes {
            if let Change::Came(slot) = *change
                && let Err(error) = self.meet(session, slot)
            {
                crate::log::note(&format!("the process of slot {slot} was not met: {error}"));
            }
        }
    }

    /// Take in what the daemon told while it was asked something: nothing else shows that it waits.
    pub(crate) fn attend(&self, session: &mut Session) {
        while session.client().has_events() {
            let changes = session.changes();
            self.apply(&changes);
            self.greet(session, &changes);
        }
    }

    /// Meet those that somebody had datagrams for.
    pub(crate) fn meet_wanted(&self, session: &mut Session) {
        self.ask_wanted_ways(session);
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

    /// A new daemon does not know of pairs that their other ends had not come for.
    pub(crate) fn rejoin(&self, session: &mut Session) {
        if !session.is_published() {
            return;
        }
        let copy = |host: &mut Host| -> Vec<(u32, OwnedFd)> {
            host.unused_pairs().filter_map(|(slot, pair)| Some((slot, pair.try_clone_to_owned().ok()?))).collect()
        };
        for (slot, pair) in self.with_host(copy).unwrap_or_default() {
            // Whoever does not come back has left, which its process tells.
            let _ = session.client().meet_peer(slot, Some(pair.as_fd()));
        }
        self.attend(session);
    }
}
