//! Hooked memory calls: some libraries of programs intercept the C library's calls that change mappings. UCX, Open MPI
//! and libfabric keep registrations of memory, and drop one when its pages seem to go away. Pages that become shared in
//! place stay, so the hooks must not see a call. This program's own definitions precede the C library's, as such a
//! library's hooks do.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, c_long, off_t, size_t};
use weft_sys::mapping;
use weft_sys::share::Sharer;

const LEN: usize = 8 << 20;
static WATCHED: AtomicUsize = AtomicUsize::new(usize::MAX);
static SEEN: AtomicUsize = AtomicUsize::new(0);

fn saw(addr: *mut c_void, len: size_t) {
    let (start, watched) = (addr.addr(), WATCHED.load(Ordering::Relaxed));
    if start < watched.saturating_add(LEN) && start.saturating_add(len) > watched {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
}

fn pointer(result: c_long) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(result as usize)
}

// SAFETY (all of them): the C library's contracts, fulfilled by the kernel's calls of the same names.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(addr: *mut c_void, len: size_t) -> c_int {
    saw(addr, len);
    // SAFETY: see above.
    unsafe { libc::syscall(libc::SYS_munmap, addr, len) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(addr: *mut c_void, len: size_t, advice: c_int) -> c_int {
    saw(addr, len);
    // SAFETY: see above.
    unsafe { libc::syscall(libc::SYS_madvise, addr, len, advice) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(addr: *mut c_void, old: size_t, new: size_t, flags: c_int, to: *mut c_void) -> *mut c_void {
    saw(addr, old);
    saw(to, new);
    // SAFETY: see above.
    pointer(unsafe { libc::syscall(libc::SYS_mremap, addr, old, new, flags, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    addr: *mut c_void,
    len: size_t,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
) -> *mut c_void {
    saw(addr, len);
    // SAFETY: see above.
    pointer(unsafe { libc::syscall(libc::SYS_mmap, addr, len, rights, flags, fd, at) })
}

#[test]
fn nobody_sees_pages_become_shared_and_private_again() {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe { mmap(std::ptr::null_mut(), LEN, rights, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: our own mapping, which is this long.
    unsafe { memory.cast::<u8>().write_bytes(7, LEN) };
    WATCHED.store(memory.addr(), Ordering::Relaxed);

    let addr = memory.expose_provenance() as u64;
    mapping::check(addr, LEN as u64, true).unwrap();
    // Not careful, because of the test harness's other thread.
    let mut sharer = Sharer::new(false).unwrap();
    let extents = sharer.share(addr, LEN as u64, 0, &mut |work| work());
    assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), LEN as u64, "{:?}", sharer.take_refusal());
    sharer.unshare(&extents, 0, &mut |work| work());
    assert_eq!(SEEN.swap(0, Ordering::Relaxed), 0, "calls that a hook would have seen");

    // The hooks are in place.
    // SAFETY: our own mapping, which is not used again.
    assert_eq!(unsafe { libc::munmap(memory, LEN) }, 0);
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);
}
