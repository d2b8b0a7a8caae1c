//! The pages of this process on their way into the arena and out of it.

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

/// What a caller does while no thread of his own touches registered memory; not at all if they cannot be stopped soon.
pub type Still<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// This process's arena, and what it takes to fill it.
#[derive(Debug)]
pub struct Sharer {
    arena: Arena,
    careful: bool,
    map: PageMap,
    /// What the program said about huge pages, by the arena's offsets.
    huge: Vec<(u64, u64, bool)>,
    refusal: Option<String>,
    /// Bytes copied into the arena and out of it.
    copied: u64,
    /// Something could not be made private page by page: private mappings of the arena are not what they seem.
    stuck: bool,
}

impl Sharer {
    /// With an arena that is empty. `careful`: share nothing unless it is without any risk for the program.
    ///
    /// # Errors
    /// See [`Arena::new`]; there is no /proc; forks would not be noticed.
    pub fn new(careful: bool) -> io::Result<Sharer> {
        Sharer::with_arena(careful, Arena::new()?)
    }

    /// The same, with an arena that was made elsewhere.
    ///
    /// # Errors
    /// There is no /proc; forks would not be noticed.
    pub fn with_arena(careful: bool, arena: Arena) -> io::Result<Sharer> {
        fork::watch()?;
        ledger::lock().add_arena(arena.fd().as_raw_fd(), arena.id())?;
        Ok(Sharer { arena, careful, map: PageMap::open(), huge: Vec::new(), refusal: None, copied: 0, stuck: false })
    }

    /// The arena's file.
    pub fn arena(&self) -> BorrowedFd<'_> {
        self.arena.fd()
    }

    /// Why something was not shared, if it is not what was said last.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Bytes copied into the arena and out of it since the last call.
    pub fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Shares what can be shared of a range of whole pages; answers what is shared now, lowest address first.
    /// `own_threads` is how many threads of the process are the caller's, other than this one; `still` has them stand
    /// still for as long as what it is given runs.
    pub fn share(&mut self, addr: u64, len: u64, own_threads: usize, still: Still<'_>) -> Vec<Extent> {
        let mut done = Vec::new();
        if let Err(why) = self.try_share(addr, len, own_threads, still, &mut done) {
            self.refusal = Some(format!("{len} bytes at {addr:#x} are not shared, or in part: {why}"));
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
            Ok(Some(why)) => Err(format!("{why}; WEFT_SHARE=on shares all the same")),
            Err(error) => Err(format!("what is open cannot be told: {error}")),
        }
    }

    /// What keeps other threads away; nothing is needed where there is none.
    fn guard(&self, others: usize, own_threads: usize) -> Result<Option<Faults>, String> {
        if others == 0 {
            return Ok(None);
        }
        let ours_only = others <= own_threads;
        match Faults::new() {
            Ok(faults) if faults.complete || ours_only || !self.careful => Ok(Some(faults)),
            Ok(_) => Err("other threads run, and system calls of theirs could fail meanwhile, because this user has \
                          userfaultfd for his own faults only (sysctl vm.unprivileged_userfaultfd=1 gives it, or \
                          WEFT_SHARE=on goes without)"
                .into()),
            // Ours stand still, and touch nothing but their stacks.
            Err(_) if ours_only && !self.careful => Ok(None),
            Err(error) => Err(format!("there is no userfaultfd to hold other threads with: {error}")),
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
            let part = Plain { start, end, huge: plain.huge };
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

    /// Makes what was shared private again, wherever the program moved it meanwhile; peers' copies must be over.
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
                // The memory stays what it is, whole and mapped; the arena's offsets are not used again.
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

    /// `way` is changed when the caller's threads cannot be stopped: nobody waits for them twice.
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

/// A range in chunks that end at multiples of a chunk.
fn chunks(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let chunk = chunk_bytes();
    let mut at = start;
    std::iter::from_fn(move || {
        let from = at;
        at = (from + chunk - from % chunk).min(end);
        (from < end).then_some((from, at))
    })
}
