//! Pages of a file in a child. fork(2) shares them between parent and child, where it gives the child copies of private memory.
//! So the thread that forks copies them before, and the child puts the copies in their place.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use super::PageFile;

/// Copy of a range.
#[derive(Clone, Copy, Debug)]
struct Copied {
    copy: *mut libc::c_void,
    place: *mut libc::c_void,
    length: usize,
}

static FILE: AtomicPtr<PageFile> = AtomicPtr::new(std::ptr::null_mut());
static REGISTERED: OnceLock<()> = OnceLock::new();

thread_local! {
    /// Copies of this thread's fork.
    static COPIES: Cell<Option<&'static [Copied]>> = const { Cell::new(None) };
}

/// From now on children get copies of this file's pages.
///
/// # Errors
/// The C library has no memory left.
pub fn keep_private(file: &'static PageFile) -> io::Result<()> {
    FILE.store(std::ptr::from_ref(file).cast_mut(), Ordering::Release);
    if REGISTERED.set(()).is_err() {
        return Ok(());
    }
    // SAFETY: the handlers are functions of the C calling convention in code that is never unloaded.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

unsafe extern "C" fn prepare() {
    // SAFETY: null, or a file that lives for good.
    let Some(file) = (unsafe { FILE.load(Ordering::Acquire).as_ref() }) else { return };
    let ranges = file.ranges().unwrap_or_default();
    if !ranges.is_empty() {
        let copies: Vec<_> = ranges.iter().filter_map(|(start, end)| copy(*start, *end).ok()).collect();
        COPIES.set(Some(Box::leak(copies.into_boxed_slice())));
    }
}

/// Copies a range. A range that no memory is left for stays shared with the child.
fn copy(start: u64, end: u64) -> io::Result<Copied> {
    let place: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(start as usize);
    let length = (end - start) as usize;
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let copy = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, rights, flags) }?;
    // SAFETY: both are mapped, and the new one is nowhere else in use. Other threads that write at the same time mix bytes, as
    // they do in the pages that fork copies.
    unsafe { std::ptr::copy_nonoverlapping::<u8>(place.cast(), copy.cast(), length) };
    Ok(Copied { copy, place, length })
}

unsafe extern "C" fn in_parent() {
    let Some(copies) = COPIES.take() else { return };
    for Copied { copy, length, .. } in copies {
        // SAFETY: the thread's own copies.
        let _ = unsafe { rustix::mm::munmap(*copy, *length) };
    }
    // SAFETY: leaked by `prepare`, and taken out of the only place that referred to it.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(copies).cast_mut()) });
}

/// Does only what a signal handler may do, so it leaves the list allocated.
unsafe extern "C" fn in_child() {
    for Copied { copy, place, length } in COPIES.take().unwrap_or_default() {
        // SAFETY: the copy goes where the pages are that it copies.
        let _ = unsafe { rustix::mm::mremap_fixed(*copy, *length, *length, MremapFlags::MAYMOVE, *place) };
    }
}
