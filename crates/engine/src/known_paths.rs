//! The paths over an InfiniBand fabric that a process of a virtual host knows: which are open, and where those to groups
//! lead.

use std::collections::{BTreeMap, BTreeSet};

use weft_hca::paths::{FabricPath, FabricPaths, PathState};
use weft_ipc::{GroupReply, PathReply};
use weft_verbs::Qpn;

/// Maximum number of paths waiting for a request to the daemon.
const WANTED_MAX: usize = 1024;

/// Known paths over the fabric.
#[derive(Debug, Default)]
pub struct KnownPaths {
    paths: BTreeMap<FabricPath, PathReply>,
    /// The path of each connected queue pair.
    of_qps: BTreeMap<Qpn, u32>,
    /// Paths with waiting datagrams, not requested yet.
    wanted: BTreeSet<FabricPath>,
    /// Paths to groups.
    groups: BTreeMap<FabricPath, Group>,
}

/// A known path to a group.
#[derive(Debug)]
struct Group {
    reply: GroupReply,
    /// The daemon says that it leads elsewhere now.
    stale: bool,
}

impl KnownPaths {
    fn want(&mut self, path: &FabricPath) {
        if self.wanted.len() < WANTED_MAX {
            self.wanted.insert(*path);
        }
    }

    /// Whether path requests are queued.
    #[inline]
    pub fn wants(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Takes the queued path requests.
    pub fn take_wanted(&mut self) -> Vec<FabricPath> {
        std::mem::take(&mut self.wanted).into_iter().collect()
    }

    /// Returns the number of a known path.
    pub fn number_of(&self, path: &FabricPath) -> Option<u32> {
        let group = self.groups.get(path).map(|group| group.reply.path);
        self.paths.get(path).map(|reply| reply.path).or(group)
    }

    /// Returns the number of a queue pair's path.
    pub fn number_of_qp(&self, qpn: Qpn) -> Option<u32> {
        self.of_qps.get(&qpn).copied()
    }

    /// Records the daemon's answer about a path.
    pub fn learn(&mut self, path: FabricPath, reply: PathReply) {
        self.paths.insert(path, reply);
    }

    /// Records the daemon's answer about a path to a group.
    pub fn learn_group(&mut self, path: FabricPath, reply: GroupReply) {
        self.groups.insert(path, Group { reply, stale: false });
    }

    /// Sets the number of a queue pair's path; `None` takes it off the fabric.
    pub fn set_qp(&mut self, qpn: Qpn, path: Option<u32>) {
        match path {
            Some(path) => self.of_qps.insert(qpn, path),
            None => self.of_qps.remove(&qpn),
        };
    }

    /// Handles the daemon's message that a path opened or closed; returns the queue pairs on it.
    pub fn on_changed(&mut self, path: u32, open: bool) -> Vec<Qpn> {
        for reply in self.paths.values_mut().filter(|reply| reply.path == path) {
            reply.open = open;
        }
        self.of_qps.iter().filter(|(_, of)| **of == path).map(|(qpn, _)| *qpn).collect()
    }

    /// Handles the daemon's message that a path to a group leads elsewhere.
    pub fn on_group_changed(&mut self, path: u32) {
        self.groups.values_mut().filter(|group| group.reply.path == path).for_each(|group| group.stale = true);
    }

    /// Handles the loss of the daemon, and its fabric with it; returns the queue pairs on a path.
    pub fn on_lost(&mut self) -> Vec<Qpn> {
        self.paths.clear();
        self.groups.clear();
        self.of_qps.keys().copied().collect()
    }
}

impl FabricPaths for KnownPaths {
    fn state(&mut self, path: &FabricPath) -> PathState {
        match self.paths.get(path) {
            None => {
                self.want(path);
                PathState::Asked
            }
            Some(reply) if reply.open && reply.meets => PathState::Open,
            Some(_) => PathState::Closed,
        }
    }

    fn group(&mut self, path: &FabricPath) -> Option<&[u32]> {
        if self.groups.get(path).is_none_or(|group| group.stale) {
            self.want(path);
            return None;
        }
        self.groups.get(path).map(|group| group.reply.slots.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::{DeviceId, Gid};

    fn path(dlid: u16) -> FabricPath {
        FabricPath {
            device: DeviceId(1 << 31),
            port: 1,
            dlid,
            dgid: Gid::ZERO,
            sl: 0,
            pkey: 0xffff,
            mtu: 2048,
            slot: 3,
            there_and_back: true,
        }
    }

    #[test]
    fn a_changed_path_names_its_queue_pairs() {
        let mut paths = KnownPaths::default();
        let open = PathReply { path: 4, open: true, meets: true };
        paths.learn(path(7), open);
        paths.set_qp(0x11, Some(4));
        paths.set_qp(0x12, Some(5));
        assert_eq!(paths.state(&path(7)), PathState::Open);
        assert_eq!(paths.on_changed(4, false), [0x11]);
        assert_eq!(paths.state(&path(7)), PathState::Closed);
        assert_eq!(paths.on_changed(4, true), [0x11]);
        // The number of a destroyed queue pair may be given to one that is on no fabric.
        paths.set_qp(0x11, None);
        assert!(paths.on_changed(4, false).is_empty());
        assert_eq!(paths.on_lost(), [0x12]);
        assert_eq!(paths.state(&path(7)), PathState::Asked);
    }

    #[test]
    fn an_unknown_path_is_requested_once() {
        let mut paths = KnownPaths::default();
        assert_eq!([paths.state(&path(7)), paths.state(&path(7))], [PathState::Asked; 2]);
        assert!(paths.wants());
        assert_eq!(paths.take_wanted(), [path(7)]);
        assert!(!paths.wants());
        for dlid in 1..=u16::MAX {
            paths.state(&path(dlid));
        }
        assert_eq!(paths.take_wanted().len(), WANTED_MAX);
    }

    #[test]
    fn a_group_that_leads_elsewhere_is_requested_again() {
        let mut paths = KnownPaths::default();
        let path = FabricPath { dlid: 0xc001, slot: 0, ..path(0) };
        assert_eq!(paths.group(&path), None);
        assert_eq!(paths.take_wanted(), [path]);
        paths.learn_group(path, GroupReply { path: 9, slots: vec![3, 5] });
        assert_eq!(paths.group(&path), Some(&[3, 5][..]));
        assert!(!paths.wants() && paths.number_of(&path) == Some(9));
        paths.on_group_changed(9);
        assert_eq!(paths.group(&path), None);
        assert!(paths.wants());
    }
}
