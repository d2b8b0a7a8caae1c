//! Forks while pages are shared. A child must find its memory unchanged and must not write into its parent's, so
//! children do not inherit the shared mappings, and the child puts copies in their place before fork returns to it. A
//! child that bypasses the C library's fork lacks the memory, as children of programs with hardware adapters always
//! lacked registered memory. The parent waits for the copies, so that its next writes stay out of the child.
//!
//! In the child, only async-signal-safe calls are made.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::MutexGuard;
use std::sync::Once;

use super::ledger::{self, Ledger};
use super::pages;
use super::restore;
use super::survey::Place;

/// A child's copies use at most this fraction (1/n) of the free memory. Beyond it the child gets private mappings of the
/// arena: its writes are its own, but the parent's writes show until the child writes the page.
const COPY_SHARE: u64 = 2;

/// State between the handlers of one fork, on the thread that forks.
struct Forking {
    ledger: MutexGuard<'static, Ledger>,
    /// Mappings missing in the child, each with its arena's file.
    places: Vec<(RawFd, Place)>,
    copies: bool,
    /// The parent reads its end until the child has closed the other end.
    pipe: Option<(RawFd, RawFd)>,
}

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

/// Installs the fork handlers.
pub(super) fn watch() -> io::Result<()> {
    static WATCH: Once = Once::new();
    let mut result = 0;
    WATCH.call_once(|| {
        // SAFETY: functions of the C calling convention that live for ever (our libraries are never unloaded).
        result = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

extern "C" fn before() {
    let ledger = ledger::lock();
    let mut places = Vec::new();
    for arena in ledger.arenas.iter().filter(|arena| arena.bytes > 0) {
        let here = ledger.places(arena.fd).unwrap_or_default();
        places.extend(here.into_iter().map(|place| (arena.fd, place)));
    }
    let bytes: u64 = places.iter().map(|(_, place)| place.len).sum();
    let copies = bytes <= available_memory() / COPY_SHARE;
    let pipe = if places.is_empty() || !copies { None } else { pipe() };
    let forking = Forking { ledger, places, copies, pipe };
    let _ = FORKING.try_with(|place| place.replace(Some(forking)));
}

extern "C" fn in_parent() {
    let Some(forking) = take() else { return };
    if let Some((reader, writer)) = forking.pipe {
        close(writer);
        let mut byte = 0u8;
        // SAFETY: our own descriptor, and a byte to read into; the read ends when the child is done or dead, or when
        // fork failed.
        unsafe {
            while libc::read(reader, (&raw mut byte).cast(), 1) == -1 && *libc::__errno_location() == libc::EINTR {}
        }
        close(reader);
    }
}

extern "C" fn in_child() {
    let Some(mut forking) = take() else { return };
    for &(fd, place) in &forking.places {
        // SAFETY: the parent's arena, which this child has not closed yet.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        // Memory that cannot be mapped stays missing: the child has no way to report an error here.
        let _ = put(file, place, forking.copies);
    }
    for arena in &forking.ledger.arenas {
        close(arena.fd);
    }
    // These arenas are the parent's: a child neither drops nor uses them. A child's own come after them.
    std::mem::forget(std::mem::take(&mut forking.ledger.arenas));
    forking.ledger.forget_windows();
    if let Some((reader, writer)) = forking.pipe {
        close(reader);
        close(writer);
    }
}

fn put(file: BorrowedFd<'_>, place: Place, copy: bool) -> io::Result<()> {
    let Place { addr, len, offset, rights } = place;
    // The places were read a moment ago, and the child has no other thread. A mapping there is at most the
    // parent's own mapping, if the program made children inherit it (MADV_DOFORK).
    if copy {
        pages::fresh_at(addr, len)?;
        restore::read_data(file, place)?;
    } else {
        pages::private_at(addr, len, file, offset)?;
    }
    pages::protect(addr, len, rights)
}

fn take() -> Option<Forking> {
    FORKING.try_with(|place| place.borrow_mut().take()).ok().flatten()
}

fn pipe() -> Option<(RawFd, RawFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    let rc = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    let [reader, writer] = ends;
    (rc == 0).then_some((reader, writer))
}

fn close(fd: RawFd) {
    // SAFETY: callers pass only our own descriptors, each once.
    unsafe { libc::close(fd) };
}

fn available_memory() -> u64 {
    let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = kib.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}
