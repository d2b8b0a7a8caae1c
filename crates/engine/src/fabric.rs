//! The InfiniBand fabric as a process of a virtual host knows it: which of its paths are open. Data goes through rings
//! and direct copies as between any processes of one host, as long as the daemon says that packets would arrive. On a
//! closed path it is lost, and the queue pair's own timers notice.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::MutexGuard;
use weft_hca::RefusedKey;
use weft_ipc::{
    FABRIC_PATHS_PER_MESSAGE_MAX, GroupReply, KEY_VIOLATIONS_PER_MESSAGE_MAX, KeyViolation, LostPackets, PathReply,
    PathRequest, PathTraffic,
};
use weft_transport::Passed;
use weft_transport::same_host::{FabricWay, Frame, PeerId};
use weft_verbs::{Qpn, VerbsError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::pump::Pump;
use crate::session::Session;

/// Maximum number of paths waiting for a request to the daemon.
const WANTED_MAX: usize = 1024;

/// Known paths over the fabric.
#[derive(Debug, Default)]
pub struct FabricWays {
    ways: BTreeMap<FabricWay, PathReply>,
    /// The path of each connected queue pair.
    of_qps: BTreeMap<Qpn, u32>,
    /// Connected queue pairs whose path is closed.
    closed: BTreeSet<Qpn>,
    /// Paths with waiting datagrams, not requested yet.
    wanted: BTreeSet<FabricWay>,
    /// Paths to groups.
    groups: BTreeMap<FabricWay, Group>,
    /// Packets that connected queue pairs sent on closed paths.
    lost: BTreeMap<Qpn, LostPackets>,
}

/// A known path to a group.
#[derive(Debug)]
struct Group {
    reply: GroupReply,
    /// The daemon says that it leads elsewhere now.
    stale: bool,
}

impl FabricWays {
    /// Whether a connected queue pair's packets are lost.
    #[inline]
    pub fn loses(&self, qpn: Qpn) -> bool {
        !self.closed.is_empty() && self.closed.contains(&qpn)
    }

    /// Finds a known path; queues a request for an unknown one.
    pub fn find(&mut self, way: &FabricWay) -> Option<PathReply> {
        let found = self.ways.get(way).copied();
        if found.is_none() && self.wanted.len() < WANTED_MAX {
            self.wanted.insert(*way);
        }
        found
    }

    /// Returns the processes that a path to a group leads to; queues a request for an unknown path.
    pub fn find_group(&mut self, way: &FabricWay) -> Option<&[u32]> {
        let known = self.groups.get(way).filter(|group| !group.stale);
        if known.is_none() && self.wanted.len() < WANTED_MAX {
            self.wanted.insert(*way);
        }
        known.map(|group| group.reply.slots.as_slice())
    }

    /// Handles the daemon's message that a path to a group leads elsewhere.
    pub fn on_group_changed(&mut self, path: u32) {
        self.groups.values_mut().filter(|group| group.reply.path == path).for_each(|group| group.stale = true);
    }

    /// Counts a frame that a connected queue pair sent on a closed path.
    pub fn on_lost_frame(&mut self, frame: &Frame) {
        let Some(&path) = self.of_qps.get(&frame.src_qpn) else { return };
        let (src_qp, dest_qp) = (frame.src_qpn, frame.dest_qpn);
        let none = LostPackets { path, src_qp, dest_qp, packets: 0, bytes: 0 };
        let lost = self.lost.entry(src_qp).or_insert(none);
        lost.packets += 1;
    }

    /// Whether path requests are queued.
    #[inline]
    pub fn wants(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns the number of a known path.
    fn path_of(&self, way: &FabricWay) -> Option<u32> {
        let group = self.groups.get(way).map(|group| group.reply.path);
        self.ways.get(way).map(|reply| reply.path).or(group)
    }

    fn take_wanted(&mut self) -> Vec<FabricWay> {
        std::mem::take(&mut self.wanted).into_iter().collect()
    }

    fn learn(&mut self, way: FabricWay, reply: PathReply) {
        self.ways.insert(way, reply);
    }

    /// Sets the fabric path of a queue pair; `None` takes it off the fabric.
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

    /// Handles the daemon's message that a path opened or closed.
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

    /// Handles the loss of the daemon, and its fabric with it.
    pub fn on_lost(&mut self) {
        self.ways.clear();
        self.groups.clear();
        self.closed.extend(self.of_qps.keys());
    }

    fn traffic(&self, path: u32, passed: Passed) -> PathTraffic {
        let Passed { packets, bytes, packets_back, bytes_back } = passed;
        PathTraffic { path, packets, bytes, packets_back, bytes_back }
    }
}

/// Whether a path leads to a group.
fn is_group(way: &FabricWay) -> bool {
    way.slot == 0
}

fn request_of(way: &FabricWay) -> PathRequest {
    let FabricWay { device, port, dlid, sl, pkey, mtu, slot, there_and_back } = *way;
    PathRequest { device: device.0, port, dlid, sl, pkey, mtu, slot, there_and_back }
}

impl Engine {
    /// Returns the process that a queue pair will connect to over the fabric, if it is on the host with the given LID.
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
        // A process that cannot be met counts as unreachable, as if its host were down.
        Ok(met.unwrap_or_else(|error| {
            crate::log::note(&format!("the process of slot {} was not met: {error}", way.slot));
            None
        }))
    }

    /// Takes a newly connected queue pair off the fabric: a destroyed queue pair of the same number may have been on
    /// one.
    pub(crate) fn leaves_fabric(&self, qpn: Qpn) {
        self.with_fabric(|ways| ways.set_qp(qpn, None));
    }

    fn ask_way(&self, session: &mut Session, way: FabricWay) -> Result<PathReply, EngineError> {
        let reply = session.client().path(request_of(&way))?;
        self.with_fabric(|ways| ways.learn(way, reply));
        Ok(reply)
    }

    /// Requests the paths that datagrams wait for, and meets the processes at their ends.
    pub(crate) fn ask_wanted_ways(&self, session: &mut Session) {
        let wanted = self.with_fabric(FabricWays::take_wanted).unwrap_or_default();
        if wanted.is_empty() {
            return;
        }
        // Datagrams sent to a group so far went to the group's current members in the daemon's view: report them first.
        let traffic = if wanted.iter().any(is_group) { self.take_traffic() } else { Vec::new() };
        tell_traffic(session, traffic);
        for way in wanted {
            if is_group(&way) {
                self.ask_group(session, way);
                continue;
            }
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

    /// Asks the daemon where a group's packets arrive, and meets the processes that listen there.
    fn ask_group(&self, session: &mut Session, way: FabricWay) {
        let nobody = GroupReply { path: u32::MAX, slots: Vec::new() };
        let reply = session.client().group_path(request_of(&way)).unwrap_or_else(|error| {
            crate::log::note(&format!("no way over the fabric to the group {:#x}: {error}", way.dlid));
            nobody
        });
        for slot in &reply.slots {
            if let Err(error) = self.meet(session, *slot) {
                crate::log::note(&format!("the process of slot {slot} was not met: {error}"));
            }
        }
        self.with_fabric(|ways| ways.groups.insert(way, Group { reply, stale: false }));
    }

    /// Releases datagrams that waited for path information: they go out or are lost.
    pub(crate) fn release_datagrams(&self) {
        let mut guard = self.driver.lock(&self.pump);
        if let Some(pump) = guard.as_mut() {
            pump.hca.release_datagrams();
            pump.hca.open_lanes();
        }
        self.leave(guard);
    }

    fn take_traffic(&self) -> Vec<PathTraffic> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.driver.lock(&self.pump);
        let traffic = guard.as_mut().map(Pump::take_fabric_traffic);
        self.driver.unlock(guard);
        traffic.unwrap_or_default()
    }

    fn with_fabric<R>(&self, f: impl FnOnce(&mut FabricWays) -> R) -> Option<R> {
        let mut guard: MutexGuard<'_, Option<Pump>> = self.driver.lock(&self.pump);
        let result = guard.as_mut().map(|pump| f(&mut pump.hca.memory().same_host.fabric));
        self.driver.unlock(guard);
        result
    }
}

impl Pump {
    /// Takes the fabric traffic counted since the last call.
    pub(crate) fn take_fabric_traffic(&mut self) -> Vec<PathTraffic> {
        let (qps, datagrams) = (self.hca.take_passed(), self.hca.take_passed_datagrams());
        let ways = &self.hca.memory().same_host.fabric;
        let of_qps = qps.into_iter().filter_map(|(qpn, passed)| Some(ways.traffic(*ways.of_qps.get(&qpn)?, passed)));
        let of_datagrams =
            datagrams.into_iter().filter_map(|(way, passed)| Some(ways.traffic(ways.path_of(&way)?, passed)));
        of_qps.chain(of_datagrams).collect()
    }
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
        let datagrams = self.hca.take_lost_datagrams();
        let ways = &mut self.hca.memory().same_host.fabric;
        let mut lost: Vec<LostPackets> = std::mem::take(&mut ways.lost).into_values().collect();
        lost.extend(datagrams.into_iter().filter_map(|((way, src_qp, dest_qp), passed)| {
            let path = ways.path_of(&way)?;
            Some(LostPackets { path, src_qp, dest_qp, packets: passed.packets, bytes: passed.bytes })
        }));
        Losses { lost, keys }
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

    #[test]
    fn a_group_that_leads_elsewhere_is_asked_for_again() {
        let mut ways = FabricWays::default();
        let way = FabricWay { dlid: 0xc001, slot: 0, ..way(0) };
        assert!(is_group(&way) && ways.find_group(&way).is_none());
        let reply = GroupReply { path: 8, slots: vec![3, 5] };
        ways.groups.insert(way, Group { reply, stale: false });
        assert_eq!(ways.find_group(&way), Some(&[3, 5][..]));
        assert_eq!(ways.path_of(&way), Some(8));
        ways.take_wanted();
        ways.on_group_changed(8);
        assert!(ways.find_group(&way).is_none() && ways.wants());
        assert_eq!(ways.path_of(&way), Some(8), "what went there is still to be told");
        ways.on_lost();
        assert!(ways.path_of(&way).is_none());
    }

    #[test]
    fn what_a_closed_way_swallows_is_told() {
        let mut ways = FabricWays::default();
        ways.set_qp(0x11, Some(PathReply { path: 5, open: false, meets: true }));
        let frame = Frame::new(weft_transport::same_host::FrameKind::Datagram, 0x11, 0x22);
        ways.on_lost_frame(&frame);
        ways.on_lost_frame(&frame);
        ways.on_lost_frame(&Frame { src_qpn: 0x12, ..frame });
        let told: Vec<LostPackets> = ways.lost.into_values().collect();
        assert_eq!(told, [LostPackets { path: 5, src_qp: 0x11, dest_qp: 0x22, packets: 2, bytes: 0 }]);
    }
}
