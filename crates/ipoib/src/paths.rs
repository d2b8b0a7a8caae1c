//! Paths to ports, by GID, as the subnet administration answers them.

use std::collections::BTreeMap;

use weft_verbs::Instant;
use weft_wire::ipoib::LinkAddress;
use weft_wire::mad::sa::PathRecord;

use crate::frame::Frame;
use crate::held::Held;
use crate::limits::{NO_PATH, PATHS_MAX};
use crate::output::{Destination, Output};

/// GID of a port.
pub(crate) type Gid = [u8; 16];

#[derive(Clone, Debug)]
enum Path {
    /// A query is under way; frames wait, each for the queue pair of its neighbour.
    Asked(BTreeMap<u32, Held>),
    /// Known.
    Known(Box<PathRecord>),
    /// There is none until then.
    None { until: Instant },
}

/// Result of looking a path up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    /// The path.
    Known(PathRecord),
    /// It is being asked for.
    Asked,
    /// There is none.
    None,
}

/// The known paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    of: BTreeMap<Gid, Path>,
}

impl Paths {
    /// Returns the entry of a path, which is asked for if it is unknown; `None` if the table is full.
    fn entry(&mut self, now: Instant, dgid: &Gid, out: &mut Vec<Output>) -> Option<&mut Path> {
        if let Some(Path::None { until }) = self.of.get(dgid)
            && *until <= now
        {
            self.of.remove(dgid);
        }
        if self.of.len() >= PATHS_MAX && !self.of.contains_key(dgid) {
            // The table is full of paths in use by someone: the first known one is asked for again when it is needed.
            let known = self.of.iter().find(|(_, path)| !matches!(path, Path::Asked(_))).map(|(gid, _)| *gid);
            self.of.remove(&known?);
        }
        Some(self.of.entry(*dgid).or_insert_with(|| {
            out.push(Output::ResolvePath { dgid: *dgid });
            Path::Asked(BTreeMap::new())
        }))
    }

    /// Looks a path up, and asks for it if it is unknown.
    pub fn find(&mut self, now: Instant, dgid: &Gid, out: &mut Vec<Output>) -> Lookup {
        match self.entry(now, dgid, out) {
            Some(Path::Known(record)) => Lookup::Known(**record),
            Some(Path::Asked(_)) => Lookup::Asked,
            Some(Path::None { .. }) | None => Lookup::None,
        }
    }

    /// Sends a frame to a link-layer address; it waits for its path, or is lost without one.
    pub fn send(&mut self, now: Instant, to: &LinkAddress, qkey: u32, frame: Frame, out: &mut Vec<Output>) {
        let Some(path) = self.entry(now, &to.gid, out) else { return };
        match path {
            Path::Known(record) => {
                let to = Destination { dlid: record.dlid, sl: record.sl, group: None, qpn: to.qpn, qkey };
                out.push(Output::Send { to, frame });
            }
            // One neighbour has one queue pair; a forged address must not add more.
            Path::Asked(held) if held.len() < 4 || held.contains_key(&to.qpn) => {
                held.entry(to.qpn).or_default().push(frame);
            }
            Path::Asked(_) | Path::None { .. } => {}
        }
    }

    /// Handles the answer to a query: frames that waited leave, or are lost while there is no Q_Key.
    pub fn on_path(&mut self, record: &PathRecord, qkey: Option<u32>, out: &mut Vec<Output>) {
        let Some(path) = self.of.get_mut(&record.dgid) else { return };
        let (dlid, sl) = (record.dlid, record.sl);
        if let Path::Asked(held) = std::mem::replace(path, Path::Known(Box::new(*record)))
            && let Some(qkey) = qkey
        {
            for (qpn, mut frames) in held {
                let to = Destination { dlid, sl, group: None, qpn, qkey };
                out.extend(frames.take().into_iter().map(|frame| Output::Send { to, frame }));
            }
        }
    }

    /// Handles the answer that there is no path.
    pub fn on_no_path(&mut self, now: Instant, dgid: &Gid) {
        if let Some(path) = self.of.get_mut(dgid) {
            *path = Path::None { until: now + NO_PATH };
        }
    }

    /// Forgets a path, because its neighbour does not answer: it may lead elsewhere by now.
    pub fn forget(&mut self, dgid: &Gid) {
        if !matches!(self.of.get(dgid), Some(Path::Asked(_))) {
            self.of.remove(dgid);
        }
    }

    /// Forgets every path: LIDs may have changed.
    pub fn reset(&mut self) {
        self.of.clear();
    }
}
