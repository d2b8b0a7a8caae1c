//! The cable between a process and the switches in the daemon: two rings of packets in shared memory, one per
//! direction, and two bells that wake a sleeping end.
//!
//! ```text
//! word        writer    meaning
//! written     sender    bytes ever put into the ring
//! taken       receiver  bytes ever taken out of it
//! attention   both      ATTENDING: the daemon polls; ASLEEP: call it; CALLED: the process did
//! sleep       both      AWAKE: the process polls; ASLEEP: ring; RUNG: the daemon did
//! wants_room  both      1: the daemon waits for room; the process clears it and calls
//!
//! ring:  | head | packet, padded to 8 bytes | head | packet … | SKIP: continue at the beginning
//! head:  length, port, and in the direction of a process the slot of the process that sent the packet
//! ```
//!
//! The other process can change any word at any moment: positions and lengths are checked against the ring, and packets
//! are copied out before they are parsed. An end that breaks the rules of its own words is not read any more.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weft_sys::sync::Ordering;

use weft_shm::{SleepStates, SleepWord, fence_before_check};
use weft_sys::bell::{self, Heard};
use weft_sys::shared::Shared;
use weft_verbs::QPN_INDEX_BITS;
use weft_wire::link_packet::LINK_PACKET_MAX;

/// Bytes of the ring from a process to the switches.
const OUT_BYTES: usize = if cfg!(loom) { 64 } else { 1 << 20 };
/// Bytes of the ring to a process: many processes may send to it at once.
const IN_BYTES: usize = if cfg!(loom) { 64 } else { 2 << 20 };
/// Bytes of a record's head.
const HEAD: usize = 8;
/// In place of a length: the next record is at the ring's beginning.
const SKIP: u32 = LENGTH_MASK;
/// Number of bits of a length; those above are the sender's slot, the port's number, and the device.
const LENGTH_BITS: u32 = 14;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const PORT_AT: u32 = 24;
const SLOT_MASK: u32 = (1 << (PORT_AT - LENGTH_BITS)) - 1;
const _: () = assert!(LINK_PACKET_MAX < LENGTH_MASK as usize && PORT_AT - LENGTH_BITS >= 24 - QPN_INDEX_BITS);

/// A port of a process: its device, and its number on the device.
pub type PortName = (u32, u8);

/// A port, and the slot of the process that sent a packet to it. The slot is unused in the direction of the switches,
/// which know the process of their cable.
type Label = (PortName, u32);

/// Words of different writers are in cache lines of their own; processors prefetch neighbouring lines in pairs.
const LINE: usize = 128;
const OUT: Way = Way { written_at: 0, taken_at: LINE, ring_at: RINGS_AT, bytes: OUT_BYTES };
const IN: Way = Way { written_at: 2 * LINE, taken_at: 3 * LINE, ring_at: RINGS_AT + OUT_BYTES, bytes: IN_BYTES };
/// Whether the daemon sleeps.
const ATTENTION: SleepWord = SleepWord::new(4 * LINE, SleepStates::ASLEEP_AT_FIRST);
/// Whether the process sleeps.
const SLEEP: SleepWord = SleepWord::new(5 * LINE, SleepStates::AWAKE_AT_FIRST);
/// Whether the daemon waits for room.
const WANTS_ROOM: SleepWord = SleepWord::new(6 * LINE, SleepStates::REQUEST);
pub(super) const RINGS_AT: usize = if cfg!(loom) { 7 * LINE } else { 4096 };
pub(super) const MEMORY_BYTES: usize = RINGS_AT + OUT_BYTES + IN_BYTES;

/// The other end broke the rules of its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Memory layout of one direction.
#[derive(Clone, Copy, Debug)]
struct Way {
    written_at: usize,
    taken_at: usize,
    ring_at: usize,
    bytes: usize,
}

/// Returns the bytes that a packet takes in a ring.
const fn record(len: usize) -> usize {
    HEAD + len.next_multiple_of(8)
}

/// The writing end.
#[derive(Debug)]
struct Writer {
    memory: Arc<Shared>,
    way: Way,
    written: u64,
    /// The other end's position at the last check.
    taken: u64,
}

impl Writer {
    fn new(memory: Arc<Shared>, way: Way) -> Writer {
        Writer { memory, way, written: 0, taken: 0 }
    }

    /// Puts a packet into the ring; returns `false` if there is no room. A receiver that claims more than was written
    /// gets none.
    fn push(&mut self, label: Label, packet: &[u8]) -> bool {
        let (need, at) = (record(packet.len()), (self.written as usize) % self.way.bytes);
        // A packet is contiguous.
        let skipped = if self.way.bytes - at < need { self.way.bytes - at } else { 0 };
        if packet.len() > LINK_PACKET_MAX || !self.has_room(skipped + need) {
            return false;
        }
        if skipped > 0 {
            self.head(at, SKIP, ((0, 0), 0));
        }
        let at = (at + skipped) % self.way.bytes;
        self.head(at, packet.len() as u32, label);
        self.memory.write(self.way.ring_at + at + HEAD, packet.len(), |to| {
            // SAFETY: the target is within the ring, which nothing borrows; the source is borrowed and elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len()) };
        });
        self.written = self.written.wrapping_add((skipped + need) as u64);
        self.memory.word(self.way.written_at).store(self.written, Ordering::Release);
        true
    }

    fn head(&self, at: usize, len: u32, ((device, port), slot): Label) {
        let low = u32::from(port) << PORT_AT | (slot & SLOT_MASK) << LENGTH_BITS | len;
        let word = u64::from(device) << 32 | u64::from(low);
        self.memory.word(self.way.ring_at + at).store(word, Ordering::Relaxed);
    }

    fn has_room(&mut self, need: usize) -> bool {
        if self.free() >= need {
            return true;
        }
        self.taken = self.memory.word(self.way.taken_at).load(Ordering::Acquire);
        self.free() >= need
    }

    /// Returns the free bytes; none if the other end claims more than was written.
    fn free(&self) -> usize {
        let used = self.written.wrapping_sub(self.taken);
        usize::try_from(used).map_or(0, |used| self.way.bytes.saturating_sub(used))
    }

    fn is_taken(&self) -> bool {
        self.memory.word(self.way.taken_at).load(Ordering::Acquire) == self.written
    }
}

/// The reading end.
#[derive(Debug)]
struct Reader {
    memory: Arc<Shared>,
    way: Way,
    taken: u64,
    /// The other end's position at the last check.
    written: u64,
}

impl Reader {
    fn new(memory: Arc<Shared>, way: Way) -> Reader {
        Reader { memory, way, taken: 0, written: 0 }
    }

    #[inline]
    fn has_some(&mut self) -> bool {
        if self.taken == self.written {
            self.written = self.memory.word(self.way.written_at).load(Ordering::Acquire);
        }
        self.taken != self.written
    }

    /// Copies the next packet into `out`; returns its destination or source port, and its sender.
    #[inline]
    fn pop(&mut self, out: &mut Vec<u8>) -> Result<Option<Label>, Broken> {
        if !self.has_some() {
            return Ok(None);
        }
        let there = usize::try_from(self.written.wrapping_sub(self.taken)).map_err(|_| Broken)?;
        if there > self.way.bytes || !there.is_multiple_of(8) {
            return Err(Broken);
        }
        let at = self.taken as usize % self.way.bytes;
        let (len, label) = self.head(at);
        let (skipped, at, len, label) = match len {
            SKIP if at != 0 => {
                let skipped = self.way.bytes - at;
                if there < skipped + HEAD {
                    return Err(Broken);
                }
                let (len, label) = self.head(0);
                (skipped, 0, len, label)
            }
            len => (0, at, len, label),
        };
        let len = len as usize;
        let need = record(len.min(LINK_PACKET_MAX));
        if len > LINK_PACKET_MAX || there < skipped + need || self.way.bytes - at < need {
            return Err(Broken);
        }
        out.clear();
        out.reserve(len);
        // SAFETY: the source is within the ring; the target has room for so many bytes, and is ours alone. Bytes that
        // change meanwhile are still valid bytes.
        self.memory.read(self.way.ring_at + at + HEAD, len, |from| unsafe {
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), len);
            out.set_len(len);
        });
        self.taken = self.taken.wrapping_add((skipped + need) as u64);
        self.memory.word(self.way.taken_at).store(self.taken, Ordering::Release);
        Ok(Some(label))
    }

    fn head(&self, at: usize) -> (u32, Label) {
        let word = self.memory.word(self.way.ring_at + at).load(Ordering::Relaxed);
        let low = word as u32;
        (low & LENGTH_MASK, (((word >> 32) as u32, (low >> PORT_AT) as u8), low >> LENGTH_BITS & SLOT_MASK))
    }
}

/// A process's descriptors of its cable: memory, the bell that wakes it, the bell that calls the daemon.
#[derive(Debug)]
pub struct ProcessFds {
    /// The rings.
    pub memory: OwnedFd,
    /// Readable when the process is rung.
    pub bell: OwnedFd,
    /// Rings the daemon when it sleeps.
    pub call: OwnedFd,
}

/// The process's end.
#[derive(Debug)]
pub struct ProcessEnd {
    out: Writer,
    inward: Reader,
    /// None once no ringer is left.
    bell: Option<OwnedFd>,
    call: OwnedFd,
}

impl ProcessEnd {
    /// Opens the end with the daemon's descriptors.
    ///
    /// # Errors
    /// The memory is not of the right kind, or there is no address space.
    pub fn new(fds: ProcessFds) -> io::Result<ProcessEnd> {
        let memory = Arc::new(Shared::map(&fds.memory, MEMORY_BYTES)?);
        let (out, inward) = (Writer::new(memory.clone(), OUT), Reader::new(memory, IN));
        Ok(ProcessEnd { out, inward, bell: Some(fds.bell), call: fds.call })
    }

    /// Returns a descriptor that is readable when the daemon rings, if a ringer is left.
    pub fn bell(&self) -> Option<&OwnedFd> {
        self.bell.as_ref()
    }

    /// Puts a packet into the ring; returns `false` if there is no room.
    pub fn push(&mut self, port: PortName, packet: &[u8]) -> bool {
        self.out.push((port, 0), packet)
    }

    /// Calls the daemon, if it sleeps, after packets were put into the ring.
    pub fn announce(&self) {
        fence_before_check();
        if ATTENTION.must_call(&self.out.memory) {
            bell::ring(&self.call);
        }
    }

    /// Takes the next packet, the port that it is for, and the slot of the process that sent it.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> Result<Option<(PortName, u32)>, Broken> {
        self.inward.pop(out)
    }

    /// Calls the daemon, if it waits for room, after packets were taken.
    pub fn made_room(&self) {
        fence_before_check();
        if WANTS_ROOM.must_call(&self.out.memory) {
            self.announce();
        }
    }

    /// Makes the daemon ring from now on, because no thread polls the ring. Returns `false` if packets wait already.
    pub fn fall_asleep(&mut self) -> bool {
        SLEEP.fall_asleep(&self.out.memory);
        !self.inward.has_some()
    }

    /// Announces that a thread polls the ring again. Returns the bell if the daemon is gone, or closed its end: the
    /// caller stops watching it, because it would wake for nothing.
    pub fn wake_up(&mut self) -> Option<OwnedFd> {
        if SLEEP.wake_up_if_asleep(&self.out.memory) {
            return self.bell.take_if(|bell| bell::silence(bell) == Heard::Gone);
        }
        None
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct SwitchEnd {
    out: Reader,
    inward: Writer,
    bell: OwnedFd,
    call: OwnedFd,
}

impl SwitchEnd {
    /// Makes a cable; the descriptors are for its process.
    ///
    /// # Errors
    /// Descriptors, memory or address space are used up.
    pub fn create() -> io::Result<(SwitchEnd, ProcessFds)> {
        let (memory, file): (Shared, File) = Shared::create("weft-packets", MEMORY_BYTES)?;
        let memory = Arc::new(memory);
        let (bell_to_hear, bell) = bell::bell()?;
        let (call, call_to_ring) = bell::bell()?;
        let (out, inward) = (Reader::new(memory.clone(), OUT), Writer::new(memory, IN));
        let fds = ProcessFds { memory: file.into(), bell: bell_to_hear, call: call_to_ring };
        Ok((SwitchEnd { out, inward, bell, call }, fds))
    }

    /// Returns a descriptor that is readable when the process calls.
    pub fn call(&self) -> impl AsFd + '_ {
        &self.call
    }

    /// Takes the next packet; returns the port that sent it.
    pub fn pop(&mut self, out: &mut Vec<u8>) -> Result<Option<PortName>, Broken> {
        Ok(self.out.pop(out)?.map(|(port, _)| port))
    }

    /// Puts a packet for a port into the ring, sent by the process with this slot; returns `false` if there is no room.
    pub fn push(&mut self, port: PortName, slot: u32, packet: &[u8]) -> bool {
        self.inward.push((port, slot), packet)
    }

    /// Rings the process, if it sleeps, after packets were put into the ring.
    pub fn announce(&self) {
        fence_before_check();
        if SLEEP.must_call(&self.out.memory) {
            bell::ring(&self.bell);
        }
    }

    /// Makes the process call as soon as it has made room. Returns `false` if it may have made some already.
    pub fn want_room(&self) -> bool {
        WANTS_ROOM.fall_asleep(&self.out.memory);
        !self.inward.is_taken()
    }

    /// Announces that the daemon polls the ring. `Gone`: the process cannot call any more.
    pub fn attend(&self) -> Heard {
        ATTENTION.wake_up(&self.out.memory);
        bell::silence(&self.call)
    }

    /// Announces that the daemon sleeps until called. Returns `false` if there is a packet: poll once more.
    pub fn sleep(&mut self) -> bool {
        ATTENTION.fall_asleep(&self.out.memory);
        !self.out.has_some()
    }
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (SwitchEnd, ProcessEnd) {
        let (switch, fds) = SwitchEnd::create().unwrap();
        (switch, ProcessEnd::new(fds).unwrap())
    }

    fn packet(n: usize) -> Vec<u8> {
        (0..n * 37 % (LINK_PACKET_MAX + 1)).map(|at| (at + n) as u8).collect()
    }

    #[test]
    fn packets_of_every_length_pass_in_order_lap_after_lap() {
        let (mut switch, mut process) = ends();
        let (mut sent, mut came, mut room) = (0, 0, Vec::new());
        while came < 20_000 {
            while sent < 20_000 && process.push((sent as u32, sent as u8), &packet(sent)) {
                sent += 1;
            }
            assert!(sent > came, "a ring that is empty has room");
            for _ in 0..100 {
                let Some(port) = switch.pop(&mut room).unwrap() else { break };
                assert_eq!((port, &room), ((came as u32, came as u8), &packet(came)));
                came += 1;
            }
        }
        assert_eq!(switch.pop(&mut room), Ok(None));
        assert!(switch.push((7, 2), 1023, &packet(9)));
        assert_eq!(process.pop(&mut room), Ok(Some(((7, 2), 1023))));
        assert!(!process.push((0, 1), &vec![0; LINK_PACKET_MAX + 1]), "longer than any packet");
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (mut switch, mut process) = ends();
        let readable = |fd: &OwnedFd| {
            let mut byte = [0; 8];
            rustix::io::read(fd, &mut byte).unwrap_or(0)
        };
        assert!(process.push((0, 1), &[1; 40]) && process.push((0, 1), &[2; 40]));
        process.announce();
        process.announce();
        assert_eq!(readable(&switch.call), 1);
        assert!(!switch.sleep(), "there are packets");
        assert_eq!(switch.attend(), Heard::Rung);
        process.announce();
        assert_eq!(readable(&switch.call), 0);
        let mut room = Vec::new();
        while switch.pop(&mut room).unwrap().is_some() {}
        assert!(switch.sleep() && process.fall_asleep());
        assert!(switch.push((0, 1), 0, &[3; 40]));
        switch.announce();
        switch.announce();
        assert_eq!(readable(process.bell().unwrap()), 1);
        assert!(!process.fall_asleep());
        switch.announce();
        assert!(process.wake_up().is_none());
        assert_eq!(readable(process.bell().unwrap()), 0, "the bell was taken");
        assert!(switch.want_room());
        assert_eq!(process.pop(&mut room), Ok(Some(((0, 1), 0))));
        process.made_room();
        assert_eq!(readable(&switch.call), 1);
        assert!(!switch.want_room(), "all is taken");
        assert!(process.fall_asleep());
        let ProcessEnd { call, .. } = process;
        drop(call);
        assert_eq!(switch.attend(), Heard::Gone, "nobody calls any more");
    }

    #[test]
    fn a_process_hears_that_the_switches_are_gone() {
        let (switch, mut process) = ends();
        assert!(process.fall_asleep());
        drop(switch);
        assert!(process.wake_up().is_some() && process.bell().is_none());
        assert!(process.wake_up().is_none(), "once");
    }

    #[test]
    fn who_lies_about_its_words_is_not_listened_to() {
        let lies: [(u64, u64); 6] = [
            (u64::MAX, 40),
            (4, 40),
            (OUT_BYTES as u64 + 8, 40),
            (48, LINK_PACKET_MAX as u64 + 1),
            (48, 41),
            (48, SKIP.into()),
        ];
        for (written, len) in lies {
            let (mut switch, process) = ends();
            process.out.memory.word(RINGS_AT).store(len, Ordering::Relaxed);
            process.out.memory.word(OUT.written_at).store(written, Ordering::Release);
            assert_eq!(switch.pop(&mut Vec::new()), Err(Broken), "{written} {len}");
        }
        let (mut switch, process) = ends();
        process.out.memory.word(IN.taken_at).store(80, Ordering::Release);
        let pushed = (0..10_000).filter(|_| switch.push((0, 1), 0, &[0; 4096])).count();
        assert!(pushed * 4104 <= IN_BYTES + 80, "no more than fits");
    }
}
