//! Buffers that the program maps for its peer.

use libc::{c_int, c_void};
use std::collections::VecDeque;
use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_pd};

use crate::errors::made;
use crate::rsocket::proto::sge::{IoMap, Sge};
use crate::rsocket::verbs::{ibv_dereg_mr, ibv_reg_mr};

/// A registered buffer of the program's.
pub(super) struct Mapping {
    pub(super) mr: *mut ibv_mr,
    pub(super) addr: u64,
    pub(super) bytes: usize,
    pub(super) offset: u64,
    /// Its entry in the peer's list; `None` for a mapping of this side alone.
    pub(super) index: Option<u16>,
}

// SAFETY: a registration belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Registers a buffer.
    pub(super) fn register(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        bytes: usize,
        offset: u64,
        index: Option<u16>,
    ) -> Result<Mapping, c_int> {
        let remote = if index.is_some() { IBV_ACCESS_REMOTE_WRITE } else { 0 };
        // SAFETY: the connection's domain; the program keeps the buffer until it unmaps it.
        let mr = unsafe { made(ibv_reg_mr(pd, addr, bytes, (IBV_ACCESS_LOCAL_WRITE | remote) as c_int))? };
        Ok(Mapping { mr, addr: addr as u64, bytes, offset, index })
    }

    /// Returns the entry for the peer.
    pub(super) fn entry(&self) -> IoMap {
        // SAFETY: registered for as long as the mapping lives.
        let key = unsafe { (*self.mr).rkey };
        IoMap { offset: self.offset, sge: Sge { addr: self.addr, key, length: self.bytes as u32 } }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: registered by `register`.
        unsafe { ibv_dereg_mr(self.mr) };
    }
}

/// The program's mappings, and those that the peer does not know yet.
#[derive(Default)]
pub(super) struct Mappings {
    pub(super) all: Vec<Mapping>,
    /// Entries of the peer's list that are still to send.
    pub(super) unannounced: VecDeque<u16>,
}
