//! Another process's arena, mapped here so that plain copies can read and write its shared pages.
//!
//! The file comes from another process, so it is checked first: it must be ordinary memory that can never shrink, or a
//! copy could end in SIGBUS. A hole in it reads as zeros. It is mapped in windows on first use, and the least recently
//! used window is unmapped when there are too many.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap, munmap};

/// Window size, if the file is as long: the fewer windows the better, and address space costs nothing.
const WINDOW_BYTES: u64 = 1 << 30;
/// Windows start at multiples of this, so that huge pages fit.
const WINDOW_ALIGN: u64 = 2 << 20;
/// Windows kept for each file.
const WINDOWS_MAX: usize = 32;
/// The longest range that is ever mapped: the maximum of a work request, and a little more.
const RANGE_BYTES_MAX: u64 = 4 << 30;
/// The statfs(2) magic of memory files with pages of the usual size.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Another process's arena as seen from here.
#[derive(Debug)]
pub struct View {
    file: OwnedFd,
    size: u64,
    /// Windows, most recently used last.
    windows: Vec<Window>,
}

#[derive(Debug)]
struct Window {
    offset: u64,
    len: u64,
    addr: usize,
}

impl View {
    /// Checks the file and keeps it; maps nothing yet.
    ///
    /// # Errors
    /// `InvalidInput`: it is not a memory file, could still shrink, or is not writable.
    pub fn new(file: OwnedFd) -> io::Result<View> {
        let no = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if fstatfs(&file)?.f_type as i64 != TMPFS_MAGIC {
            return no("not a file in memory");
        }
        let seals = fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return no("not sealed against being made shorter");
        }
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return no("sealed against being written");
        }
        let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        Ok(View { file, size, windows: Vec::new() })
    }

    /// Returns the address at which a range of the file is mapped, readable and writable; `None` if the range is
    /// outside the file or cannot be mapped. The address is valid until the next call, which may unmap it.
    #[inline]
    pub fn slice(&mut self, offset: u64, len: u64) -> Option<*mut u8> {
        match self.windows.last() {
            Some(window) if window.holds(offset, len) => Some(window.at(offset)),
            _ => self.look(offset, len),
        }
    }

    #[cold]
    fn look(&mut self, offset: u64, len: u64) -> Option<*mut u8> {
        let end = offset.checked_add(len).filter(|&end| end <= self.size)?;
        if len > RANGE_BYTES_MAX {
            return None;
        }
        if let Some(at) = self.windows.iter().position(|window| window.holds(offset, len)) {
            let window = self.windows.remove(at);
            self.windows.push(window);
        } else {
            let window = self.map(offset, end)?;
            if self.windows.len() >= WINDOWS_MAX {
                self.windows.remove(0);
            }
            self.windows.push(window);
        }
        self.windows.last().map(|window| window.at(offset))
    }

    fn map(&self, offset: u64, end: u64) -> Option<Window> {
        let first = offset - offset % WINDOW_ALIGN;
        let last = end.checked_next_multiple_of(WINDOW_ALIGN)?.max(first.checked_add(WINDOW_BYTES)?).min(self.size);
        let len = usize::try_from(last - first).ok()?;
        // SAFETY: a new mapping at an address of the kernel's choice. The file cannot shrink (checked), so the whole
        // window is accessible. Other processes change it at any time: only raw copies access it.
        let mapped = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                self.file.as_fd(),
                first,
            )
        };
        let addr = mapped.ok()?.expose_provenance();
        // A child must not keep memory that its owner believes to be shared with this process alone.
        super::advise(addr, len, Advice::LinuxDontFork);
        super::ledger::lock().add_window(addr as u64, len as u64);
        Some(Window { offset: first, len: last - first, addr })
    }
}

impl Window {
    #[inline]
    fn holds(&self, offset: u64, len: u64) -> bool {
        offset.checked_sub(self.offset).is_some_and(|skip| skip <= self.len && len <= self.len - skip)
    }

    /// Returns the address of `offset`, which lies in the window.
    #[inline]
    fn at(&self, offset: u64) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr + (offset - self.offset) as usize)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        super::ledger::lock().remove_window(self.addr as u64);
        // SAFETY: our own mapping; a pointer into it is valid until the next `slice` at most, and that borrow has
        // ended.
        let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(self.addr), self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn sealed(len: u64, seals: SealFlags) -> File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("view", flags).unwrap());
        file.set_len(len).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn what_the_owner_writes_is_seen_and_what_we_write_arrives() {
        let file = sealed(1 << 40, SealFlags::SHRINK);
        let far = (1 << 39) + 12345;
        file.write_all_at(b"owner", far).unwrap();
        let mut view = View::new(file.try_clone().unwrap().into()).unwrap();
        let at = view.slice(far, 5).unwrap();
        let mut seen = [0; 5];
        // SAFETY: `at` points to five bytes, valid until the next call of `slice`.
        unsafe {
            std::ptr::copy_nonoverlapping(at, seen.as_mut_ptr(), 5);
            std::ptr::copy_nonoverlapping(b"peer!".as_ptr(), at, 5);
        }
        assert_eq!(&seen, b"owner");
        file.read_exact_at(&mut seen, far).unwrap();
        assert_eq!(&seen, b"peer!");
    }

    #[test]
    fn no_range_outside_the_file_is_mapped() {
        let mut view = View::new(sealed(10 << 20, SealFlags::SHRINK).into()).unwrap();
        assert!(view.slice(0, 10 << 20).is_some());
        assert!(view.slice((10 << 20) - 1, 1).is_some());
        assert!(view.slice(10 << 20, 0).is_some(), "nothing of it, at its end");
        for (offset, len) in [(0, (10 << 20) + 1), (10 << 20, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            assert!(view.slice(offset, len).is_none(), "{offset} {len}");
        }
    }

    #[test]
    fn windows_are_bounded_and_ranges_may_cross_them() {
        let mut view = View::new(sealed(1 << 42, SealFlags::SHRINK).into()).unwrap();
        for k in 0..3 * WINDOWS_MAX as u64 {
            assert!(view.slice(k * WINDOW_BYTES * 2, 8).is_some());
            assert!(view.windows.len() <= WINDOWS_MAX);
        }
        let count = view.windows.len();
        assert!(view.slice((3 * WINDOWS_MAX as u64 - 1) * WINDOW_BYTES * 2 + 5, 100).is_some());
        assert_eq!(view.windows.len(), count, "what is mapped is not mapped again");
        assert!(view.slice(WINDOW_BYTES - 8, 16).is_some());
        assert!(view.slice(0, RANGE_BYTES_MAX).is_some());
        assert!(view.slice(0, RANGE_BYTES_MAX + 1).is_none());
    }

    #[test]
    fn files_that_could_hurt_are_refused() {
        assert!(View::new(sealed(4096, SealFlags::GROW).into()).is_err(), "may get shorter");
        assert!(View::new(sealed(4096, SealFlags::SHRINK | SealFlags::WRITE).into()).is_err(), "cannot be written");
        assert!(View::new(sealed(4096, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).into()).is_err());
        let disk = File::open("/proc/self/exe").unwrap();
        assert!(View::new(disk.into()).is_err(), "not memory");
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(View::new(reader).is_err());
    }
}
