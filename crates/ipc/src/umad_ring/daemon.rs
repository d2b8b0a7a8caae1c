//! The daemon's end of a port's rings.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_sys::shared::Shared;

use super::ring::{Writer, change, holds_some, processor_here};
use super::{
    ANSWERS, ATTENTION_AT, BY_SOCKET_AT, DAEMONS_PROCESSOR_AT, PROGRAMS_PROCESSOR_AT, REQUESTS, Slot, UMAD_RING_BYTES,
    UMAD_RING_MAD_BYTES, UMAD_SLOT_BYTES, attention, program_state as state,
};
use crate::umad::UmadHead;

/// The daemon's end.
#[derive(Debug)]
pub struct DaemonRing {
    answers: Writer,
    /// Requests that were taken.
    taken: u64,
    /// Requests that were written, as far as was known at the last look.
    written: u64,
    by_socket: u64,
    /// Answers that were taken back are not on the socket yet.
    moving: bool,
    /// Answers before this one were taken back, whatever the program says of them.
    floor: u64,
}

impl DaemonRing {
    /// Makes the memory of a port; the file is for its program.
    ///
    /// # Errors
    /// Descriptors, memory or address space are used up.
    pub fn create() -> io::Result<(DaemonRing, File)> {
        let (memory, file) = Shared::create("weft-umad", UMAD_RING_BYTES)?;
        let answers = Writer::new(Arc::new(memory), ANSWERS);
        Ok((DaemonRing { answers, taken: 0, written: 0, by_socket: 0, moving: false, floor: 0 }, file))
    }

    fn memory(&self) -> &Shared {
        &self.answers.memory
    }

    /// How many answers are taken, and what the program does.
    fn word(&self) -> &AtomicU64 {
        self.memory().word(ANSWERS.taken_at)
    }

    /// Whether a request lies there. A program whose position cannot be has written nothing.
    fn has_request(&mut self) -> bool {
        if self.taken == self.written {
            let written = self.memory().word(REQUESTS.written_at).load(Ordering::SeqCst);
            if holds_some(self.taken, written) {
                self.written = written;
            }
        }
        self.taken != self.written
    }

    /// Takes the next request.
    pub fn pop(&mut self, out: &mut Slot) -> bool {
        if !self.has_request() {
            return false;
        }
        REQUESTS.load(self.memory(), self.taken, out);
        self.taken = self.taken.wrapping_add(1);
        self.memory().word(REQUESTS.taken_at).store(self.taken, Ordering::Release);
        true
    }

    /// The processor that the program sent from last, as it says.
    pub fn processor(&self) -> Option<usize> {
        let number = self.memory().word(PROGRAMS_PROCESSOR_AT).load(Ordering::Relaxed).checked_sub(1)?;
        usize::try_from(number).ok()
    }

    /// Tells the program on which processor the daemon runs.
    pub fn note_processor(&mut self) {
        self.memory().word(DAEMONS_PROCESSOR_AT).store(processor_here(), Ordering::Relaxed);
    }

    /// From now on the daemon looks into the ring by itself.
    pub fn attend(&mut self) {
        self.memory().word(ATTENTION_AT).store(attention::ATTENDING, Ordering::SeqCst);
    }

    /// From now on the daemon has to be called. False: there is a request, look once more.
    #[must_use]
    pub fn sleep(&mut self) -> bool {
        self.memory().word(ATTENTION_AT).store(attention::ASLEEP, Ordering::SeqCst);
        !self.has_request()
    }

    /// Puts an answer into the ring; false if there is no room.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> bool {
        let taken = |memory: &Shared| memory.word(ANSWERS.taken_at).load(Ordering::Acquire) >> state::BITS;
        self.answers.push(head, mad, taken)
    }

    /// A number that grows with what the program does: requests that came and answers that it took.
    pub fn activity(&self) -> u64 {
        self.answers_taken().wrapping_add(self.taken)
    }

    /// Whether an answer lies in the ring.
    pub fn has_answers(&self) -> bool {
        self.holds_answers(self.answers_taken())
    }

    /// Whether answers lie there if so many are taken. A program that goes back behind what was taken back says what cannot
    /// be, and would be sent the same answers for ever.
    fn holds_answers(&self, taken: u64) -> bool {
        taken >= self.floor && holds_some(taken, self.answers.written)
    }

    fn answers_taken(&self) -> u64 {
        self.word().load(Ordering::Acquire) >> state::BITS
    }

    /// Takes back all answers that lie in the ring, if the program sleeps, and hands them out; true if it did.
    pub fn take_back_from_sleeper(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|program| program & state::ASLEEP != 0, each)
    }

    /// The same unless the program looks at the ring.
    pub fn take_back_unless_looked_at(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|program| program != state::LOOKS, each)
    }

    /// The same whatever it does.
    pub fn take_back_all(&mut self, each: &mut dyn FnMut(Slot)) -> bool {
        self.take_back(|_| true, each)
    }

    fn take_back(&mut self, may: impl Fn(u64) -> bool, each: &mut dyn FnMut(Slot)) -> bool {
        let word = self.word().load(Ordering::SeqCst);
        let (taken, program, written) = (word >> state::BITS, word & state::MASK, self.answers.written);
        // Where the word changes meanwhile the program is at work.
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

    /// All that was taken back is on the socket.
    pub fn end_move(&mut self) {
        if std::mem::take(&mut self.moving) {
            self.word().fetch_and(!state::MOVING, Ordering::SeqCst);
        }
    }

    /// So many packets were sent by the socket.
    pub fn on_sent(&mut self, packets: usize) {
        self.by_socket = self.by_socket.wrapping_add(packets as u64);
        self.memory().word(BY_SOCKET_AT).store(self.by_socket, Ordering::Release);
    }
}

impl Drop for DaemonRing {
    fn drop(&mut self) {
        // Who sends now calls, and finds the socket closed.
        self.memory().word(ATTENTION_AT).store(attention::ASLEEP, Ordering::SeqCst);
    }
}
