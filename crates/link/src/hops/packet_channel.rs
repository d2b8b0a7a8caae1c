//! The packet channel between a process and the switches in the daemon: two rings of packets in shared memory, one per
//! direction, and two bells that wake a sleeping end.
//!
//! ```text
//! word        writer    meaning
//! written     sender    bytes ever put into the ring
//! taken       receiver  bytes ever taken out of it
//! attention   both      ATTENDING: the daemon polls; ASLEEP: call it; CALLED: the process did
//! sleep       both      AWAKE: the process polls; ASLEEP: ring; RUNG: the daemon did
//! wants_room  both      1: the daemon waits for room; the process clears it and calls
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use weft_shm::{Broken, SleepStates, SleepWord, fence_before_check};
use weft_sys::bell::{self, Heard};
use weft_sys::shared::Shared;

use super::packet_ring::{Direction, PortName, Reader, Writer};

/// Bytes of the ring from a process to the switches.
const OUT_BYTES: usize = if cfg!(loom) { 64 } else { 1 << 20 };
/// Bytes of the ring to a process: many processes may send to it at once.
const IN_BYTES: usize = if cfg!(loom) { 64 } else { 2 << 20 };
/// Words of different writers are in cache lines of their own; processors prefetch neighbouring lines in pairs.
const LINE: usize = 128;
const OUT: Direction = Direction { written_at: 0, taken_at: LINE, ring_at: RINGS_AT };
const IN: Direction = Direction { written_at: 2 * LINE, taken_at: 3 * LINE, ring_at: RINGS_AT + OUT_BYTES };
/// Whether the daemon sleeps.
const ATTENTION: SleepWord = SleepWord::new(4 * LINE, SleepStates::ASLEEP_AT_FIRST);
/// Whether the process sleeps.
const SLEEP: SleepWord = SleepWord::new(5 * LINE, SleepStates::AWAKE_AT_FIRST);
/// Whether the daemon waits for room.
const WANTS_ROOM: SleepWord = SleepWord::new(6 * LINE, SleepStates::REQUEST);
pub(super) const RINGS_AT: usize = if cfg!(loom) { 7 * LINE } else { 4096 };
pub(super) const MEMORY_BYTES: usize = RINGS_AT + OUT_BYTES + IN_BYTES;

/// A process's descriptors of its packet channel: memory, the bell that wakes it, the bell that calls the daemon.
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
    out: Writer<{ OUT_BYTES as u64 }>,
    inward: Reader<{ IN_BYTES as u64 }>,
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
    out: Reader<{ OUT_BYTES as u64 }>,
    inward: Writer<{ IN_BYTES as u64 }>,
    bell: OwnedFd,
    call: OwnedFd,
}

impl SwitchEnd {
    /// Makes a packet channel; the descriptors are for its process.
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
    use weft_sys::sync::Ordering;
    use weft_wire::link_packet::LINK_PACKET_MAX;

    use super::super::packet_ring::SKIP;
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
