//! Registered memory: whole pages of our own, which a peer may write while we read them. Therefore this module never
//! borrows them as a slice.

use libc::{c_int, c_void};
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::null_mut;
use std::sync::atomic::{Ordering, fence};
use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_pd, ibv_sge};

use super::proto::inbound::Piece;
use super::verbs::{ibv_dereg_mr, ibv_reg_mr};
use crate::errors::made;

/// Memory registered with verbs.
#[derive(Debug)]
pub(crate) struct Region {
    mr: *mut ibv_mr,
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the memory and its registration belong to the process, not to a thread.
unsafe impl Send for Region {}

/// The writers of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// Only this process and its own receives.
    Local,
    /// The peer too.
    Peer,
}

impl Region {
    /// Allocates zeroed memory of at least `bytes`, registered in `pd`.
    pub(crate) fn new(pd: *mut ibv_pd, bytes: usize, writer: Writer) -> Result<Region, c_int> {
        let bytes = bytes.max(1).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let base = mapped.map_err(rustix::io::Errno::raw_os_error)?;
        let mut region = Region { mr: null_mut(), base: base.cast(), bytes };
        let access = match writer {
            Writer::Local => IBV_ACCESS_LOCAL_WRITE,
            Writer::Peer => IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        };
        // SAFETY: the caller's protection domain, and memory that lives until it is deregistered.
        region.mr = unsafe { made(ibv_reg_mr(pd, base, bytes, access as c_int))? };
        Ok(region)
    }

    /// Returns its address in the peer's and in work requests.
    pub(crate) fn addr(&self) -> u64 {
        self.base as u64
    }

    /// Returns the key with which a peer writes it.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: registered for as long as the region lives.
        unsafe { (*self.mr).rkey }
    }

    /// Returns a piece of it for a work request.
    pub(crate) fn sge(&self, piece: Piece) -> ibv_sge {
        // SAFETY: as above.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.addr() + u64::from(piece.offset), length: piece.length, lkey }
    }

    /// Returns the address of byte `offset`, if `bytes` bytes from there are inside.
    fn at(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| self.base.wrapping_add(offset))
    }

    /// Copies bytes in.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(to) = self.at(offset, bytes.len()) {
            // SAFETY: inside the region, as was just checked; it never overlaps memory of the program's.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }

    /// Copies bytes to `to`.
    ///
    /// # Safety
    /// `to` must have room for them.
    pub(crate) unsafe fn read_to(&self, piece: Piece, to: *mut u8) {
        if let Some(from) = self.at(piece.offset as usize, piece.length as usize) {
            // SAFETY: inside the region, as was just checked; the caller has the room.
            unsafe { to.copy_from_nonoverlapping(from, piece.length as usize) };
        }
    }

    /// Reads an entry that the peer may be writing at this moment; `None` while its length, a number at `length_at` in
    /// it, is 0. This reads the length first: a peer's write of an entry becomes visible as a whole, or in ascending
    /// order.
    pub(crate) fn entry<const N: usize>(&self, offset: usize, length_at: usize) -> Option<[u8; N]> {
        let from = self.at(offset, N)?;
        let length = self.at(offset + length_at, size_of::<u32>())?.cast::<u32>();
        // SAFETY: inside the region, as was just checked; lengths of entries are at multiples of four.
        if unsafe { length.read_volatile() } == 0 {
            return None;
        }
        fence(Ordering::Acquire);
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: inside the region, as was just checked.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        Some(bytes)
    }

    /// Returns a copy of received bytes.
    pub(crate) fn to_vec(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut copy = vec![0; bytes];
        let piece = Piece { offset: offset as u32, length: bytes as u32 };
        // SAFETY: the copy has room for all bytes.
        unsafe { self.read_to(piece, copy.as_mut_ptr()) };
        copy
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered and mapped by `new`; the queue pairs that used it are gone.
        unsafe {
            if !self.mr.is_null() {
                ibv_dereg_mr(self.mr);
            }
            let _ = rustix::mm::munmap(self.base.cast::<c_void>(), self.bytes);
        }
    }
}
