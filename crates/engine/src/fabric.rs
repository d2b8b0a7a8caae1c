//! The InfiniBand fabric as this process knows it, if it runs as a virtual host: which ways over it are open. Data goes
//! through lanes and direct copies as between any processes of one host, as long as the daemon says that packets would
//! arrive; where they would not, what is sent is lost, and the queue pair's own timers tell.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::MutexGuard;
use weft_ipc::{FABRIC_PATHS_PER_MESSAGE_MAX, PathReply, PathRequest, PathTraffic};
use weft_transport::Passed;
use weft_transport::same_host::{FabricWay, PeerId};
use weft_verbs::{Qpn, VerbsError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::pump::Pump;
use crate::session::Session;

/// Ways that wait to be asked for.
const WANTED_MAX: usize = 1024;

/// What is known of ways over the fabric.
#[derive(Debug, Default)]
pub struct FabricWays {
    ways: BTreeMap<FabricWay, PathReply>,
    /// The way of each connected queue pair.
    of_qps: BTreeMap<Qpn, u32>,
    /// Connected queue pairs whose way is closed.
    closed: BTreeSet<Qpn>,
    /// Ways that somebody has datagrams for.
    wanted: BTreeSet<FabricWay>,
}

impl FabricWays {
    /// Whether what a connected queue pair sends is lost.
    #[inline]
    pub fn loses(&self, qpn: Qpn) -> bool {
        !self.closed.is_empty() && self.closed.contains(&qpn)
    }

    /// What is known of a way; one that is not known is asked for.
    pub fn find(&mut self, way: &FabricWay) -> Option<PathReply> {
        let found = self.ways.get(way).copied();
        if found.is_none() && self.wanted.len() < WANTED_MAX {
            self.wanted.insert(*way);
        }
        found
    }

    /// Whether there are ways to be asked for.
    #[inline]
    pub fn wants(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn take_wanted(&mut self) -> Vec<FabricWay> {
        std::mem::take(&mut self.wanted).into_iter().collect()
    }

    fn learn(&mut self, way: FabricWay, reply: PathReply) {
        self.ways.insert(way, reply);
    }

    /// A queue pair goes this way from now on, or none over a fabric.
    fn set_qp(&mut self, qpn: Qpn, reply: Option<PathReply>) {
        match reply {
            Some(reply) => self.of_qps.insert(qpn, reply.path),
            None => self.of_qps.remove(&qpn),
        };
        match reply {
            Some(reply) if !reply.open => self.closed.insert(qpn),
            _ => self.closed.remove(&qpn),
        };
    }

    /// The daemon says that a way opened or closed.
    pub fn on_changed(&mut self, path: u32, open: bool) {
        for reply in self.ways.values_mut().filter(|reply| reply.path == path) {
            reply.open = open;
        }
        for (qpn, _) in self.of_qps.iter().filter(|(_, of)| **of == path) {
            if open {
                self.closed.remove(qpn);
            } else {
                self.closed.insert(*qpn);
            }
        }
    }

    /// The daemon is gone, and its fabric with it.
    pub fn on_lost(&mut self) {
        self.ways.clear();
        self.closed.extend(self.of_qps.keys());
    }

    fn traffic(&self, path: u32, passed: Passed) -> PathTraffic {
        let Passed { packets, bytes, packets_back, bytes_back } = passed;
        PathTraffic { path, packets, bytes, packets_back, bytes_back }
    }
}

fn request_of(way: &FabricWay) -> PathRequest {
    let FabricWay { device, port, dlid, sl, pkey, mtu, slot, there_and_back } = *way;
    PathRequest { device: device.0, port, dlid, sl, pkey, mtu, slot, there_and_back }
}

impl Engine {
    /// The process that a queue pair is to be connected to over the fabric, if it is on the host whose LID is named.
    pub(crate) fn fabric_neighbour(&self, qpn: Qpn, way: FabricWay) -> Result<Option<PeerId>, VerbsError> {
        if self.is_dead() {
            return Ok(None);
        }
        let mut session = self.session.lock();
        let reply = match self.ask_way(&mut session, way) {
            Ok(reply) => reply,
            Err(error) => {
                crate::log::note(&format!("no way over the fabric to LID {}: {error}", way.dlid));
                return Err(VerbsError::AddressUnreachable("the daemon does not say whether packets arrive"));
            }
        };
        self.with_fabric(|ways| ways.set_qp(qpn, Some(reply)));
        if !reply.meets || !session.is_published() || way.slot == 0 {
            return Ok(None);
        }
        let met = self.meet(&mut session, way.slot);
        self.attend(&mut session);
        // Who is not met is not reached, as if its host were down.
        Ok(met.unwrap_or_else(|error| {
            crate::log::note(&format!("the process of slot {} was not met: {error}", way.slot));
            None
        }))
    }

    /// A queue pair that is on no fabric is connected: its number may have been another's that was.
    pub(crate) fn leaves_fabric(&self, qpn: Qpn) {
        self.with_fabric(|ways| ways.set_qp(qpn, None));
    }

    fn ask_way(&self, session: &mut Session, way: FabricWay) -> Result<PathReply, EngineError> {
        let reply = session.client().path(request_of(&way))?;
        self.with_fabric(|ways| ways.learn(way, reply));
        Ok(reply)
    }

    /// Ask for the ways that somebody has datagrams for, and meet who is at their ends.
    pub(crate) fn ask_wanted_ways(&self, session: &mut Session) {
        let wanted = self.with_fabric(FabricWays::take_wanted).unwrap_or_default();
        if wanted.is_empty() {
            return;
        }
        for way in wanted {
            let closed = PathReply { path: u32::MAX, open: false, meets: false };
            match self.ask_way(session, way) {
                Ok(reply) if reply.meets => {
                    if let Err(error) = self.meet(session, way.slot) {
                        crate::log::note(&format!("the process of slot {} was not met: {error}", way.slot));
                    }
                }
                Ok(_) => {}
                Err(_) => drop(self.with_fabric(|ways| ways.learn(way, closed))),
            }
        }
        self.release_datagrams();
    }

    /// More is known: datagrams that waited go or are lost.
    pub(crate) fn release_datagrams(&self) {
        let mut guard = self.handover.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.release_datagrams();
            pump.hca.open_lanes();
        }
        self.leave(guard);
    }

    fn with_fabric<R>(&self, f: impl FnOnce(&mut FabricWays) -> R) -> Option<R> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.handover.lock(&self.pump);
        let result = guard.as_mut().map(|pump| f(&mut pump.hca.memory().same_host.fabric));
        self.handover.unlock(guard);
        result
    }
}

impl Pump {
    /// What passed over the fabric since this was last asked.
    pub(crate) fn take_fabric_traffic(&mut self) -> Vec<PathTraffic> {
        let (qps, datagrams) = (self.hca.take_passed(), self.hca.take_passed_datagrams());
        let ways = &self.hca.memory().same_host.fabric;
        let of_qps = qps.into_iter().filter_map(|(qpn, passed)| Some(ways.traffic(*ways.of_qps.get(&qpn)?, passed)));
        let of_datagrams =
            datagrams.into_iter().filter_map(|(way, passed)| Some(ways.traffic(ways.ways.get(&way)?.path, passed)));
        of_qps.chain(of_datagrams).collect()
    }
}

/// Tell the daemon what passed. What it does not hear is not counted: there is nobody to tell.
pub(crate) fn tell_traffic(session: &mut Session, traffic: Vec<PathTraffic>) {
    for part in traffic.chunks(FABRIC_PATHS_PER_MESSAGE_MAX) {
        let _ = session.client().path_traffic(part.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::DeviceId;

    fn way(dlid: u16) -> FabricWay {
        FabricWay {
            device: DeviceId(1 << 31),
            port: 1,
            dlid,
            sl: 0,
            pkey: 0xffff,
            mtu: 2048,
            slot: 3,
            there_and_back: true,
        }
    }

    #[test]
    fn a_way_that_closes_loses_what_its_queue_pairs_send() {
        let mut ways = FabricWays::default();
        let open = PathReply { path: 4, open: true, meets: true };
        ways.learn(way(7), open);
        ways.set_qp(0x11, Some(open));
        ways.set_qp(0x12, Some(PathReply { path: 5, ..open }));
        assert!(!ways.loses(0x11) && ways.find(&way(7)) == Some(open));
        ways.on_changed(4, false);
        assert!(ways.loses(0x11) && !ways.loses(0x12));
        assert!(!ways.find(&way(7)).expect("known").open);
        ways.on_changed(4, true);
        assert!(!ways.loses(0x11));
        ways.on_lost();
        assert!(ways.loses(0x11) && ways.loses(0x12) && ways.find(&way(7)).is_none());
        // The number of a queue pair that is gone may be given to one that is on no fabric.
        ways.set_qp(0x11, None);
        assert!(!ways.loses(0x11));
    }

    #[test]
    fn a_way_that_is_not_known_is_asked_for_once() {
        let mut ways = FabricWays::default();
        assert!(ways.find(&way(7)).is_none() && ways.find(&way(7)).is_none() && ways.wants());
        assert_eq!(ways.take_wanted(), [way(7)]);
        assert!(!ways.wants());
        for dlid in 1..=u16::MAX {
            ways.find(&way(dlid));
        }
        assert_eq!(ways.take_wanted().len(), WANTED_MAX);
    }
}
