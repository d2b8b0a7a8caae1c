//! Moves pages of this process into the arena and back.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::faults::Faults;
use super::hazard;
use super::pages::PageMap;
use super::restore::{self, Way};
use super::signals::Blocked;
use super::survey::{self, Place, Plain};
use super::swap::{Swap, chunk_bytes};
use super::{Arena, Extent, fork, ledger};

/// Runs a closure while no thread of the caller touches registered memory; does not run it if those threads cannot be
/// stopped soon.
pub type Still<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// This process's arena, and the state for filling it.
#[derive(Debug)]
pub struct Sharer {
    arena: Arena,
    careful: bool,
    map: PageMap,
    /// The program's huge page advice, by arena offset.
    huge: Vec<(u64, u64, bool)>,
    refusal: Option<String>,
    /// Bytes copied into and out of the arena.
    copied: u64,
    /// Some range could not be made private page by page, so a private mapping of the arena may not hold the program's
    /// own pages.
    stuck: bool,
}

impl Sharer {
    /// Creates a sharer with an empty arena. `careful`: share nothing unless the program runs no risk at all.
    ///
    /// # Errors
    /// See [`Arena::new`]; /proc is missing; the fork handlers cannot be installed.
    pub fn new(careful: bool) -> io::Result<Sharer> {
        Sharer::with_arena(careful, Arena::new()?)
    }

    /// Creates a sharer with an arena from elsewhere.
    ///
    /// # Errors
    /// /proc is missing; the fork handlers cannot be installed.
    pub fn with_arena(careful: bool, arena: Arena) -> io::Result<Sharer> {
        fork::watch()?;
        ledger::lock().add_arena(arena.fd().as_raw_fd(), arena.id())?;
        Ok(Sharer { arena, careful, map: PageMap::open(), huge: Vec::new(), refusal: None, copied: 0, stuck: false })
    }

    /// Returns the arena's file.
    pub fn arena(&self) -> BorrowedFd<'_> {
        self.arena.fd()
    }

    /// Returns the reason for not sharing a range, if it differs from the last one returned.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Returns the bytes copied into and out of the arena since the last call.
    pub fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Shares the eligible parts of a range of whole pages; returns the extents shared now, lowest address first.
    /// `own_threads` is the number of the caller's other threads in this process; `still` stops them while its closure
    /// runs.
    pub fn share(&mut self, addr: u64, len: u64, own_threads: usize, still: Still<'_>) -> Vec<Extent> {
        let mut done = Vec::new();
        if let Err(why) = self.try_share(addr, len, own_threads, still, &mut done) {
            self.refusal = Some(format!("{len} bytes at {addr:#x} are not shared, or only in part: {why}"));
        }
        done
    }

    fn try_share(
        &mut self,
        addr: u64,
        len: u64,
        own_threads: usize,
        still: Still<'_>,
        done: &mut Vec<Extent>,
    ) -> Result<(), String> {
        let others = hazard::threads().saturating_sub(1);
        if self.careful {
            self.refuse_hazards(others > own_threads)?;
        }
        let faults = self.guard(others, own_threads)?;
        let arena = (!self.stuck).then_some(self.arena.id());
        for plain in survey::plain(addr, addr + len, arena).map_err(|error| error.to_string())? {
            let offset = self.arena.allocate(plain.start, plain.end - plain.start);
            let offset = offset.ok_or("the arena's offsets are used up")?;
            if let Some(huge) = plain.huge {
                self.huge.push((offset, offset + (plain.end - plain.start), huge));
            }
            self.share_plain(plain, offset, faults.as_ref(), still, done).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn refuse_hazards(&self, threads: bool) -> Result<(), String> {
        match hazard::pinning(threads) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(format!("{why}; WEFT_SHARE=on shares anyway")),
            Err(error) => Err(format!("cannot list open descriptors: {error}")),
        }
    }

    /// Returns the guard against other threads; `None` if none is needed.
    fn guard(&self, others: usize, own_threads: usize) -> Result<Option<Faults>, String> {
        if others == 0 {
            return Ok(None);
        }
        let ours_only = others <= own_threads;
        match Faults::new() {
            Ok(faults) if faults.complete || ours_only || !self.careful => Ok(Some(faults)),
            Ok(_) => Err("other threads are running, and their system calls could fail meanwhile, because \
                          userfaultfd covers only this user's user-mode faults; set sysctl \
                          vm.unprivileged_userfaultfd=1, or WEFT_SHARE=on to share anyway"
                .into()),
            // The caller's own threads stand still, and touch only their stacks.
            Err(_) if ours_only && !self.careful => Ok(None),
            Err(error) => Err(format!("no userfaultfd to block other threads: {error}")),
        }
    }

    fn share_plain(
        &mut self,
        plain: Plain,
        offset: u64,
        faults: Option<&Faults>,
        still: Still<'_>,
        done: &mut Vec<Extent>,
    ) -> io::Result<()> {
        let swap = Swap { arena: &self.arena, faults, map: &self.map };
        let copied = &mut self.copied;
        let fd = self.arena.fd().as_raw_fd();
        for (start, end) in chunks(plain.start, plain.end) {
            let part = plain.part(start, end);
            let at = offset + (start - plain.start);
            let mut result = Err(io::ErrorKind::WouldBlock.into());
            still(&mut || {
                let mut ledger = ledger::lock();
                let _blocked = Blocked::new();
                result = swap.chunk(part, at);
                if result.is_ok()
                    && let Some(arena) = ledger.arena(fd)
                {
                    arena.bytes += end - start;
                }
            });
            *copied += result?;
            super::join(done, Extent { addr: start, len: end - start, offset: at });
        }
        Ok(())
    }

    /// Makes extents private again, wherever the program moved them meanwhile. Peers must have finished their copies.
    pub fn unshare(&mut self, extents: &[Extent], own_threads: usize, still: Still<'_>) {
        let others = hazard::threads().saturating_sub(1);
        let faults = if others == 0 { None } else { Faults::new().ok() };
        let mut way = match &faults {
            _ if others == 0 => Way::Alone,
            Some(faults) if faults.minor && (faults.complete || others <= own_threads) => Way::Guarded(faults),
            _ => Way::InPlace,
        };
        for extent in extents {
            if let Err(error) = self.unshare_extent(extent, &mut way, still) {
                // The memory stays as it is, whole and mapped; the arena's offsets are not used again.
                let Extent { addr, len, .. } = extent;
                self.stuck = true;
                self.refusal = Some(format!("{len} bytes at {addr:#x} cannot be made private again: {error}"));
            }
        }
    }

    fn unshare_extent(&mut self, extent: &Extent, way: &mut Way<'_>, still: Still<'_>) -> io::Result<()> {
        let fd = self.arena.fd().as_raw_fd();
        let places = ledger::lock().places(fd)?;
        for place in places.iter().filter_map(|place| place.within(extent.offset, extent.len)) {
            let huge = self.huge.iter().find(|(start, end, _)| (*start..*end).contains(&place.offset));
            for (start, end) in chunks(place.addr, place.addr + place.len) {
                let offset = place.offset + (start - place.addr);
                let part = Place { addr: start, len: end - start, offset, ..place };
                self.copied += self.unshare_chunk(part, way, still)?;
                restore::advise_huge(part, huge.map(|&(_, _, huge)| huge));
            }
        }
        if let Some(arena) = ledger::lock().arena(fd) {
            arena.bytes = arena.bytes.saturating_sub(extent.len);
        }
        self.huge.retain(|(start, end, _)| *end <= extent.offset || *start >= extent.offset + extent.len);
        self.arena.punch(extent.offset, extent.len)
    }

    /// Restores one chunk. Changes `way` if the caller's threads cannot be stopped, so that no later chunk waits for
    /// them.
    fn unshare_chunk<'a>(&self, part: Place, way: &mut Way<'a>, still: Still<'_>) -> io::Result<u64> {
        let restore = |way| {
            let _ledger = ledger::lock();
            let _blocked = Blocked::new();
            restore::chunk(&self.arena, part, way)
        };
        let mut result = None;
        if !matches!(way, Way::InPlace) {
            still(&mut || result = Some(restore(*way)));
        }
        result.unwrap_or_else(|| {
            *way = Way::InPlace;
            restore(Way::InPlace)
        })
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        ledger::lock().remove_arena(self.arena.fd().as_raw_fd());
    }
}

/// Splits a range into chunks that end at multiples of the chunk size.
fn chunks(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let chunk = chunk_bytes();
    let mut at = start;
    std::iter::from_fn(move || {
        let from = at;
        at = (from + chunk - from % chunk).min(end);
        (from < end).then_some((from, at))
    })
}
