//! Memory of a [`Buffer`](super::Buffer) that other threads and the kernel copy to and from.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// Alignment of every allocation: the page size of supported machines, so that regions do not share pages.
const PAGE: usize = 4096;

/// Zeroed memory, shared by its clones and freed with the last. It outlives its registration, so that a thread that still
/// copies when a connection ends touches no freed memory.
///
/// It is never a slice: an adapter or another thread may change it at any time. All access is by copies, which then mix
/// bytes and do nothing worse.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Allocation>);

#[derive(Debug)]
struct Allocation {
    start: *mut u8,
    layout: Layout,
    len: usize,
}

// SAFETY: the pointer is the allocation's own, and everything behind it is copied byte by byte without references.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Memory {
    /// Allocates `len` bytes, at least one.
    pub(super) fn new(len: usize) -> io::Result<Memory> {
        let layout =
            Layout::from_size_align(len.max(1), PAGE).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Memory(Arc::new(Allocation { start, layout, len })))
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.start
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Copies `bytes` to the memory at `offset`.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let at = self.place(offset, bytes.len());
        // SAFETY: within the allocation; the source is no part of it, because no reference to it exists.
        unsafe { std::ptr::copy(bytes.as_ptr(), at, bytes.len()) };
    }

    /// Copies `into.len()` bytes from the memory at `offset`.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let at = self.place(offset, into.len());
        // SAFETY: as for write.
        unsafe { std::ptr::copy(at, into.as_mut_ptr(), into.len()) };
    }

    /// Sets `length` bytes from `offset` on to `byte`.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn fill(&self, offset: usize, length: usize, byte: u8) {
        let at = self.place(offset, length);
        // SAFETY: within the allocation.
        unsafe { std::ptr::write_bytes(at, byte, length) };
    }

    /// Returns the current byte at `offset`, even if an adapter has just changed it.
    ///
    /// # Panics
    /// The offset is outside the memory.
    pub fn byte(&self, offset: usize) -> u8 {
        // SAFETY: within the allocation.
        unsafe { self.place(offset, 1).read_volatile() }
    }

    /// Reads from a file at `position` into `length` bytes from `offset` on (pread); returns the bytes read.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn read_file(&self, file: impl AsFd, position: u64, offset: usize, length: usize) -> io::Result<usize> {
        let (at, position) = (self.place(offset, length), file_position(position)?);
        // SAFETY: the kernel writes within the allocation.
        retry(|| unsafe { libc::pread(file.as_fd().as_raw_fd(), at.cast(), length, position) })
    }

    /// Writes `length` bytes from `offset` on to a file at `position` (pwrite); returns the bytes written.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn write_file(&self, file: impl AsFd, position: u64, offset: usize, length: usize) -> io::Result<usize> {
        let (at, position) = (self.place(offset, length), file_position(position)?);
        // SAFETY: the kernel reads within the allocation.
        retry(|| unsafe { libc::pwrite(file.as_fd().as_raw_fd(), at.cast(), length, position) })
    }

    /// As [`Memory::read_file`], if the bytes are in memory (preadv2 with RWF_NOWAIT): the error is [`io::ErrorKind::WouldBlock`] if a
    /// disk would have to be read first, and another one if the file system cannot tell.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn read_file_at_once(&self, file: impl AsFd, position: u64, offset: usize, length: usize) -> io::Result<usize> {
        let piece = libc::iovec { iov_base: self.place(offset, length).cast(), iov_len: length };
        let (fd, position) = (file.as_fd().as_raw_fd(), file_position(position)?);
        // SAFETY: the kernel writes within the allocation.
        retry(|| unsafe { libc::preadv2(fd, &raw const piece, 1, position, libc::RWF_NOWAIT) })
    }

    /// As [`Memory::write_file`], if nothing has to be waited for (pwritev2 with RWF_NOWAIT); errors as for
    /// [`Memory::read_file_at_once`].
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn write_file_at_once(
        &self,
        file: impl AsFd,
        position: u64,
        offset: usize,
        length: usize,
    ) -> io::Result<usize> {
        let piece = libc::iovec { iov_base: self.place(offset, length).cast(), iov_len: length };
        let (fd, position) = (file.as_fd().as_raw_fd(), file_position(position)?);
        // SAFETY: the kernel reads within the allocation.
        retry(|| unsafe { libc::pwritev2(fd, &raw const piece, 1, position, libc::RWF_NOWAIT) })
    }

    /// Sends `length` bytes from `offset` on to a socket, without waiting; returns the bytes sent.
    ///
    /// # Panics
    /// The range exceeds the memory.
    pub fn send(&self, socket: impl AsFd, offset: usize, length: usize) -> io::Result<usize> {
        let at = self.place(offset, length);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the kernel reads within the allocation.
        retry(|| unsafe { libc::send(socket.as_fd().as_raw_fd(), at.cast(), length, flags) })
    }

    /// Returns the address of a range.
    fn place(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        let len = self.0.len;
        assert!(end.is_some_and(|end| end <= len), "{length} bytes at {offset} are not within {len} bytes of memory");
        self.0.start.wrapping_add(offset)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; no region and no other handle refers to it.
        unsafe { dealloc(self.start, self.layout) };
    }
}

fn file_position(position: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(position).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn files_and_sockets_take_and_give_its_bytes() {
        let memory = Memory::new(100).expect("memory");
        memory.write(10, b"hello");
        let mut file = tempfile();
        assert_eq!(memory.write_file(&file, 3, 10, 5).expect("written"), 5);
        let mut text = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, "\0\0\0hello");
        assert_eq!(memory.read_file(&file, 4, 50, 50).expect("read"), 4);
        let mut back = [0; 4];
        memory.read(50, &mut back);
        assert_eq!((&back, memory.byte(50)), (b"ello", b'e'));
        // A file of a disk, in memory because it was just written; a file system that cannot tell says so.
        let path = std::env::temp_dir().join(format!("weft-memory-{}", std::process::id()));
        std::fs::write(&path, b"0123hello").expect("a file");
        let disk = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        match memory.read_file_at_once(&disk, 4, 60, 5) {
            Ok(count) => {
                let mut back = [0; 5];
                memory.read(60, &mut back);
                assert_eq!((count, &back), (5, b"hello"));
            }
            Err(error) => assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EAGAIN)), "{error}"),
        }
        match memory.write_file_at_once(&disk, 7, 10, 5) {
            Ok(count) => assert_eq!((count, memory.read_file(&disk, 0, 0, 90).expect("read")), (5, 12)),
            Err(error) => assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EAGAIN)), "{error}"),
        }
        memory.write(10, b"hello");
        let (to, mut from) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(memory.send(&to, 10, 5).expect("sent"), 5);
        drop(to);
        text.clear();
        from.read_to_string(&mut text).expect("text");
        assert_eq!(text, "hello");
        assert_eq!(memory.read_file(&file, u64::MAX, 0, 1).unwrap_err().raw_os_error(), Some(libc::EFBIG));
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn a_range_beyond_the_end_is_refused() {
        Memory::new(100).expect("memory").fill(99, 2, 0);
    }

    fn tempfile() -> std::fs::File {
        // SAFETY: a name, and a flag.
        let fd = unsafe { libc::memfd_create(c"memory".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just opened, and of no other owner.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
    }
}
