//! The short way of a port's datagrams: two rings in memory that a program and the daemon share, beside the port's
//! socket ([`crate::umad`]). A datagram of 256 bytes passes through a ring without a system call while both ends are at
//! work; longer ones, and those that find a ring full, go by the socket, so that nobody ever waits for room in a ring.
//! Datagrams may overtake one another, as on a fabric.
//!
//! ```text
//! word        its writer     what it says
//! requests    program        how many requests were ever put into the ring      (slots: the requests)
//!             daemon         how many of them it took
//! processors  each its own   one more than the number of the processor that it runs on: who shares it does not look
//!                            for the other, who can come only when he lets go
//! attention   daemon, and    ATTENDING: it looks at the ring by itself; ASLEEP: call it; CALLED: a program did
//!             the program
//! answers     daemon         how many answers were ever put into the ring       (slots: the answers)
//!             both           how many of them are taken, whether the program LOOKs at the ring or is ASLEEP on the socket,
//!                            and whether some are MOVING from here to the socket
//! by_socket   daemon         how many packets it sent by the socket: the program looks there when it grows
//! ```
//!
//! The socket is what a program polls, and it is readable exactly as long as a datagram waits there. So the daemon leaves
//! an answer in the ring only while the program looks at it, or is likely to: what the program does not take soon, and
//! what comes while it sleeps, the daemon *takes back* and sends by the socket. Whoever changes the word first has the
//! answer. Before the daemon sleeps it takes back all; a program that stops looking, and finds answers while the daemon
//! sleeps, calls it ([`UMAD_BELL`]).
//!
//! Whatever is read here is another process's to change at any moment: positions are checked, slots are copied out before
//! they are looked at. Who breaks the rules of its own words loses its own datagrams and nothing else.

mod daemon;
mod program;
mod ring;
#[cfg(test)]
mod tests;

pub use daemon::DaemonRing;
pub use program::{AnswerReader, Pushed, RequestWriter, program_ends};

use crate::umad::UMAD_HEAD_BYTES;
use ring::Direction;

/// Bytes of a datagram that fits into a slot: no more, no less.
pub const UMAD_RING_MAD_BYTES: usize = 256;

/// Bytes of a slot.
pub const UMAD_SLOT_BYTES: usize = UMAD_HEAD_BYTES + UMAD_RING_MAD_BYTES;

/// Slots of a ring.
pub const UMAD_RING_SLOTS: u64 = 256;

/// Bytes of the memory of a port.
pub const UMAD_RING_BYTES: usize = SLOTS_AT + 2 * RING_BYTES;

/// The packet by which a program calls the daemon, and by which it is rung on request.
pub const UMAD_BELL: &[u8] = &[1];

/// The packet by which a program says that it will not look into its ring any more: answers go by the socket.
pub const UMAD_NO_RING: &[u8] = &[2, 0];

/// The packet by which a program asks to be rung: it holds something that its descriptor does not show.
pub const UMAD_RING_ME: &[u8] = &[3, 0, 0];

/// A head and its datagram.
pub type Slot = [u8; UMAD_SLOT_BYTES];

const RING_BYTES: usize = UMAD_RING_SLOTS as usize * UMAD_SLOT_BYTES;

/// Words that different ends write stand in cache lines of their own, and neighbours are fetched in pairs.
const LINE: usize = 128;
const REQUESTS: Direction = Direction { written_at: 0, taken_at: LINE, slots_at: SLOTS_AT };
/// In lines that their writers write anyway.
const PROGRAMS_PROCESSOR_AT: usize = 8;
const DAEMONS_PROCESSOR_AT: usize = ATTENTION_AT + 8;
const ANSWERS: Direction = Direction { written_at: 2 * LINE, taken_at: 3 * LINE, slots_at: SLOTS_AT + RING_BYTES };
const ATTENTION_AT: usize = 4 * LINE;
const BY_SOCKET_AT: usize = 6 * LINE;
const SLOTS_AT: usize = 4096;

/// Values of the word of attention.
mod attention {
    pub const ASLEEP: u64 = 0;
    pub const CALLED: u64 = 1;
    pub const ATTENDING: u64 = 2;
}

/// The low bits of the word that says how many answers are taken: what the program does (nothing: something else), and one of
/// the daemon's.
mod program_state {
    /// It looks at the ring, and will not stop without a last look.
    pub const LOOKS: u64 = 1;
    /// It sleeps on the socket, whether or not it looked before.
    pub const ASLEEP: u64 = 2;
    pub const MASK: u64 = 3;
    /// The daemon took answers back that are not on the socket yet.
    pub const MOVING: u64 = 4;
    pub const BITS: u32 = 3;
}
