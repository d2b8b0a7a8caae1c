//! The program's ends of a port's rings.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use weft_sys::sync::{AtomicU64, Ordering, fence};

use weft_shm::fence_before_check;
use weft_sys::shared::Shared;

use super::ring::{Writer, change, holds_some, processor_here};
use super::{
    ANSWERS, ATTENTION, BY_SOCKET_AT, DAEMONS_PROCESSOR_AT, PROGRAMS_PROCESSOR_AT, REQUESTS, Slot, UMAD_RING_BYTES,
    UMAD_RING_MAD_BYTES, program_state as state,
};
use crate::umad::UmadHead;

/// How often `pop` retries if the daemon keeps taking the next answer back and putting others in its place.
const REACHES: u32 = 64;

/// The program's end of the ring of requests.
#[derive(Debug)]
pub struct RequestWriter {
    ring: Writer,
    /// Value last written to the program's processor word.
    processor: u64,
}

/// The program's end of the ring of answers.
#[derive(Debug)]
pub struct AnswerReader {
    memory: Arc<Shared>,
    /// Answers written, as of the last read of that word.
    written: u64,
    /// Packets taken from the socket.
    from_socket: u64,
}

/// Maps the memory that the daemon gave, and returns the program's ends.
///
/// # Errors
/// The file is not such memory, or address space is used up.
pub fn program_ends(file: impl AsFd) -> io::Result<(RequestWriter, AnswerReader)> {
    let memory = Arc::new(Shared::map(file, UMAD_RING_BYTES)?);
    let requests = RequestWriter { ring: Writer::new(memory.clone(), REQUESTS), processor: 0 };
    Ok((requests, AnswerReader { memory, written: 0, from_socket: 0 }))
}

/// The caller's next step after it puts a request into the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// The ring is full: send the request over the socket.
    NoRoom,
    /// None: the daemon sees the request.
    Seen,
    /// Send [`super::UMAD_BELL`] to the daemon, which sleeps.
    Call,
}

impl RequestWriter {
    /// Puts a request into the ring.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> Pushed {
        self.note_processor();
        if !self.ring.push(head, mad, |memory| memory.word(REQUESTS.taken_at).load(Ordering::Acquire)) {
            return Pushed::NoRoom;
        }
        fence_before_check();
        if ATTENTION.must_call(&self.ring.memory) { Pushed::Call } else { Pushed::Seen }
    }

    fn note_processor(&mut self) {
        let processor = processor_here();
        if processor != self.processor {
            self.processor = processor;
            self.ring.memory.word(PROGRAMS_PROCESSOR_AT).store(processor, Ordering::Relaxed);
        }
    }
}

impl AnswerReader {
    fn word(&self) -> &AtomicU64 {
        self.memory.word(ANSWERS.taken_at)
    }

    fn holds_some(&mut self, taken: u64) -> bool {
        if !holds_some(taken, self.written) {
            self.written = self.memory.word(ANSWERS.written_at).load(Ordering::SeqCst);
        }
        holds_some(taken, self.written)
    }

    /// Returns whether an answer waits in the ring.
    pub fn has_some(&mut self) -> bool {
        let taken = self.word().load(Ordering::Acquire) >> state::BITS;
        self.holds_some(taken)
    }

    /// Takes the next answer; from then on the program counts as not polling.
    pub fn pop(&mut self, out: &mut Slot) -> bool {
        for _ in 0..REACHES {
            let word = self.word().load(Ordering::Acquire);
            let taken = word >> state::BITS;
            if !self.holds_some(taken) {
                return false;
            }
            ANSWERS.load(&self.memory, taken, out);
            if change(self.word(), word, taken.wrapping_add(1) << state::BITS) {
                return true;
            }
        }
        false
    }

    /// Copies the next answer and leaves it in the ring.
    pub fn peek(&mut self, out: &mut Slot) -> bool {
        let taken = self.word().load(Ordering::Acquire) >> state::BITS;
        let some = self.holds_some(taken);
        if some {
            ANSWERS.load(&self.memory, taken, out);
        }
        some
    }

    /// Returns whether the socket may hold packets.
    pub fn is_socket_due(&self) -> bool {
        self.memory.word(BY_SOCKET_AT).load(Ordering::Acquire) != self.from_socket
    }

    /// Notes that the program took a packet from the socket, or found none.
    pub fn on_socket(&mut self, taken: bool) {
        self.from_socket = match taken {
            true => self.from_socket.wrapping_add(1),
            false => self.memory.word(BY_SOCKET_AT).load(Ordering::Acquire),
        };
    }

    /// Returns whether answers are moving from the ring to the socket, and how many packets the socket ever received. A
    /// caller that saw an answer a moment ago and now finds it neither in the ring nor on the socket retries while the
    /// first is true, and once more if the second has changed.
    pub fn moves(&self) -> (bool, u64) {
        let moving = self.word().load(Ordering::SeqCst) & state::MOVING != 0;
        (moving, self.memory.word(BY_SOCKET_AT).load(Ordering::SeqCst))
    }

    /// Returns whether the daemon works on another processor, so that an answer may arrive while the program polls.
    pub fn is_worth_looking(&self) -> bool {
        let daemons = self.memory.word(DAEMONS_PROCESSOR_AT).load(Ordering::Relaxed);
        !ATTENTION.is_asleep(&self.memory) && daemons != processor_here()
    }

    /// Announces that the program polls the ring until [`AnswerReader::end_wait`]: the daemon leaves answers there.
    pub fn begin_look(&self) {
        self.word().fetch_or(state::LOOKS, Ordering::SeqCst);
    }

    /// Announces that the program sleeps on the socket: answers go there from now on. Returns false if one waits in the
    /// ring.
    #[must_use]
    pub fn begin_sleep(&mut self) -> bool {
        let before = self.word().fetch_or(state::ASLEEP, Ordering::SeqCst);
        // Pairs with a daemon that puts an answer in and then checks whether the program sleeps.
        fence(Ordering::SeqCst);
        !self.holds_some(before >> state::BITS)
    }

    /// Announces that the program is awake, and does not poll.
    pub fn end_wait(&self) {
        self.word().fetch_and(!state::MASK, Ordering::SeqCst);
        // Against a daemon that falls asleep and then checks whether the program polls.
        fence_before_check();
    }

    /// Returns whether the caller must call the daemon: answers wait in the ring, and it fell asleep while the program
    /// polled.
    #[must_use]
    pub fn must_call(&mut self) -> bool {
        self.has_some() && ATTENTION.must_call(&self.memory)
    }
}
