//! Datagrams that travel as frames: those that wait, and the traffic of each path over a fabric.

use std::collections::{BTreeMap, VecDeque};

use weft_transport::Passed;
use weft_transport::frame::Frame;
use weft_transport::peers::PeerId;
use weft_verbs::{Duration, Gid, Instant, Qpn};
use weft_wire::packet::ICRC_LEN;

use crate::paths::FabricPath;

/// Bytes of a BTH and of a GRH.
const BTH_LEN: usize = 12;
const GRH_LEN: usize = 40;
/// Bytes of the two GIDs in front of the packet in a frame.
pub(crate) const GIDS_LEN: usize = 32;

/// Maximum number of datagrams waiting for path information, like the buffer of a link.
const HELD_MAX: usize = 1024;
/// Maximum number of datagrams waiting for room in a ring.
const FULL_MAX: usize = 4096;
/// Time until a full ring is tried again; usually something arrives from the peer sooner.
const RETRY: Duration = Duration::from_micros(50);

/// Bit of a datagram's frame: it came over a fabric, and `imm` has its local route.
pub(crate) const CODE_FABRIC: u8 = 2;
/// Bit of a datagram's frame: it has a GRH.
pub(crate) const CODE_GRH: u8 = 4;

/// Bit of a datagram's frame: it came from an Ethernet port of another host of the fabric.
pub(crate) const CODE_ETHERNET: u8 = 8;

/// Bytes of two GIDs and a packet, for a frame.
pub(crate) type Bytes = Vec<u8>;

/// State of the datagrams to processes of this host.
#[derive(Debug, Default)]
pub(crate) struct LocalDatagrams {
    /// Buffer for the datagram being sent.
    pub(crate) scratch: Bytes,
    /// Datagrams whose path is being requested.
    held: VecDeque<(FabricPath, Frame, Bytes)>,
    /// Datagrams whose path is open and whose ring is full: a fabric has credits, and loses nothing while there is
    /// room.
    pub(crate) full: VecDeque<(PeerId, Frame, Bytes)>,
    /// When to try full rings again.
    pub(crate) retry_at: Option<Instant>,
    /// Traffic of each path, of at most [`HELD_MAX`] paths.
    passed: BTreeMap<FabricPath, Passed>,
    /// Datagrams lost because no process receives at their destination, by path and the queue pairs at its ends; at
    /// most as many entries.
    lost: BTreeMap<(FabricPath, Qpn, Qpn), Passed>,
    /// Positions up to which datagrams over the fabric were written into rings.
    pub(crate) marks: BTreeMap<PeerId, u64>,
    /// Buffer for the processes that receive a multicast datagram.
    pub(crate) members: Vec<PeerId>,
    /// The GID of the last lookup, and whether it belongs to this host.
    pub(crate) last: Option<(Gid, bool)>,
}

impl LocalDatagrams {
    /// Forgets the last GID lookup, after a change of the GID tables.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// Takes the traffic of each path since the last call.
    pub(crate) fn take_passed(&mut self) -> Vec<(FabricPath, Passed)> {
        std::mem::take(&mut self.passed).into_iter().collect()
    }

    /// Takes the losses since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<((FabricPath, Qpn, Qpn), Passed)> {
        std::mem::take(&mut self.lost).into_iter().collect()
    }

    /// Counts a datagram that a path carries.
    pub(crate) fn count(&mut self, path: FabricPath, frame: &Frame, bytes: usize) {
        add(&mut self.passed, path, frame, bytes);
    }

    /// Counts a datagram that a closed path loses.
    pub(crate) fn count_lost(&mut self, path: FabricPath, frame: &Frame, bytes: usize) {
        add(&mut self.lost, (path, frame.src_qpn, frame.dest_qpn), frame, bytes);
    }

    /// Keeps a datagram until its path is known; returns its buffer if there is no room.
    pub(crate) fn hold(&mut self, path: FabricPath, frame: Frame, bytes: Bytes) -> Bytes {
        if self.held.len() >= HELD_MAX {
            return bytes;
        }
        self.held.push_back((path, frame, bytes));
        Bytes::new()
    }

    /// Takes all datagrams that wait for path information.
    pub(crate) fn take_held(&mut self) -> VecDeque<(FabricPath, Frame, Bytes)> {
        std::mem::take(&mut self.held)
    }

    /// Keeps a datagram until its ring has room; returns its buffer if too many wait.
    pub(crate) fn wait_for_room(&mut self, now: Instant, peer: PeerId, frame: Frame, bytes: Bytes) -> Bytes {
        if self.full.len() >= FULL_MAX {
            return bytes;
        }
        self.full.push_back((peer, frame, bytes));
        self.retry_later(now);
        Bytes::new()
    }

    /// Schedules the next try of full rings.
    pub(crate) fn retry_later(&mut self, now: Instant) {
        self.retry_at.get_or_insert(now + RETRY);
    }
}

/// Counts a packet: the bytes that a port counts besides LRH, BTH and ICRC, which every packet has.
fn add<K: Ord>(sums: &mut BTreeMap<K, Passed>, key: K, frame: &Frame, bytes: usize) {
    if sums.len() < HELD_MAX || sums.contains_key(&key) {
        let grh = if frame.code & CODE_GRH != 0 { GRH_LEN } else { 0 };
        let passed = sums.entry(key).or_default();
        passed.packets += 1;
        passed.bytes += (bytes.saturating_sub(GIDS_LEN + BTH_LEN + ICRC_LEN) + grh) as u64;
    }
}
