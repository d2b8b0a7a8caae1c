//! Shared memory that a fork must know of, under the one lock that it holds meanwhile: the arenas of this process with
//! their mappings, and the windows into other processes' arenas, which are also mapped and must not be taken for shared
//! pages.
//!
//! Pages move under this lock only, so that no child ever sees a move in progress.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::survey::{self, FileId, Place};

/// The arenas and windows of this process.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) arenas: Vec<Entry>,
    /// First address and length in bytes of the windows of views.
    windows: Vec<(u64, u64)>,
}

/// An arena of this process.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) fd: RawFd,
    id: FileId,
    /// Bytes shared now.
    pub(super) bytes: u64,
    /// The table of mappings, kept open because no descriptor may be left later.
    maps: File,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { arenas: Vec::new(), windows: Vec::new() });

/// Locks the ledger of this process.
pub(super) fn lock() -> MutexGuard<'static, Ledger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    pub(super) fn add_arena(&mut self, fd: RawFd, id: FileId) -> io::Result<()> {
        let maps = File::open("/proc/self/maps")?;
        self.arenas.push(Entry { fd, id, bytes: 0, maps });
        Ok(())
    }

    pub(super) fn remove_arena(&mut self, fd: RawFd) {
        self.arenas.retain(|arena| arena.fd != fd);
    }

    pub(super) fn arena(&mut self, fd: RawFd) -> Option<&mut Entry> {
        self.arenas.iter_mut().find(|arena| arena.fd == fd)
    }

    pub(super) fn add_window(&mut self, addr: u64, len: u64) {
        self.windows.push((addr, len));
    }

    /// Forgets all windows: a child inherits none.
    pub(super) fn forget_windows(&mut self) {
        self.windows.clear();
    }

    pub(super) fn remove_window(&mut self, addr: u64) {
        self.windows.retain(|&(at, _)| at != addr);
    }

    /// Returns the places where shared pages of an arena are mapped, wherever the program moved them.
    pub(super) fn places(&self, fd: RawFd) -> io::Result<Vec<Place>> {
        let Some(arena) = self.arenas.iter().find(|arena| arena.fd == fd) else {
            return Ok(Vec::new());
        };
        let mut table = String::new();
        let mut maps = &arena.maps;
        maps.rewind()?;
        maps.read_to_string(&mut table)?;
        let mut places = survey::places(&table, arena.id);
        places.retain(|place| !self.windows.iter().any(|&(addr, len)| (addr..addr + len).contains(&place.addr)));
        Ok(places)
    }
}
