//! State of the false fabric, and the layout of its datagrams.

use std::collections::VecDeque;

use libc::c_int;

use super::random::Random;

/// Bytes in front of the datagram: `struct ib_user_mad`.
pub const HEAD: usize = 64;
/// Byte offset of the status in the head.
pub const STATUS_AT: usize = 4;
/// State of the false fabric.
pub struct FuzzUmad {
    pub random: Random,
    /// Seed of the fabric's attributes, which makes them the same in every answer.
    pub fabric: u64,
    pub waiting: VecDeque<Vec<u8>>,
    pub questions: u64,
    pub unasked: u32,
    pub agents: c_int,
}
