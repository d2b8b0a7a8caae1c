//! Replaces private pages with pages of the arena, in place, under a running program.
//!
//! It works a chunk at a time. It moves the chunk's pages away, and threads that touch it sleep; it makes room in the
//! arena, so that a shortage of memory leaves everything as it was; it copies the pages; it puts the arena's pages in
//! their place. A single-threaded process need not move them away, as no other thread touches them. Pages of zeros are
//! not copied, since the arena reads as zeros where it has no page: middleware registers large pools that it has only
//! cleared, and a page takes far longer to allocate than to check.

use std::io;

use rustix::mm::Advice;

use super::faults::Faults;
use super::pages::{self, LOOK_PAGES, PageMap, Scratch};
use super::survey::Plain;
use super::{Arena, advise, page_size};
use crate::share::arena::HUGE_BYTES;

/// The state for copying chunks.
pub(super) struct Swap<'a> {
    pub(super) arena: &'a Arena,
    /// `None` if the process has one thread.
    pub(super) faults: Option<&'a Faults>,
    pub(super) map: &'a PageMap,
}

/// Bytes of a chunk: other threads may have to wait for one, and a huge page must fit.
pub(super) fn chunk_bytes() -> u64 {
    HUGE_BYTES.min(LOOK_PAGES as u64 * page_size())
}

impl Swap<'_> {
    /// Moves a chunk of plain memory to the arena's `offset`; returns the bytes copied. On an error the chunk is
    /// unchanged.
    pub(super) fn chunk(&self, plain: Plain, offset: u64) -> io::Result<u64> {
        let (addr, len) = (plain.start, plain.end - plain.start);
        let new = Scratch::of_file(self.arena.fd(), offset, len, HUGE_BYTES)?;
        // Children do not inherit it and get copies (see `fork`), even if they fork without our handlers.
        advise(new.addr as usize, len as usize, Advice::LinuxDontFork);
        if self.map.runs(addr, len).all() && plain.huge != Some(false) {
            advise(new.addr as usize, len as usize, Advice::LinuxHugepage);
        }
        match self.faults {
            None => {
                let copied = self.fill(addr, len, &new, offset)?;
                new.move_to(addr).map_err(|(_, error)| error)?;
                Ok(copied)
            }
            Some(faults) => self.guarded(faults, plain, new, offset),
        }
    }

    /// Copies the pages at `from`, which no other thread touches, into the arena; returns the bytes copied.
    fn fill(&self, from: u64, len: u64, new: &Scratch, offset: u64) -> io::Result<u64> {
        let mut copied = 0;
        for (skip, run) in self.map.runs(from, len).without_zeros(from) {
            self.make_room(new.addr + skip, run, offset + skip)?;
            pages::copy(from + skip, new.addr + skip, run);
            copied += run;
        }
        Ok(copied)
    }

    fn guarded(&self, faults: &Faults, plain: Plain, new: Scratch, offset: u64) -> io::Result<u64> {
        let (addr, len) = (plain.start, plain.end - plain.start);
        self.hold(faults, plain)?;
        // Until the program's pages are back, only this stack and the two mappings are touched: other memory may lie in
        // the chunk.
        let old = match pages::take(addr, len) {
            Ok(old) => old,
            Err(error) => {
                let _ = faults.release(addr, len);
                return Err(error);
            }
        };
        let (kept, result) = match self.fill(old.addr, len, &new, offset) {
            Ok(copied) => match new.move_to(addr) {
                Ok(()) => (Some(old), Ok(copied)),
                Err((new, error)) => {
                    drop(new);
                    (give_back(old, addr), Err(error))
                }
            },
            Err(error) => {
                drop(new);
                (give_back(old, addr), Err(error))
            }
        };
        faults.wake(addr, len);
        drop(kept);
        result
    }

    /// Blocks the threads that touch a chunk once its pages are away. A private mapping of the arena shows the arena's page
    /// then, if there is one: of zeros, from an access that was under way when the chunk was restored, or from a peer.
    /// Such an access must sleep, too; where the kernel cannot do that, the pages that are there go.
    fn hold(&self, faults: &Faults, plain: Plain) -> io::Result<()> {
        let (addr, len) = (plain.start, plain.end - plain.start);
        let Some(offset) = plain.leftover else { return faults.hold(addr, len) };
        if faults.minor {
            faults.hold_shared(addr, len)?
        } else {
            faults.hold(addr, len)?
        }
        self.arena.punch(offset, len).inspect_err(|_| drop(faults.release(addr, len)))
    }

    /// Allocates memory for a run of the arena, mapped at `addr`; a shortage is an error and never a signal.
    fn make_room(&self, addr: u64, len: u64, offset: u64) -> io::Result<()> {
        pages::populate(addr, len).or_else(|error| match error.raw_os_error() {
            // Kernels before 5.14.
            Some(libc::EINVAL) => self.arena.reserve(offset, len),
            _ => Err(error),
        })
    }
}

/// Moves the pages back to their old place.
fn give_back(old: Scratch, addr: u64) -> Option<Scratch> {
    match old.move_to(addr) {
        Ok(()) => None,
        // There was room for these very mappings a moment ago, and one less is needed now. Continuing without the
        // program's memory is the one forbidden outcome.
        Err(_) => std::process::abort(),
    }
}
