//! Copies between this process and another by the kernel (process_vm_readv, process_vm_writev). The kernel allows this
//! for processes that we could debug.

use std::io;

/// A piece of memory of one of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// Address in that process.
    pub addr: usize,
    /// Length in bytes.
    pub len: usize,
}

const _: () = assert!(size_of::<Piece>() == size_of::<libc::iovec>());

/// Maximum number of pieces in one call, on each side.
pub const PIECES_MAX: usize = 1024;

/// Copies from our memory into another process's; returns the number of bytes copied.
///
/// # Errors
/// `PermissionDenied` if the kernel forbids it; the process is gone; memory on either side is not mapped (EFAULT).
///
/// # Safety
/// Our pieces are readable for the whole call. If `pid` names a wrong process, that process is modified.
pub unsafe fn write(pid: i32, ours: &[Piece], theirs: &[Piece]) -> io::Result<usize> {
    // SAFETY: a `Piece` has the layout of an iovec; the kernel only reads the lists, and our memory, as the caller
    // promised.
    done(unsafe {
        let (ours, theirs) = (lists(ours), lists(theirs));
        libc::process_vm_writev(pid, ours.0, ours.1, theirs.0, theirs.1, 0)
    })
}

/// Copies from another process's memory into ours; returns the number of bytes copied.
///
/// # Errors
/// As [`write()`].
///
/// # Safety
/// Our pieces are writable for the whole call.
pub unsafe fn read(pid: i32, ours: &[Piece], theirs: &[Piece]) -> io::Result<usize> {
    // SAFETY: as above; our memory may be written, as the caller promised.
    done(unsafe {
        let (ours, theirs) = (lists(ours), lists(theirs));
        libc::process_vm_readv(pid, ours.0, ours.1, theirs.0, theirs.1, 0)
    })
}

/// Reads a few bytes of another process; fails unless all of them could be read.
pub fn peek(pid: i32, addr: u64, out: &mut [u8]) -> io::Result<()> {
    let ours = [Piece { addr: out.as_mut_ptr().expose_provenance(), len: out.len() }];
    let theirs = [Piece { addr: addr as usize, len: out.len() }];
    // SAFETY: the buffer is ours alone.
    let count = unsafe { read(pid, &ours, &theirs)? };
    if count == out.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes to memory of this process, up to the first byte that is not mapped: where a store would raise a signal, the kernel
/// stops. Returns the number of bytes written.
///
/// # Errors
/// As [`write()`]; EFAULT if not even the first byte is mapped, or it is memory of a device.
///
/// # Safety
/// The program allows that the mapped bytes of the range change.
pub unsafe fn store(addr: u64, data: &[u8]) -> io::Result<usize> {
    let from = [Piece { addr: data.as_ptr().expose_provenance(), len: data.len() }];
    let to = [Piece { addr: addr as usize, len: data.len() }];
    // SAFETY: `data` is readable, and the caller allows the change.
    unsafe { write(std::process::id() as i32, &from, &to) }
}

fn lists(pieces: &[Piece]) -> (*const libc::iovec, libc::c_ulong) {
    (pieces.as_ptr().cast(), pieces.len() as libc::c_ulong)
}

fn done(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_copies_and_says_what_it_cannot() {
        let pid = std::process::id() as i32;
        let (from, mut to) = ([7u8; 32], [0u8; 32]);
        let ours = [Piece { addr: from.as_ptr().expose_provenance(), len: 32 }];
        let start = to.as_mut_ptr().expose_provenance();
        let theirs = [Piece { addr: start, len: 16 }, Piece { addr: start + 16, len: 16 }];
        // SAFETY: both ranges are ours.
        assert_eq!(unsafe { write(pid, &ours, &theirs) }.unwrap(), 32);
        assert_eq!(to, from);
        let nowhere = [Piece { addr: 4096, len: 32 }];
        // SAFETY: reads an array of ours.
        let error = unsafe { write(pid, &ours, &nowhere) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let mut out = [0; 8];
        peek(pid, from.as_ptr() as u64, &mut out).unwrap();
        assert_eq!(out, [7; 8]);
    }

    #[test]
    fn a_store_stops_where_memory_ends() {
        const PAGE: usize = 4096;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of two pages, of which only this test knows; the second one goes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let end = start.expose_provenance() + PAGE;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(end), PAGE) }, 0);
        // SAFETY: the mapped bytes belong to this test.
        assert_eq!(unsafe { store(end as u64 - 3, b"abc") }.unwrap(), 3);
        let mut out = [0; 3];
        peek(std::process::id() as i32, end as u64 - 3, &mut out).unwrap();
        assert_eq!(&out, b"abc");
        // SAFETY: nothing is mapped there.
        assert_eq!(unsafe { store(end as u64, b"abc") }.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        // SAFETY: the test's page, which nothing refers to any more.
        assert_eq!(unsafe { libc::munmap(start, PAGE) }, 0);
    }
}
