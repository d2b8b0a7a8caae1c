//! Fast path of a port's datagrams: two rings in memory that a program and the daemon share, beside the port's socket
//! ([`crate::umad`]). A datagram of 256 bytes passes through a ring without a system call while both ends are at work.
//! Longer ones, and those that find a ring full, take the socket, so that neither end waits for room in a ring.
//! Datagrams may overtake one another, as on a fabric.
//!
//! ```text
//! word        its writer     meaning
//! requests    program        how many requests were ever put into the ring      (slots: the requests)
//!             daemon         how many of them it took
//! processors  each its own   one more than the number of the processor that it runs on: an end does not poll for an
//!                            end on the same processor, which runs only after the first yields
//! attention   daemon, and    ATTENDING: it polls the ring; ASLEEP: call it; CALLED: a program did
//!             the program
//! answers     daemon         how many answers were ever put into the ring       (slots: the answers)
//!             both           how many of them are taken, whether the program LOOKs at the ring or is ASLEEP on the
//!                            socket, and whether some are MOVING from here to the socket
//! by_socket   daemon         how many packets it sent over the socket: the program reads the socket when it grows
//! ```
//!
//! A program polls the socket, which is readable exactly as long as a datagram waits there. So the daemon leaves an
//! answer in the ring only while the program polls the ring, or is likely to. Answers that the program does not take
//! soon, and those that arrive while it sleeps, the daemon *takes back* and sends over the socket. The end that changes
//! the word first has the answer. Before the daemon sleeps it takes back all answers. A program that stops polling the
//! ring, and finds answers while the daemon sleeps, calls the daemon ([`UMAD_BELL`]).
//!
//! Another process can change this memory at any moment: each end checks positions, and copies slots out before it
//! reads them. An end that breaks these rules loses its own datagrams and nothing else.

mod daemon;
#[cfg(all(test, loom))]
mod models;
mod program;
mod ring;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

pub use daemon::DaemonRing;
pub use program::{AnswerReader, Pushed, RequestWriter, program_ends};
pub use slot::{Slot, UMAD_RING_MAD_BYTES, UMAD_RING_SLOTS, UMAD_SLOT_BYTES};

use weft_shm::{SleepStates, SleepWord};

use ring::Direction;

/// Bytes of a port's shared memory.
pub const UMAD_RING_BYTES: usize = SLOTS_AT + 2 * RING_BYTES;

/// Packet by which a program calls the daemon, and by which the daemon rings the program on request.
pub const UMAD_BELL: &[u8] = &[1];

/// Packet by which a program says that it stops reading its ring: answers take the socket from then on.
pub const UMAD_NO_RING: &[u8] = &[2, 0];

/// Packet by which a program asks for a ring: it holds a datagram that its descriptor does not show.
pub const UMAD_RING_ME: &[u8] = &[3, 0, 0];

const RING_BYTES: usize = UMAD_RING_SLOTS as usize * UMAD_SLOT_BYTES;

/// Words of different writers lie in separate pairs of cache lines, since processors prefetch lines in pairs.
const LINE: usize = 128;
const REQUESTS: Direction = Direction { written_at: 0, taken_at: LINE, slots_at: SLOTS_AT };
/// Both lie in cache lines that their writers write anyway.
const PROGRAMS_PROCESSOR_AT: usize = 8;
const DAEMONS_PROCESSOR_AT: usize = ATTENTION_AT + 8;
const ANSWERS: Direction = Direction { written_at: 2 * LINE, taken_at: 3 * LINE, slots_at: SLOTS_AT + RING_BYTES };
/// Whether the daemon sleeps.
const ATTENTION: SleepWord = SleepWord::new(ATTENTION_AT, SleepStates::ASLEEP_AT_FIRST);
const ATTENTION_AT: usize = 4 * LINE;
const BY_SOCKET_AT: usize = 6 * LINE;
const SLOTS_AT: usize = if cfg!(loom) { 7 * LINE } else { 4096 };

/// The low bits of the word with the number of answers taken: the program's state (0: busy elsewhere), and one bit of
/// the daemon's.
mod program_state {
    /// It polls the ring, and polls it once more before it stops.
    pub const LOOKS: u64 = 1;
    /// It sleeps on the socket, whether or not it polled before.
    pub const ASLEEP: u64 = 2;
    pub const MASK: u64 = 3;
    /// The daemon took answers back that are not on the socket yet.
    pub const MOVING: u64 = 4;
    pub const BITS: u32 = 3;
}
