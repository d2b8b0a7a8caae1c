//! A simulated process's access to the other processes of its host: rings, published keys, and direct copies. It makes every
//! check that the real implementation must make, and panics on any use that the trait forbids.

use std::cell::RefCell;
use std::rc::Rc;

use weft_hca::paths::NoPaths;
use weft_hca::{HostInterface, HostParts};
use weft_transport::Peers;
use weft_transport::frame::{FRAME_BYTES_MAX, Frame, HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::{Qpn, Sge};

use crate::machine::{Machine, Ring, peer_id, process_of};
use crate::memory::{Regions, SimMemory};

/// A process's place on its machine.
#[derive(Clone, Debug)]
pub struct Seat {
    pub(crate) machine: Rc<RefCell<Machine>>,
    pub(crate) me: usize,
}

/// The other processes of a process's host, as it accesses them.
#[derive(Debug)]
pub struct SimPeers {
    /// Its own memory.
    pub(crate) regions: Rc<RefCell<Regions>>,
    /// Its place on its host; `None` if it meets no process there.
    pub(crate) seat: Option<Seat>,
}

/// The parts of a simulated process that its adapter works with.
#[derive(Debug)]
pub struct SimHost;

impl HostInterface for SimHost {
    type Memory = SimMemory;
    type Peers = SimPeers;
    type Paths = NoPaths;
}

impl SimHost {
    /// Returns the parts of a process at this place of a machine.
    pub fn parts(memory: SimMemory, seat: Option<Seat>) -> HostParts<SimHost> {
        let peers = SimPeers { regions: memory.regions.clone(), seat };
        HostParts { memory, peers, paths: NoPaths }
    }
}

/// Bytes copied at once.
const CHUNK: usize = 1 << 16;

/// Bytes of a list element in a frame.
const SGE_BYTES: usize = 16;

fn list_bytes(list: &[Sge]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(list.len() * SGE_BYTES);
    for sge in list {
        bytes.extend(sge.addr.to_ne_bytes());
        bytes.extend(sge.length.to_ne_bytes());
        bytes.extend(sge.lkey.to_ne_bytes());
    }
    bytes
}

/// Copies from the ranges of one memory, in order, to one address of another (which may be the same). Stops after
/// `limit`.
fn gather(from: &RefCell<Regions>, ranges: &[HostRange], to: &RefCell<Regions>, mut at: u64, limit: u64) {
    let mut buffer = [0; CHUNK];
    let mut left = limit;
    for range in ranges {
        let mut done = 0;
        while done < range.len && left > 0 {
            let len = (range.len - done).min(left).min(CHUNK as u64);
            let piece = &mut buffer[..len as usize];
            from.borrow().read(range.addr + done, piece);
            to.borrow_mut().write(at, piece);
            (done, at, left) = (done + len, at + len, left - len);
        }
    }
}

/// Copies from one address to the ranges of another memory.
fn scatter(from: &RefCell<Regions>, mut at: u64, to: &RefCell<Regions>, ranges: &[HostRange], limit: u64) {
    let mut left = limit;
    for range in ranges {
        let len = range.len.min(left);
        gather(from, &[HostRange { addr: at, len }], to, range.addr, len);
        (at, left) = (at + len, left - len);
    }
}

impl Machine {
    /// Returns the target of a direct access if its peer and its key allow it, by the same checks that a process makes
    /// on a peer's published keys.
    fn admit(&self, me: usize, at: &Direct, len: u64) -> Option<(usize, u64)> {
        assert!(len <= at.whole && !at.need.is_empty(), "{len} bytes of {at:?}");
        let target = process_of(me, at.peer);
        let process = &self.processes[target];
        if !process.alive || self.ways.reach == Reach::Ring {
            return None;
        }
        let qp = process.qps.get(&at.dest_qpn)?;
        let is_ours = qp.peer == peer_id(target, me) && qp.dest_qpn == at.qpn;
        if !is_ours || !qp.access.contains(at.need) {
            return None;
        }
        let key = process.keys.get(&at.key)?;
        if key.pd != qp.pd || key.qpn.is_some_and(|qpn| qpn != at.dest_qpn) || !key.access.contains(at.need) {
            return None;
        }
        let offset = at.addr.checked_sub(key.base)?;
        let end = offset.checked_add(at.whole)?;
        (end <= key.len).then(|| (target, key.host + offset))
    }

    /// Returns how many bytes of a direct access succeed: all, or fewer if it breaks.
    fn luck(&mut self, len: u64) -> u64 {
        if self.rng.chance(self.ways.direct_fails.into(), 10_000) {
            self.stats.broke += 1;
            return self.rng.below(len);
        }
        len
    }

    fn ring_of(&self, from: usize, to: usize) -> Option<&Ring> {
        self.rings.get(&(from, to))
    }

    /// Returns the payload of the frame that a process is handling, from an offset on.
    fn payload(&self, me: usize, offset: u32) -> &[u8] {
        let from = self.processes[me].current.expect("payload is asked for while no frame is the current one");
        let held = self.rings[&(from, me)].held.front().expect("the current frame");
        held.payload.get(offset as usize..).unwrap_or_default()
    }
}

impl SimPeers {
    fn parts(&self) -> Option<(Rc<RefCell<Machine>>, usize)> {
        self.seat.as_ref().map(|seat| (seat.machine.clone(), seat.me))
    }

    fn outgoing(&self, payload: Outgoing<'_>) -> Vec<u8> {
        match payload {
            Outgoing::Bytes(bytes) => bytes.to_vec(),
            Outgoing::List(list) => list_bytes(list),
            Outgoing::Memory(ranges) => {
                let regions = self.regions.borrow();
                let mut bytes = Vec::new();
                for range in ranges {
                    let at = bytes.len();
                    bytes.resize(at + range.len as usize, 0);
                    regions.read(range.addr, &mut bytes[at..]);
                }
                bytes
            }
        }
    }
}

impl Peers for SimPeers {
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        let Some((machine, me)) = self.parts() else { return false };
        assert!(payload.len() <= FRAME_BYTES_MAX.into(), "a frame of {} bytes: {frame:?}", payload.len());
        let bytes = self.outgoing(payload);
        machine.borrow_mut().put(me, process_of(me, peer), *frame, bytes)
    }

    fn ring_mark(&self, peer: PeerId) -> u64 {
        let Some((machine, me)) = self.parts() else { return 0 };
        machine.borrow().ring_of(me, process_of(me, peer)).map_or(0, |ring| ring.written)
    }

    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        let Some((machine, me)) = self.parts() else { return true };
        machine.borrow().ring_of(me, process_of(me, peer)).is_none_or(|ring| ring.taken >= mark)
    }

    /// Slot n is that of process n - 1.
    fn peer_of_slot(&self, slot: u32) -> Option<PeerId> {
        let (machine, me) = self.parts()?;
        let process = (slot as usize).checked_sub(1)?;
        (process < machine.borrow().processes.len()).then(|| peer_id(me, process))
    }

    fn is_alive(&self, peer: PeerId) -> bool {
        let Some((machine, me)) = self.parts() else { return false };
        machine.borrow().processes[process_of(me, peer)].alive
    }

    fn arrival(&mut self) -> Option<PeerId> {
        let (machine, me) = self.parts()?;
        let machine = &mut *machine.borrow_mut();
        let (count, process) = (machine.processes.len(), &machine.processes[me]);
        assert_eq!(process.current, None, "the frame before was not given back");
        if process.budget == 0 {
            return None;
        }
        let turn = process.turn;
        let waits = |from: &usize| machine.rings.get(&(*from, me)).is_some_and(|ring| !ring.held.is_empty());
        let from = (0..count).map(|step| (turn + step) % count).find(waits)?;
        machine.processes[me].turn = from + 1;
        Some(peer_id(me, from))
    }

    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        let (machine, me) = self.parts()?;
        let machine = &mut *machine.borrow_mut();
        let from = process_of(me, peer);
        let process = &mut machine.processes[me];
        assert_eq!(process.current, None, "the frame before was not given back");
        let frame = machine.rings.get(&(from, me))?.held.front()?.frame;
        process.budget = process.budget.checked_sub(1)?;
        process.current = Some(from);
        Some(frame)
    }

    fn place(&mut self, offset: u32, to: HostRange) {
        let Some((machine, me)) = self.parts() else { return };
        let machine = machine.borrow();
        let payload = machine.payload(me, offset);
        let len = payload.len().min(to.len as usize);
        self.regions.borrow_mut().write(to.addr, &payload[..len]);
    }

    fn peek(&self, offset: u32, out: &mut [u8]) {
        let Some((machine, me)) = self.parts() else { return };
        let machine = machine.borrow();
        let payload = machine.payload(me, offset);
        let len = payload.len().min(out.len());
        out[..len].copy_from_slice(&payload[..len]);
    }

    fn end_frame(&mut self) {
        let Some((machine, me)) = self.parts() else { return };
        let machine = &mut *machine.borrow_mut();
        let from = machine.processes[me].current.take().expect("no frame is the current one");
        let ring = machine.rings.get_mut(&(from, me)).expect("the ring of the current frame");
        let held = ring.held.pop_front().expect("the current frame");
        ring.bytes -= held.payload.len();
        ring.taken += 1;
    }

    fn fetch(&mut self, peer: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        let Some((machine, me)) = self.parts() else { return false };
        let machine = &mut *machine.borrow_mut();
        let target = process_of(me, peer);
        if machine.ways.reach == Reach::Ring || !machine.processes[target].alive {
            return false;
        }
        if machine.rng.chance(machine.ways.fetch_fails.into(), 10_000) {
            machine.stats.fetch_broke += 1;
            return false;
        }
        let process = &machine.processes[target];
        let regions = process.regions.clone();
        let is_inside = offset.checked_add(to.len).is_some_and(|end| end <= u64::from(from.length));
        let start = from.addr.checked_add(offset);
        let host = process.keys.get(&from.lkey).zip(start).and_then(|(key, start)| {
            let skip = start.checked_sub(key.base)?;
            (skip.checked_add(to.len)? <= key.len).then(|| key.host + skip)
        });
        let Some(addr) = host.filter(|_| is_inside) else {
            machine.stats.fetch_astray += 1;
            return false;
        };
        gather(&regions, &[HostRange { addr, len: to.len }], &self.regions, to.addr, to.len);
        machine.stats.fetched += 1;
        true
    }

    fn reach(&self, peer: PeerId) -> Reach {
        let Some((machine, me)) = self.parts() else { return Reach::Ring };
        process_of(me, peer);
        machine.borrow().ways.reach
    }

    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        let Some((machine, me)) = self.parts() else { return false };
        let machine = &mut *machine.borrow_mut();
        let len = from.len();
        let Some((target, host)) = machine.admit(me, at, len) else {
            machine.stats.refused += 1;
            return false;
        };
        let lucky = machine.luck(len);
        let regions = machine.processes[target].regions.clone();
        match from {
            Outgoing::Bytes(bytes) => regions.borrow_mut().write(host, &bytes[..lucky as usize]),
            Outgoing::Memory(ranges) => gather(&self.regions, ranges, &regions, host, lucky),
            Outgoing::List(_) => panic!("a list is for the peer to fetch by"),
        }
        if lucky == len {
            *machine.stats.direct.entry("direct_write").or_default() += 1;
        }
        lucky == len
    }

    fn read_direct(&mut self, at: &Direct, to: &[HostRange]) -> bool {
        let Some((machine, me)) = self.parts() else { return false };
        let machine = &mut *machine.borrow_mut();
        let len = to.iter().map(|range| range.len).sum();
        let Some((target, host)) = machine.admit(me, at, len) else {
            machine.stats.refused += 1;
            return false;
        };
        let lucky = machine.luck(len);
        let regions = machine.processes[target].regions.clone();
        scatter(&regions, host, &self.regions, to, lucky);
        if lucky == len {
            *machine.stats.direct.entry("direct_read").or_default() += 1;
        }
        lucky == len
    }

    fn atomic_direct(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        let (machine, me) = self.parts()?;
        let machine = &mut *machine.borrow_mut();
        let place = machine.admit(me, at, 8).filter(|(_, host)| host % 8 == 0);
        let fails = machine.ways.reach != Reach::Memory || machine.luck(8) != 8;
        let Some((target, host)) = place.filter(|_| !fails) else {
            machine.stats.refused += 1;
            return None;
        };
        *machine.stats.direct.entry("direct_atomic").or_default() += 1;
        let mut regions = machine.processes[target].regions.borrow_mut();
        Some(match op {
            AtomicOp::CompareSwap { compare, swap } => regions.compare_swap(host, compare, swap),
            AtomicOp::FetchAdd(add) => regions.fetch_add(host, add),
            AtomicOp::Store(value) => {
                regions.store_u64(host, value);
                0
            }
        })
    }

    fn publish_key(&mut self, key: &KeyView) {
        let Some((machine, me)) = self.parts() else { return };
        assert!(key.len > 0 && key.key != 0, "a key for nothing is published: {key:?}");
        machine.borrow_mut().processes[me].keys.insert(key.key, *key);
    }

    fn revoke_key(&mut self, key: u32) {
        let Some((machine, me)) = self.parts() else { return };
        machine.borrow_mut().processes[me].keys.remove(&key);
    }

    fn publish_qp(&mut self, qp: &QpView) {
        let Some((machine, me)) = self.parts() else { return };
        process_of(me, qp.peer);
        machine.borrow_mut().processes[me].qps.insert(qp.qpn, *qp);
    }

    fn revoke_qp(&mut self, qpn: Qpn) {
        let Some((machine, me)) = self.parts() else { return };
        machine.borrow_mut().processes[me].qps.remove(&qpn);
    }
}
