//! The short way of a port's datagrams: two rings in memory that a program and the daemon share, beside the port's
//! socket ([`crate::umad`]). A datagram of 256 bytes passes through a ring without a system call while both ends are at
//! work; longer ones, and those that find a ring full, go by the socket, so that nobody ever waits for room in a ring.
//! Datagrams may overtake one another, as on a fabric.
//!
//! ```text
//! word        its writer     what it says
//! requests    program        how many requests were ever put into the ring      (slots: the requests)
//!             daemon         how many of them it took
//! attention   daemon, and    ATTENDING: it looks at the ring by itself; ASLEEP: call it; CALLED: a program did
//!             the program
//! answers     daemon         as above, the other way
//!             program
//! by_socket   daemon         how many packets it sent by the socket: the program looks there when it grows
//! bell        both           LAZY: ring when something lies there for long; NOW: the program sleeps; RUNG: it was rung
//! ```
//!
//! The socket is what a program polls, so it is readable as long as something lies in the ring and the program does not
//! come for it: the daemon then *rings*, by a packet of one byte, and the program takes that packet away when it has
//! emptied the ring. To call the daemon is the same packet the other way.
//!
//! Whatever is read here is another process's to change at any moment: positions are checked, slots are copied out before
//! they are looked at. Who breaks the rules of its own words loses its own datagrams and nothing else.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use weft_sys::shared::Shared;
use zerocopy::IntoBytes;

use crate::umad::{UMAD_HEAD_BYTES, UmadHead};

/// Bytes of a datagram that fits into a slot: no more, no less.
pub const UMAD_RING_MAD_BYTES: usize = 256;

/// Bytes of a slot.
pub const UMAD_SLOT_BYTES: usize = UMAD_HEAD_BYTES + UMAD_RING_MAD_BYTES;

/// Slots of a ring.
pub const UMAD_RING_SLOTS: u64 = 256;

/// Bytes of the memory of a port.
pub const UMAD_RING_BYTES: usize = SLOTS_AT + 2 * RING_BYTES;

/// The packet on the socket that rings, or calls the daemon.
pub const UMAD_BELL: &[u8] = &[1];

/// The packet by which a program says that it will not look into its ring any more: answers go by the socket.
pub const UMAD_NO_RING: &[u8] = &[2, 0];

/// The packet by which a program asks to be rung: it holds something that its descriptor does not show.
pub const UMAD_RING_ME: &[u8] = &[3, 0, 0];

const RING_BYTES: usize = UMAD_RING_SLOTS as usize * UMAD_SLOT_BYTES;
const SLOT_WORDS: usize = UMAD_SLOT_BYTES / 8;

/// Words that different ends write stand in cache lines of their own, and neighbours are fetched in pairs.
const LINE: usize = 128;
const REQUESTS: Direction = Direction { written_at: 0, taken_at: LINE, slots_at: SLOTS_AT };
const ANSWERS: Direction = Direction { written_at: 2 * LINE, taken_at: 3 * LINE, slots_at: SLOTS_AT + RING_BYTES };
const ATTENTION_AT: usize = 4 * LINE;
const BELL_AT: usize = 5 * LINE;
const BY_SOCKET_AT: usize = 6 * LINE;
const SLOTS_AT: usize = 4096;

const ASLEEP: u64 = 0;
const CALLED: u64 = 1;
const ATTENDING: u64 = 2;

const LAZY: u64 = 0;
const NOW: u64 = 1;
const RUNG: u64 = 2;

/// A head and its datagram.
pub type Slot = [u8; UMAD_SLOT_BYTES];

/// What stands where for one way.
#[derive(Clone, Copy, Debug)]
struct Direction {
    written_at: usize,
    taken_at: usize,
    slots_at: usize,
}

impl Direction {
    fn slot<'a>(&self, memory: &'a Shared, number: u64) -> &'a [AtomicU64; SLOT_WORDS] {
        memory.words(self.slots_at + (number % UMAD_RING_SLOTS) as usize * UMAD_SLOT_BYTES)
    }
}

/// The end that writes a ring.
#[derive(Debug)]
struct Writer {
    memory: Arc<Shared>,
    way: Direction,
    written: u64,
    /// As far as was known at the last look.
    taken: u64,
}

impl Writer {
    fn new(memory: Arc<Shared>, way: Direction) -> Writer {
        Writer { memory, way, written: 0, taken: 0 }
    }

    fn has_room(&mut self) -> bool {
        if self.written.wrapping_sub(self.taken) < UMAD_RING_SLOTS {
            return true;
        }
        self.taken = self.memory.word(self.way.taken_at).load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken) < UMAD_RING_SLOTS
    }

    /// Puts a datagram into the ring; false if there is no room.
    fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> bool {
        if !self.has_room() {
            return false;
        }
        let slot = self.way.slot(&self.memory, self.written);
        let (head_words, mad_words) = slot.split_at(UMAD_HEAD_BYTES / 8);
        store(head_words, head.as_bytes());
        store(mad_words, mad);
        self.written = self.written.wrapping_add(1);
        self.memory.word(self.way.written_at).store(self.written, Ordering::Release);
        true
    }

    /// Whether the other end has taken everything.
    fn is_taken(&self) -> bool {
        self.memory.word(self.way.taken_at).load(Ordering::Acquire) == self.written
    }
}

fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

/// The end that reads a ring.
#[derive(Debug)]
struct Reader {
    memory: Arc<Shared>,
    way: Direction,
    taken: u64,
    /// As far as was known at the last look.
    written: u64,
}

impl Reader {
    fn new(memory: Arc<Shared>, way: Direction) -> Reader {
        Reader { memory, way, taken: 0, written: 0 }
    }

    /// Whether something lies there. A writer whose position cannot be has written nothing.
    fn has_some(&mut self) -> bool {
        if self.taken == self.written {
            let written = self.memory.word(self.way.written_at).load(Ordering::Acquire);
            if written.wrapping_sub(self.taken) <= UMAD_RING_SLOTS {
                self.written = written;
            }
        }
        self.taken != self.written
    }

    /// Takes the next datagram.
    fn pop(&mut self, out: &mut Slot) -> bool {
        if !self.has_some() {
            return false;
        }
        let slot = self.way.slot(&self.memory, self.taken);
        for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(slot) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        self.taken = self.taken.wrapping_add(1);
        self.memory.word(self.way.taken_at).store(self.taken, Ordering::Release);
        true
    }
}

fn change(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Where a program puts its requests.
#[derive(Debug)]
pub struct RequestWriter(Writer);

/// Where a program finds its answers.
#[derive(Debug)]
pub struct AnswerReader {
    answers: Reader,
    /// Packets that were taken from the socket.
    from_socket: u64,
}

/// The program's ends of the memory that the daemon gave it.
///
/// # Errors
/// It is not such memory, or there is no address space.
pub fn program_ends(file: impl AsFd) -> io::Result<(RequestWriter, AnswerReader)> {
    let memory = Arc::new(Shared::map(file, UMAD_RING_BYTES)?);
    let answers = Reader::new(memory.clone(), ANSWERS);
    Ok((RequestWriter(Writer::new(memory, REQUESTS)), AnswerReader { answers, from_socket: 0 }))
}

/// What a program has to do after it put a request into the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// There is no room: send it by the socket.
    NoRoom,
    /// The daemon sees it.
    Seen,
    /// Send [`UMAD_BELL`] to the daemon, which sleeps.
    Call,
}

impl RequestWriter {
    /// Puts a request into the ring.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> Pushed {
        if !self.0.push(head, mad) {
            return Pushed::NoRoom;
        }
        if must_call(&self.0.memory) { Pushed::Call } else { Pushed::Seen }
    }
}

/// Whether the daemon does not look by itself, and nobody has called it yet.
fn must_call(memory: &Shared) -> bool {
    fence(Ordering::SeqCst);
    let attention = memory.word(ATTENTION_AT);
    attention.load(Ordering::Relaxed) == ASLEEP && change(attention, ASLEEP, CALLED)
}

impl AnswerReader {
    /// Takes the next answer.
    pub fn pop(&mut self, out: &mut Slot) -> bool {
        self.answers.pop(out)
    }

    /// Whether an answer lies in the ring.
    pub fn has_some(&mut self) -> bool {
        self.answers.has_some()
    }

    /// Whether something is to be looked for on the socket.
    pub fn is_socket_due(&self) -> bool {
        self.answers.memory.word(BY_SOCKET_AT).load(Ordering::Acquire) != self.from_socket
    }

    /// A packet was taken from the socket, or there was none.
    pub fn on_socket(&mut self, taken: bool) {
        self.from_socket = match taken {
            true => self.from_socket.wrapping_add(1),
            false => self.answers.memory.word(BY_SOCKET_AT).load(Ordering::Acquire),
        };
    }

    /// Whether the bell is on the socket, or on its way there.
    pub fn is_rung(&self) -> bool {
        self.answers.memory.word(BELL_AT).load(Ordering::Acquire) == RUNG
    }

    /// The bell was taken from the socket. True: something came meanwhile that nobody will ring for; call the daemon.
    #[must_use]
    pub fn on_bell(&mut self) -> bool {
        self.answers.memory.word(BELL_AT).store(LAZY, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.has_some() && must_call(&self.answers.memory)
    }

    /// The program goes to sleep on the socket: it is rung at once from now on. False: something is there already.
    #[must_use]
    pub fn begin_sleep(&mut self) -> bool {
        // Where the bell was rung already, the socket is readable.
        change(self.answers.memory.word(BELL_AT), LAZY, NOW);
        fence(Ordering::SeqCst);
        !self.has_some()
    }

    /// It is awake.
    pub fn end_sleep(&mut self) {
        change(self.answers.memory.word(BELL_AT), NOW, LAZY);
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct DaemonRing {
    requests: Reader,
    answers: Writer,
    by_socket: u64,
}

impl DaemonRing {
    /// Makes the memory of a port; the file is for its program.
    ///
    /// # Errors
    /// Descriptors, memory or address space are used up.
    pub fn create() -> io::Result<(DaemonRing, File)> {
        let (memory, file) = Shared::create("weft-umad", UMAD_RING_BYTES)?;
        let memory = Arc::new(memory);
        let (requests, answers) = (Reader::new(memory.clone(), REQUESTS), Writer::new(memory, ANSWERS));
        Ok((DaemonRing { requests, answers, by_socket: 0 }, file))
    }

    /// Takes the next request.
    pub fn pop(&mut self, out: &mut Slot) -> bool {
        self.requests.pop(out)
    }

    /// From now on the daemon looks into the ring by itself.
    pub fn attend(&mut self) {
        self.answers.memory.word(ATTENTION_AT).store(ATTENDING, Ordering::SeqCst);
    }

    /// From now on the daemon has to be called. False: there is a request, look once more.
    #[must_use]
    pub fn sleep(&mut self) -> bool {
        self.answers.memory.word(ATTENTION_AT).store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.requests.has_some()
    }

    /// Puts an answer into the ring; false if there is no room.
    pub fn push(&mut self, head: &UmadHead, mad: &[u8; UMAD_RING_MAD_BYTES]) -> bool {
        self.answers.push(head, mad)
    }

    /// Whether the program has taken all answers.
    pub fn is_taken(&self) -> bool {
        self.answers.is_taken()
    }

    /// Whether the program sleeps and is to be rung at once; by this it counts as rung.
    pub fn take_sleeper(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let bell = self.answers.memory.word(BELL_AT);
        bell.load(Ordering::Relaxed) == NOW && change(bell, NOW, RUNG)
    }

    /// Whether the program is to be rung, because answers lie there for long; by this it counts as rung.
    pub fn take_unrung(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let bell = self.answers.memory.word(BELL_AT);
        !self.is_taken() && bell.load(Ordering::Relaxed) != RUNG && bell.swap(RUNG, Ordering::SeqCst) != RUNG
    }

    /// The program counts as rung.
    pub fn set_rung(&mut self) {
        self.answers.memory.word(BELL_AT).store(RUNG, Ordering::SeqCst);
    }

    /// So many packets were sent by the socket.
    pub fn on_sent(&mut self, packets: usize) {
        self.by_socket = self.by_socket.wrapping_add(packets as u64);
        self.answers.memory.word(BY_SOCKET_AT).store(self.by_socket, Ordering::Release);
    }
}

impl Drop for DaemonRing {
    fn drop(&mut self) {
        // Who sends now calls, and finds the socket closed.
        self.answers.memory.word(ATTENTION_AT).store(ASLEEP, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mad(n: u64) -> [u8; UMAD_RING_MAD_BYTES] {
        std::array::from_fn(|at| (n as usize + at) as u8)
    }

    fn ends() -> (DaemonRing, RequestWriter, AnswerReader) {
        let (daemon, file) = DaemonRing::create().unwrap();
        let (writer, reader) = program_ends(&file).unwrap();
        (daemon, writer, reader)
    }

    #[test]
    fn datagrams_pass_in_order_lap_after_lap_and_a_full_ring_refuses() {
        let (mut daemon, mut writer, mut reader) = ends();
        daemon.attend();
        let mut slot = [0; UMAD_SLOT_BYTES];
        for lap in 0..5 {
            for n in 0..UMAD_RING_SLOTS {
                let head = UmadHead { agent: (lap * 1000 + n) as u32, ..UmadHead::default() };
                assert_eq!(writer.push(&head, &mad(n)), Pushed::Seen);
            }
            assert_eq!(writer.push(&UmadHead::default(), &mad(0)), Pushed::NoRoom);
            for n in 0..UMAD_RING_SLOTS {
                assert!(daemon.pop(&mut slot));
                assert_eq!(slot[..4], ((lap * 1000 + n) as u32).to_ne_bytes());
                assert_eq!(slot[UMAD_HEAD_BYTES..], mad(n));
                assert!(daemon.push(&UmadHead::default(), &mad(n)));
            }
            assert!(!daemon.pop(&mut slot) && !daemon.push(&UmadHead::default(), &mad(0)));
            while reader.pop(&mut slot) {}
            assert!(daemon.is_taken());
        }
    }

    #[test]
    fn a_daemon_that_sleeps_is_called_once() {
        let (mut daemon, mut writer, _) = ends();
        let head = UmadHead::default();
        assert_eq!(writer.push(&head, &mad(0)), Pushed::Call);
        assert_eq!(writer.push(&head, &mad(1)), Pushed::Seen);
        assert!(!daemon.sleep(), "there are requests");
        daemon.attend();
        let mut slot = [0; UMAD_SLOT_BYTES];
        while daemon.pop(&mut slot) {}
        assert!(daemon.sleep());
        assert_eq!(writer.push(&head, &mad(2)), Pushed::Call);
        drop(daemon);
        assert_eq!(writer.push(&head, &mad(3)), Pushed::Call, "and finds the socket closed");
    }

    #[test]
    fn the_socket_is_rung_when_it_must_be_readable_and_only_then() {
        let (mut daemon, _writer, mut reader) = ends();
        let (head, mut slot) = (UmadHead::default(), [0; UMAD_SLOT_BYTES]);
        daemon.attend();
        assert!(!daemon.take_unrung(), "nothing lies there");
        assert!(daemon.push(&head, &mad(0)));
        assert!(!daemon.take_sleeper(), "nobody sleeps");
        assert!(daemon.take_unrung() && !daemon.take_unrung());
        assert!(!reader.is_socket_due());
        daemon.on_sent(1);
        assert!(reader.is_socket_due() && reader.pop(&mut slot));
        // It is taken off the socket while something new comes, and the daemon has gone to sleep.
        assert!(daemon.push(&head, &mad(1)) && !daemon.take_unrung());
        assert!(daemon.sleep());
        reader.on_socket(true);
        assert!(reader.on_bell(), "the daemon is called");
        assert!(!reader.is_socket_due());
        assert!(daemon.take_unrung());
        daemon.on_sent(1);
        // A sleeper is rung at once.
        assert!(reader.pop(&mut slot));
        reader.on_socket(true);
        assert!(!reader.on_bell() && reader.begin_sleep());
        assert!(daemon.push(&head, &mad(2)) && daemon.take_sleeper() && !daemon.take_unrung());
        reader.end_sleep();
        assert!(!reader.begin_sleep(), "something is there");
    }

    proptest! {
        /// Whatever words the other end writes, no end panics, and none reads more than is in the ring at once.
        #[test]
        fn any_words_are_survived(words: Vec<(u8, u64)>) {
            let (mut daemon, mut writer, mut reader) = ends();
            let hostile = daemon.answers.memory.clone();
            let mut slot = [0; UMAD_SLOT_BYTES];
            for (place, value) in words {
                hostile.word(usize::from(place % 8) * LINE).store(value, Ordering::SeqCst);
                writer.push(&UmadHead::default(), &mad(value));
                daemon.push(&UmadHead::default(), &mad(value));
                for _ in 0..3 {
                    daemon.pop(&mut slot);
                    reader.pop(&mut slot);
                }
                let _ = (daemon.sleep(), daemon.take_sleeper(), daemon.take_unrung(), daemon.is_taken());
                reader.on_socket(value % 2 == 0);
                let _ = (reader.on_bell(), reader.begin_sleep(), reader.is_socket_due());
                reader.end_sleep();
                daemon.attend();
            }
        }
    }
}
