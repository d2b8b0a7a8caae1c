//! Makes pages of the arena private again, in place, under a running program.
//!
//! Only pages present in the arena are copied: the others stay absent, as zeros. A single-threaded process maps fresh
//! memory over the range and reads the arena into it: the mapping is as before sharing and merges with its neighbours.
//! With other threads, it blocks all of them on a chunk (a *minor* fault of userfaultfd), and moves a private copy of
//! the chunk there. Where the kernel cannot do that, it maps the same piece of the arena privately, which no write can
//! slip past, and has every page copied on write; such a mapping is private, but it stays a file's, without huge pages.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::Advice;

use super::arena::{HUGE_BYTES, data_runs};
use super::faults::Faults;
use super::pages::{self, Scratch};
use super::survey::Place;
use super::{Arena, advise};

/// Method of restoring.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// The process has one thread.
    Alone,
    /// Other threads wait meanwhile.
    Guarded(&'a Faults),
    /// Other threads keep running.
    InPlace,
}

/// Restores a chunk of the arena that is mapped and shared here; returns the bytes copied. On an error it stays shared,
/// or becomes a private mapping of the arena.
pub(super) fn chunk(arena: &Arena, place: Place, way: Way<'_>) -> io::Result<u64> {
    let copied = match way {
        Way::Alone => alone(arena, place)?,
        Way::Guarded(faults) => guarded(arena, place, faults).or_else(|_| in_place(arena, place))?,
        Way::InPlace => in_place(arena, place)?,
    };
    pages::protect(place.addr, place.len, place.rights)?;
    Ok(copied)
}

fn alone(arena: &Arena, place: Place) -> io::Result<u64> {
    let Place { addr, len, offset, .. } = place;
    pages::fresh_at(addr, len)?;
    read_data(arena.fd(), place).inspect_err(|_| {
        // Memory is short: the program's bytes are still in the arena.
        let _ = pages::private_at(addr, len, arena.fd(), offset);
    })
}

/// Reads a file's data of a place into freshly mapped memory; returns the bytes read. Async-signal-safe.
pub(super) fn read_data(file: BorrowedFd<'_>, place: Place) -> io::Result<u64> {
    let Place { addr, len, offset, .. } = place;
    let mut copied = 0;
    for (skip, run) in data_runs(file, offset, len) {
        pages::read_at(file, addr + skip, run, offset + skip)?;
        copied += run;
    }
    Ok(copied)
}

fn guarded(arena: &Arena, place: Place, faults: &Faults) -> io::Result<u64> {
    let Place { addr, len, offset, .. } = place;
    let new = Scratch::fresh(addr % HUGE_BYTES, len, HUGE_BYTES)?;
    let from = Scratch::of_file(arena.fd(), offset, len, HUGE_BYTES)?;
    // Most of the room is made before any thread has to wait.
    make_room(arena, offset, len, &new, &from)?;
    faults.hold_shared(addr, len)?;
    let moved = pages::forget_pages(addr, len).and_then(|()| {
        // From here on the arena gets no more pages of this chunk. Only this stack and the two mappings are touched
        // until the chunk is back.
        let copied = make_room(arena, offset, len, &new, &from)?;
        for (skip, run) in data_runs(arena.fd(), offset, len) {
            pages::copy(from.addr + skip, new.addr + skip, run);
        }
        new.move_to(addr).map_err(|(_, error)| error)?;
        Ok(copied)
    });
    match moved {
        Ok(_) => faults.wake(addr, len),
        Err(_) => drop(faults.release(addr, len)),
    }
    moved
}

/// Makes the source pages present and allocates room for the copy, so that the copy cannot fail; returns the bytes.
fn make_room(arena: &Arena, offset: u64, len: u64, new: &Scratch, from: &Scratch) -> io::Result<u64> {
    let mut bytes = 0;
    for (skip, run) in data_runs(arena.fd(), offset, len) {
        pages::populate(new.addr + skip, run)?;
        pages::populate(from.addr + skip, run)?;
        bytes += run;
    }
    Ok(bytes)
}

fn in_place(arena: &Arena, place: Place) -> io::Result<u64> {
    let Place { addr, len, offset, .. } = place;
    pages::private_at(addr, len, arena.fd(), offset)?;
    match pages::populate(addr, len) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => touch(addr, len),
        result => result?,
    }
    Ok(len)
}

/// Touches every page for writing without changing it, for kernels before 5.14.
fn touch(addr: u64, len: u64) {
    use std::sync::atomic::{AtomicU8, Ordering};
    for at in (addr..addr + len).step_by(super::page_size() as usize) {
        // SAFETY: the page was mapped a moment ago, and an atomic no-op write changes no byte for any thread.
        let byte = unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) };
        byte.fetch_or(0, Ordering::Relaxed);
    }
}

/// Applies the program's huge page advice to the restored memory.
pub(super) fn advise_huge(place: Place, huge: Option<bool>) {
    match huge {
        Some(true) => advise(place.addr as usize, place.len as usize, Advice::LinuxHugepage),
        Some(false) => advise(place.addr as usize, place.len as usize, Advice::LinuxNoHugepage),
        None => {}
    }
}
