//! The daemon's end of a port's rings.

use std::fs::File;
use std::io;
use std::sync::Arc;

use weft_shm::{Consumer, Counter};
use weft_sys::shared::Shared;
use weft_sys::sync::{AtomicU64, Ordering, fence};

use super::ring::{Writer, change, holds_some, load, processor_here};
use super::{
    ANSWERS, ATTENTION, BY_SOCKET_AT, DAEMONS_PROCESSOR_AT, PROGRAMS_PROCESSOR_AT, REQUESTS, Slot, UMAD_RING_BYTES,
    UMAD_RING_MAD_BYTES, UMAD_RING_SLOTS, UMAD_SLOT_BYTES, program_state as state,
};
use crate::umad::UmadHead;

/// The daemon's end of a port's rings.
#[derive(Debug)]
pub struct DaemonRing {
    answers: Writer,
    requests: Consumer<Counter, UMAD_RING_SLOTS, UMAD_SLOT_BYTES>,
    by_socket: u64,
    /// Some answers were taken back and are not on the socket yet.
    moving: bool,
    /// Answers before this one were taken back, whatever position the program claims.
    floor: u64,
}

impl DaemonRing {
    /// Makes the memory of a port; the file goes to its program.
    ///
    /// # Errors
    /// Descriptors, memory or address space are used up.
    pub fn create() -> io::Result<(DaemonRing, File)> {
        let (memory, file) = Shared::create("weft-umad", UMAD_RING_BYTES)?;
        let answers = Writer::new(Arc::new(memory), ANSWERS);
        let requests = Consumer::new(REQUESTS.layout(), Counter::at(REQUESTS.written_at));
        Ok((DaemonRing { answers, requests, by_socket: 0, moving: false, floor: 0 }, file))
    }

    fn memory(&self) -> &Shared {
        &self.answers.memory
    }

    /// Returns the word with the number of answers taken and the program's state.
    fn word(&self) -> &AtomicU64 {
        self.memory().word(ANSWERS.taken_at)
    }

    /// Returns whether a request waits. An impossible position of the program counts as nothing written.
    fn has_request(&mut self) -> bool {
        self.requests.available(&self.answers.memory).is_ok_and(|count| count > 0)
    }

    /// Takes the next request.
    pub fn pop(&mut self, out: &mut Slot) -> bool {
        if !self.has_request() {
            return false;
        }
        load(self.memory(), self.requests.slot_at(), out);
        self.requests.take(&self.answers.memory, 1);
        true
    }

    /// Returns the processor that the program last sent from, according to the program.
    pub fn processor(&self) -> Option<usize> {
        let number = self.memory().word(PROGRAMS_PROCESSOR_AT).load(Ordering::Relaxed).checked_sub(1)?;
        usize::try_from(number).ok()
    }

    /// Tells the program on which processor the daemon runs.
    pub fn note_processor(&mut self) {
        self.memory().word(DAEMONS_PROCESSOR_AT).store(processor_here(), Ordering::Relaxed);
    }

    /// Announces that the daemon polls the ring from now on.
    pub fn attend(&mut self) {
        ATTENTION.wake_up(self.memory());
    }

    /// Announces that the program has to call the daemon from now on. Returns false if a request waits: poll once more.
    #[must_use]
    pub fn sleep(&mut self) -> bool {
        ATTENTION.fall_asleep(self.memory());
        !self.has_request()
    }

    /// Puts an answer into the ring; returns false if it is full.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> bool {
        let taken = |memory: &Shared| memory.word(ANSWERS.taken_at).load(Ordering::Acquire) >> state::BITS;
        self.answers.push(head, mad, taken)
    }

    /// Returns a number that grows with the program's activity: requests sent and answers taken.
    pub fn activity(&self) -> u64 {
        self.answers_taken().wrapping_add(self.requests.taken())
    }

    /// Returns whether an answer waits in the ring.
    pub fn has_answers(&self) -> bool {
        self.holds_answers(self.answers_taken())
    }

    /// Returns whether answers wait if `taken` are taken. A position before the floor is impossible: without this check
    /// a program that moves back would receive the same answers forever.
    fn holds_answers(&self, taken: u64) -> bool {
        taken >= self.floor && holds_some(taken, self.answers.written())
    }

    fn answers_taken(&self) -> u64 {
        self.word().load(Ordering::Acquire) >> state::BITS
    }

    /// If the program sleeps, takes back all answers in the ring and passes them to `each`; returns whether it did.
    pub fn take_back_from_sleeper(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|program| program & state::ASLEEP != 0, each)
    }

    /// Does the same unless the program polls the ring.
    pub fn take_back_unless_looked_at(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|program| program != state::LOOKS, each)
    }

    /// Does the same whatever the program's state.
    pub fn take_back_all(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|_| true, each)
    }

    fn take_back(&mut self, may: impl Fn(u64) -> bool, each: &mut dyn FnMut(Slot)) -> bool {
        // Pairs with a program that announces its state and then checks for answers.
        fence(Ordering::SeqCst);
        let word = self.word().load(Ordering::SeqCst);
        let (taken, program, written) = (word >> state::BITS, word & state::MASK, self.answers.written());
        // If the word changes meanwhile, the program is at work.
        let moved = written << state::BITS | program | state::MOVING;
        if !self.holds_answers(taken) || !may(program) || !change(self.word(), word, moved) {
            return false;
        }
        (self.moving, self.floor) = (true, written);
        for number in taken..written {
            let mut slot = [0; UMAD_SLOT_BYTES];
            ANSWERS.load(self.memory(), number, &mut slot);
            each(slot);
        }
        true
    }

    /// Marks the move as finished: all answers taken back are on the socket.
    pub fn end_move(&mut self) {
        if std::mem::take(&mut self.moving) {
            self.word().fetch_and(!state::MOVING, Ordering::SeqCst);
        }
    }

    /// Notes that the daemon sent so many packets over the socket.
    pub fn on_sent(&mut self, packets: usize) {
        self.by_socket = self.by_socket.wrapping_add(packets as u64);
        self.memory().word(BY_SOCKET_AT).store(self.by_socket, Ordering::Release);
    }
}

impl Drop for DaemonRing {
    fn drop(&mut self) {
        // A program that sends from now on calls the daemon, and finds the socket closed.
        ATTENTION.fall_asleep(self.memory());
    }
}
