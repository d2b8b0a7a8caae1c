//! Memory of a program that another process maps, too: the pages of a range move from private memory onto a memory file,
//! in which each lies at its address. The program's addresses and data stay as they are.
//!
//! A page is copied to the file and then mapped from it in the same place. A write of another thread between the two would be
//! lost, so the pages are write-protected by userfaultfd(2) meanwhile: the kernel lets a writer wait, as for any page that it
//! fetches, and no signal is involved. The calling thread must not write to the pages either, so nothing in between allocates.

mod failure;
pub mod forking;
mod protection;
mod range;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Mutex;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, SeekFrom};
use rustix::mm::{Advice, MapFlags, ProtFlags};

pub use failure::{Immovable, MoveError};
use protection::Protection;
use range::{FileName, Run};

/// Bytes that move at a time: the file has a copy of no more than this besides what the program has.
const STEP: u64 = 256 << 10;

/// The file.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    name: FileName,
    process: u32,
    moving: Mutex<()>,
}

impl PageFile {
    /// Creates the file of this process. `length` exceeds every address; the file occupies no memory until pages move.
    ///
    /// # Errors
    /// The process may open no more files, or none of this length (`ulimit -f`).
    pub fn new(label: &str, length: u64) -> io::Result<PageFile> {
        let file = File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        crate::file_size::set_len(&file, length)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let name = FileName::of(&file)?;
        Ok(PageFile { file, name, process: std::process::id(), moving: Mutex::new(()) })
    }

    /// Whether this process created it. A child moves its pages onto a file of its own.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Moves the pages of a range onto the file, unless they are there.
    ///
    /// # Errors
    /// Some of the range is of a kind that does not move. The rest may have moved, which the program does not notice.
    pub fn take_in(&self, address: u64, length: u64) -> Result<(), MoveError> {
        let _moving = self.moving.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let runs = range::runs(&self.name, address, length)?;
        if runs.is_empty() {
            return Ok(());
        }
        self.release_unmapped()?;
        runs.iter().try_for_each(|run| self.take_in_run(run))
    }

    /// Gives the memory of pages back that the program no longer maps.
    fn release_unmapped(&self) -> io::Result<()> {
        let used = range::used(&self.name)?;
        let bounds = used.iter().copied().chain([(u64::MAX, u64::MAX)]);
        let mut from = 0;
        for (start, end) in bounds {
            while let Some((first, last)) = self.data_after(from)?.filter(|(first, _)| *first < start) {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, flags, first, last.min(start) - first)?;
                from = last.min(start);
            }
            from = from.max(end);
        }
        Ok(())
    }

    /// Returns the first part of the file behind an offset that occupies memory.
    fn data_after(&self, offset: u64) -> io::Result<Option<(u64, u64)>> {
        if offset >= i64::MAX as u64 {
            return Ok(None);
        }
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(start) => Ok(Some((start, rustix::fs::seek(&self.file, SeekFrom::Hole(start))?))),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn take_in_run(&self, run: &Run) -> Result<(), MoveError> {
        // A handler of a signal might write to the pages, and would wait for this thread then.
        let signals = AllSignals::block();
        let moved = crate::file_size::without_signal(|| {
            let protection = if is_alone()? { None } else { Some(Protection::of(run)?) };
            let mut at = run.start;
            while at < run.end {
                let length = STEP.min(run.end - at);
                if let Some(protection) = &protection {
                    protection.protect(at, length)?;
                }
                self.take_in_step(at, length)?;
                at += length;
            }
            Ok(forbid_growth(run)?)
        });
        drop(signals);
        moved
    }

    /// Copies pages to the file, and maps it over them.
    fn take_in_step(&self, start: u64, length: u64) -> io::Result<()> {
        let mut copied = 0;
        while copied < length {
            let from: *const libc::c_void = std::ptr::with_exposed_provenance((start + copied) as usize);
            let (rest, at) = ((length - copied) as usize, (start + copied) as libc::off_t);
            // SAFETY: the kernel reads the pages, and fails where there are none.
            match unsafe { libc::pwrite(self.file.as_raw_fd(), from, rest, at) } {
                ..=0 => return Err(io::Error::last_os_error()),
                count => copied += count as u64,
            }
        }
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let place = std::ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: the pages get the same content in the same place, and other threads' writes wait (see above).
        unsafe { rustix::mm::mmap(place, length as usize, rights, flags, &self.file, start) }?;
        Ok(())
    }

    /// Ranges of this process that are mapped from the file where they belong.
    ///
    /// # Errors
    /// The kernel does not tell the mappings.
    pub fn ranges(&self) -> io::Result<Vec<(u64, u64)>> {
        range::mapped(&self.name)
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes mremap(2) fail to lengthen the mapping of the run, so that realloc(3) copies instead: what is behind the run in the
/// file belongs to other addresses. The first page becomes a mapping of its own by a hint that has no effect, and mremap
/// lengthens no two at a time.
fn forbid_growth(run: &Run) -> io::Result<()> {
    let first = std::ptr::with_exposed_provenance_mut(run.start as usize);
    // SAFETY: the hint is about the order of reads from storage, and changes no byte.
    unsafe { rustix::mm::madvise(first, rustix::param::page_size(), Advice::Random) }?;
    Ok(())
}

/// Whether the process has no other thread.
fn is_alone() -> io::Result<bool> {
    // The directory's link count is two more than its subdirectories, the threads.
    Ok(rustix::fs::stat("/proc/self/task")?.st_nlink == 3)
}

/// Blocks all signals of the calling thread until it is dropped.
struct AllSignals(libc::sigset_t);

impl AllSignals {
    fn block() -> AllSignals {
        // SAFETY: two sets of our own; a set is an array of bits, for which zeroes are valid.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            AllSignals(before)
        }
    }
}

impl Drop for AllSignals {
    fn drop(&mut self) {
        // SAFETY: the mask that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    const PAGE: usize = 4096;
    const LENGTH: u64 = 1 << 52;

    /// Maps private memory.
    fn private(pages: usize) -> u64 {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), pages * PAGE, rights, flags) };
        at.unwrap().expose_provenance() as u64
    }

    fn words(at: u64, count: usize) -> &'static [AtomicU64] {
        let at: *const AtomicU64 = std::ptr::with_exposed_provenance(at as usize);
        // SAFETY: memory of a mapping that a test made and never unmaps.
        unsafe { std::slice::from_raw_parts(at, count) }
    }

    /// Ranges that are mapped from the file, adjacent ones as one.
    fn covered(file: &PageFile) -> Vec<(u64, u64)> {
        let mut covered: Vec<(u64, u64)> = Vec::new();
        for (start, end) in file.ranges().unwrap() {
            match covered.last_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ => covered.push((start, end)),
            }
        }
        covered
    }

    fn in_file(file: &PageFile, at: u64) -> u64 {
        let mut bytes = [0; 8];
        assert_eq!(rustix::io::pread(file, &mut bytes, at).unwrap(), 8);
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn pages_keep_their_place_and_content_and_move_once() {
        let file = PageFile::new("test", LENGTH).unwrap();
        let at = private(4);
        words(at + 8, 1)[0].store(5, Ordering::Relaxed);
        words(at + 2 * PAGE as u64, 1)[0].store(6, Ordering::Relaxed);
        file.take_in(at + 100, PAGE as u64).unwrap();
        assert_eq!(covered(&file), [(at, at + 2 * PAGE as u64)]);
        assert_eq!(in_file(&file, at + 8), 5);
        // A file's later change is the program's, and an overlapping range leaves moved pages alone.
        rustix::io::pwrite(&file, &7_u64.to_ne_bytes(), at + 8).unwrap();
        file.take_in(at, 4 * PAGE as u64).unwrap();
        assert_eq!(words(at + 8, 1)[0].load(Ordering::Relaxed), 7);
        assert_eq!(in_file(&file, at + 2 * PAGE as u64), 6);
        assert_eq!(covered(&file), [(at, at + 4 * PAGE as u64)]);
    }

    #[test]
    fn memory_that_is_unmapped_goes_back_and_none_grows_into_other_pages() {
        let file = PageFile::new("test", LENGTH).unwrap();
        let [first, second] = [private(4), private(4)];
        for at in [first, second] {
            words(at, 1)[0].store(7, Ordering::Relaxed);
            file.take_in(at, 4 * PAGE as u64).unwrap();
        }
        let place = std::ptr::with_exposed_provenance_mut(first as usize);
        // SAFETY: fails, or moves memory that only this test uses.
        let grown = unsafe { rustix::mm::mremap(place, 4 * PAGE, 8 * PAGE, rustix::mm::MremapFlags::MAYMOVE) };
        assert_eq!(grown, Err(rustix::io::Errno::FAULT));
        // SAFETY: memory that only this test uses.
        unsafe { rustix::mm::munmap(place, 4 * PAGE) }.unwrap();
        file.take_in(private(1), 1).unwrap();
        assert_eq!((in_file(&file, first), in_file(&file, second)), (0, 7));
    }

    #[test]
    fn what_cannot_move_is_refused() {
        let file = PageFile::new("test", LENGTH).unwrap();
        let refused = |at: u64, length: u64| match file.take_in(at, length) {
            Err(MoveError::Immovable(kind)) => kind,
            other => panic!("{other:?}"),
        };
        let local = 1_u64;
        assert_eq!(refused((&raw const local).expose_provenance() as u64, 8), Immovable::Stack);
        assert_eq!(refused(PAGE as u64, 8), Immovable::Hole);
        let code = what_cannot_move_is_refused as *const () as u64;
        assert_eq!(refused(code, 8), Immovable::ReadOnly);
        let shared = crate::memory::anonymous_file("shared").unwrap();
        shared.set_len(PAGE as u64).unwrap();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE, rights, MapFlags::SHARED, &shared, 0) };
        assert_eq!(refused(at.unwrap().expose_provenance() as u64, 8), Immovable::Shared);
    }

    #[test]
    fn a_child_has_copies() {
        let file: &'static PageFile = Box::leak(Box::new(PageFile::new("test", LENGTH).unwrap()));
        forking::keep_private(file).unwrap();
        let at = private(2);
        words(at, 1)[0].store(5, Ordering::Relaxed);
        file.take_in(at, 2 * PAGE as u64).unwrap();
        // SAFETY: the child takes no lock that another thread might hold, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let before = words(at, 1)[0].swap(6, Ordering::Relaxed);
            // SAFETY: the child exits without running destructors or exit handlers.
            unsafe { libc::_exit(if before == 5 && !file.is_own() { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((status, words(at, 1)[0].load(Ordering::Relaxed)), (0, 5));
        assert_eq!(covered(file), [(at, at + 2 * PAGE as u64)]);
    }

    /// Threads count in words of all pages while these move; no count is lost.
    #[test]
    fn writes_of_other_threads_are_not_lost() {
        const PAGES: usize = 256;
        let file = PageFile::new("test", LENGTH).unwrap();
        let at = private(PAGES);
        let is_over = AtomicBool::new(false);
        let counts = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    let is_over = &is_over;
                    scope.spawn(move || {
                        let mut count = 0_u64;
                        while !is_over.load(Ordering::Relaxed) {
                            for page in 0..PAGES {
                                words(at + (page * PAGE) as u64, 2)[thread].fetch_add(1, Ordering::Relaxed);
                            }
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            while words(at, 1)[0].load(Ordering::Relaxed) < 10 {
                std::thread::yield_now();
            }
            let moved = file.take_in(at, (PAGES * PAGE) as u64);
            is_over.store(true, Ordering::Relaxed);
            let counts: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
            match moved {
                // A sandbox may forbid userfaultfd.
                Err(MoveError::Immovable(Immovable::Threads)) => None,
                moved => moved.map(|()| Some(counts)).unwrap(),
            }
        });
        let Some(counts) = counts else { return };
        for page in 0..PAGES {
            for (thread, count) in counts.iter().enumerate() {
                let word = at + (page * PAGE + 8 * thread) as u64;
                assert_eq!((page, in_file(&file, word)), (page, *count));
            }
        }
    }
}
