//! Pages of the arena become private again, in place, under a running program.
//!
//! Alone in the process, a thread maps fresh memory over them and reads the arena into it: the mapping is what it was
//! before and joins its neighbours. Beside others it keeps everybody from a chunk (a *minor* fault of userfaultfd), and
//! moves a private copy of it there. Where the kernel cannot do that, it maps the same piece of the arena privately, which
//! no write can fall between, and has every page copied on write; such a mapping is private like any other, but it
//! stays a file's, and without huge pages.

use std::io;

use rustix::mm::Advice;

use super::arena::HUGE_BYTES;
use super::faults::Faults;
use super::pages::{self, Scratch};
use super::survey::Place;
use super::{Arena, advise};

/// How it is done.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// There is one thread.
    Alone,
    /// Others wait meanwhile.
    Guarded(&'a Faults),
    /// Others go on.
    InPlace,
}

/// A chunk of the arena that is mapped and shared here. On an error it is as it was, or private and the arena's still.
pub(super) fn chunk(arena: &Arena, place: Place, way: Way<'_>) -> io::Result<()> {
    match way {
        Way::Alone => alone(arena, place)?,
        Way::Guarded(faults) => guarded(arena, place, faults).or_else(|_| in_place(arena, place))?,
        Way::InPlace => in_place(arena, place)?,
    }
    pages::protect(place.addr, place.len, place.rights)
}

fn alone(arena: &Arena, place: Place) -> io::Result<()> {
    let Place { addr, len, offset, .. } = place;
    pages::fresh_at(addr, len)?;
    pages::read_at(arena.fd(), addr, len, offset).inspect_err(|_| {
        // Memory is short: the program's bytes are in the arena still.
        let _ = pages::private_at(addr, len, arena.fd(), offset);
    })
}

fn guarded(arena: &Arena, place: Place, faults: &Faults) -> io::Result<()> {
    let Place { addr, len, offset, .. } = place;
    let new = Scratch::fresh(addr % HUGE_BYTES, len, HUGE_BYTES)?;
    let from = Scratch::of_file(arena.fd(), offset, len, HUGE_BYTES)?;
    pages::populate(new.addr, len)?;
    // A hole of the arena is filled here rather than by a copy that could fail.
    pages::populate(from.addr, len)?;
    faults.hold_shared(addr, len)?;
    let moved = pages::forget_pages(addr, len).and_then(|()| {
        // Nothing is touched but this stack and the two mappings until the chunk is back.
        pages::copy(from.addr, new.addr, len);
        new.move_to(addr).map_err(|(_, error)| error)
    });
    match moved {
        Ok(()) => faults.wake(addr, len),
        Err(_) => drop(faults.release(addr, len)),
    }
    moved
}

fn in_place(arena: &Arena, place: Place) -> io::Result<()> {
    let Place { addr, len, offset, .. } = place;
    pages::private_at(addr, len, arena.fd(), offset)?;
    match pages::populate(addr, len) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => touch(addr, len),
        result => result?,
    }
    Ok(())
}

/// For kernels before 5.14: writes to every page what is there.
fn touch(addr: u64, len: u64) {
    use std::sync::atomic::{AtomicU8, Ordering};
    for at in (addr..addr + len).step_by(super::page_size() as usize) {
        // SAFETY: mapped a moment ago, and an atomic change of nothing changes nothing for anybody.
        let byte = unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) };
        byte.fetch_or(0, Ordering::Relaxed);
    }
}

/// What the restored memory is told about huge pages.
pub(super) fn advise_huge(place: Place, huge: Option<bool>) {
    match huge {
        Some(true) => advise(place.addr as usize, place.len as usize, Advice::LinuxHugepage),
        Some(false) => advise(place.addr as usize, place.len as usize, Advice::LinuxNoHugepage),
        None => {}
    }
}
