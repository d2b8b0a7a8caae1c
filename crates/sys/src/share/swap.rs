//! Private pages become pages of the arena, in place, under a running program.
//!
//! A chunk at a time: room is made in the arena first, so that no memory can be wanting later; then the chunk's pages are
//! taken away, and whoever touches it sleeps; they are copied; the arena's pages are put in their place. Alone in the
//! process, a thread need not take them away: nobody else touches them.

use std::io;

use rustix::mm::Advice;

use super::faults::Faults;
use super::pages::{self, LOOK_PAGES, PageMap, Scratch};
use super::survey::Plain;
use super::{Arena, advise, page_size};
use crate::share::arena::HUGE_BYTES;

/// What chunks are copied with.
pub(super) struct Swap<'a> {
    pub(super) arena: &'a Arena,
    /// Absent when there is one thread.
    pub(super) faults: Option<&'a Faults>,
    pub(super) map: &'a PageMap,
}

/// Bytes that are done at once: as long as somebody may have to wait for it, and a huge page.
pub(super) fn chunk_bytes() -> u64 {
    HUGE_BYTES.min(LOOK_PAGES as u64 * page_size())
}

impl Swap<'_> {
    /// A chunk of plain memory to the arena's `offset`; returns the bytes that were copied. On an error it is as it was.
    pub(super) fn chunk(&self, plain: Plain, offset: u64) -> io::Result<u64> {
        let (addr, len) = (plain.start, plain.end - plain.start);
        let new = Scratch::of_file(self.arena.fd(), offset, len, HUGE_BYTES)?;
        // Not in children, which get copies (see `fork`): neither in those that fork without telling us.
        advise(new.addr as usize, len as usize, Advice::LinuxDontFork);
        let there = self.map.runs(addr, len);
        if there.all() && plain.huge != Some(false) {
            advise(new.addr as usize, len as usize, Advice::LinuxHugepage);
        }
        for (skip, run) in there {
            self.make_room(new.addr + skip, run, offset + skip)?;
        }
        match self.faults {
            None => {
                let mut copied = 0;
                for (skip, run) in self.map.runs(addr, len) {
                    pages::copy(addr + skip, new.addr + skip, run);
                    copied += run;
                }
                new.move_to(addr).map_err(|(_, error)| error)?;
                Ok(copied)
            }
            Some(faults) => self.guarded(faults, addr, len, new, offset),
        }
    }

    fn guarded(&self, faults: &Faults, addr: u64, len: u64, new: Scratch, offset: u64) -> io::Result<u64> {
        faults.hold(addr, len)?;
        // From here until somebody's pages are back nothing is touched but this stack and the two mappings: the rest may
        // lie in the chunk.
        let old = match pages::take(addr, len) {
            Ok(old) => old,
            Err(error) => {
                let _ = faults.release(addr, len);
                return Err(error);
            }
        };
        let (mut result, mut copied) = (Ok(()), 0);
        for (skip, run) in self.map.runs(old.addr, len) {
            // Pages that came only now need room too.
            result = self.make_room(new.addr + skip, run, offset + skip);
            if result.is_err() {
                break;
            }
            pages::copy(old.addr + skip, new.addr + skip, run);
            copied += run;
        }
        let (kept, result) = match result {
            Ok(()) => match new.move_to(addr) {
                Ok(()) => (Some(old), Ok(())),
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
        result.map(|()| copied)
    }

    /// Memory for a run of the arena, mapped at `addr`: an error when there is none, and never a signal.
    fn make_room(&self, addr: u64, len: u64, offset: u64) -> io::Result<()> {
        pages::populate(addr, len).or_else(|error| match error.raw_os_error() {
            // Kernels before 5.14.
            Some(libc::EINVAL) => self.arena.reserve(offset, len),
            _ => Err(error),
        })
    }
}

/// Puts the pages back where they were.
fn give_back(old: Scratch, addr: u64) -> Option<Scratch> {
    match old.move_to(addr) {
        Ok(()) => None,
        // There was room for these very mappings a moment ago, and one less is needed now. To go on without the
        // program's memory is the one thing that must not be done.
        Err(_) => std::process::abort(),
    }
}
