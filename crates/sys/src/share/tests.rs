//! Tests of memory that moves into the arena and back: alone and beside other threads, through forks and through the
//! program's own changes to its mappings.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::faults::Faults;
use super::*;

mod sparse;

/// Serialises the tests: they fork, and count descriptors.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Private anonymous memory.
struct Memory {
    addr: u64,
    len: u64,
}

impl Memory {
    fn new(pages: u64) -> Memory {
        let len = pages * page_size();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let addr = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, rights, flags, -1, 0) };
        assert_ne!(addr, libc::MAP_FAILED);
        Memory { addr: addr.expose_provenance() as u64, len }
    }

    /// Creates memory in which every word has a distinct value.
    fn filled(pages: u64) -> Memory {
        let memory = Memory::new(pages);
        for k in 0..memory.len / 8 {
            memory.word(k).store(pattern(k), Ordering::Relaxed);
        }
        memory
    }

    fn word(&self, k: u64) -> &'static AtomicU64 {
        assert!(k < self.len / 8);
        // SAFETY: mapped and aligned; only tests that say so unmap it.
        unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut((self.addr + 8 * k) as usize)) }
    }

    fn words(&self) -> u64 {
        self.len / 8
    }

    fn holds_pattern(&self) -> bool {
        (0..self.words()).all(|k| self.word(k).load(Ordering::Relaxed) == pattern(k))
    }

    /// Returns the lines of /proc/self/maps that overlap the first `len` bytes.
    fn mappings(&self, len: u64) -> Vec<String> {
        let table = std::fs::read_to_string("/proc/self/maps").unwrap();
        let lines = table.lines().filter(|line| {
            let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
            let bound = |text: &str| u64::from_str_radix(text, 16).unwrap();
            bound(start) < self.addr + len && self.addr < bound(end)
        });
        lines.map(str::to_owned).collect()
    }

    /// Returns a column of the /proc/self/maps line of the first address.
    fn told(&self, column: usize) -> String {
        let lines = self.mappings(1);
        lines.first().and_then(|line| line.split_ascii_whitespace().nth(column)).unwrap_or_default().to_owned()
    }

    fn rights(&self) -> String {
        self.told(1)
    }

    fn file(&self) -> String {
        self.told(5)
    }
}

fn pattern(k: u64) -> u64 {
    k.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn share(sharer: &mut Sharer, addr: u64, len: u64) -> Vec<Extent> {
    sharer.share(addr, len, 0, &mut |work| work())
}

fn unshare(sharer: &mut Sharer, extents: &[Extent]) {
    sharer.unshare(extents, 0, &mut |work| work());
    assert_eq!(sharer.take_refusal(), None);
}

fn file(sharer: &Sharer) -> std::fs::File {
    sharer.arena().try_clone_to_owned().unwrap().into()
}

/// Stops the other threads on drop, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether threads can be blocked at all here; a container's seccomp filter may forbid it.
fn can_hold() -> bool {
    Faults::new().is_ok()
}

/// Whether pages can be restored without a trace: in a single thread, or if threads can be blocked anywhere.
fn can_restore() -> bool {
    hazard::threads() == 1 || Faults::new().is_ok_and(|faults| faults.complete && faults.minor)
}

/// Runs a closure in a child of one thread and returns its verdict. A panic counts as false: the child must not
/// continue as another run of this test, with locks that its parent's threads held and that stay locked.
fn in_child(verdict: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child has one thread, runs the closure and leaves without unwinding or handlers.
    unsafe {
        match libc::fork() {
            -1 => panic!("no child"),
            0 => {
                let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(verdict));
                if let Err(why) = &good {
                    // The test harness captures output for a report, which the child does not live to print.
                    let why = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
                    let why = format!("in a child: {}\n", why.unwrap_or("a panic"));
                    libc::write(2, why.as_ptr().cast(), why.len());
                }
                libc::_exit(if good.unwrap_or(false) { 0 } else { 1 })
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

#[test]
fn a_panic_of_a_child_ends_it() {
    let _one = one_at_a_time();
    assert!(!in_child(|| panic!("on purpose")));
}

/// Shares and restores, with a peer that reads and writes in between.
fn round_trip(careful: bool) -> bool {
    let pages = 3 * 512 + 7;
    let memory = Memory::filled(pages);
    let mut sharer = Sharer::new(careful).unwrap();
    let extents = share(&mut sharer, memory.addr, memory.len);
    let [extent] = extents[..] else {
        eprintln!("{extents:?} {:?}", sharer.take_refusal());
        return false;
    };
    let whole = extent.addr == memory.addr && extent.len == memory.len && memory.rights() == "rw-s";
    let kept = memory.holds_pattern();
    let mut view = View::new(sharer.arena().try_clone_to_owned().unwrap()).unwrap();
    let at = view.slice(extent.offset, extent.len).unwrap().cast::<u64>();
    // SAFETY: the view's mapping of the whole extent.
    let seen = (0..memory.words()).all(|k| unsafe { at.add(k as usize).read_volatile() } == pattern(k));
    memory.word(1).store(77, Ordering::Relaxed);
    // SAFETY: as above.
    let both = unsafe {
        at.add(2).write_volatile(88);
        at.add(1).read_volatile() == 77 && memory.word(2).load(Ordering::Relaxed) == 88
    };
    memory.word(1).store(pattern(1), Ordering::Relaxed);
    memory.word(2).store(pattern(2), Ordering::Relaxed);
    unshare(&mut sharer, &extents);
    // SAFETY: as above.
    let blind = (0..memory.words()).all(|k| unsafe { at.add(k as usize).read_volatile() } == 0);
    // SAFETY: as above. A peer's late write has no effect on the memory.
    unsafe { at.write_volatile(99) };
    let private = memory.rights() == "rw-p" && memory.holds_pattern();
    // No private mapping of the arena remains either, where that is possible.
    let anonymous = !can_restore() || memory.file().is_empty();
    let good = whole && kept && seen && both && blind && private && anonymous;
    if !good {
        eprintln!(
            "whole {whole} kept {kept} seen {seen} both {both} blind {blind} private {private} anonymous {anonymous}"
        );
    }
    good
}

#[test]
fn bytes_survive_alone() {
    let _one = one_at_a_time();
    assert!(in_child(|| round_trip(true)));
}

#[test]
fn bytes_survive_beside_other_threads() {
    let _one = one_at_a_time();
    if can_hold() {
        assert!(round_trip(false));
    }
}

#[test]
fn memory_is_what_it_was_afterwards() {
    let _one = one_at_a_time();
    let check = || {
        let memory = Memory::filled(600);
        let mut sharer = Sharer::new(true).unwrap();
        let extents = share(&mut sharer, memory.addr, memory.len);
        unshare(&mut sharer, &extents);
        // Allocators rely on MADV_DONTNEED zeroing the memory.
        // SAFETY: the test's own memory.
        assert_eq!(unsafe { libc::madvise(memory.addr as *mut _, memory.len as usize, libc::MADV_DONTNEED) }, 0);
        let zero = (0..memory.words()).all(|k| memory.word(k).load(Ordering::Relaxed) == 0);
        // And children get copies as before.
        memory.word(0).store(5, Ordering::Relaxed);
        zero && in_child(|| {
            memory.word(0).store(6, Ordering::Relaxed);
            true
        }) && memory.word(0).load(Ordering::Relaxed) == 5
            && file(&sharer).metadata().unwrap().blocks() == 0
    };
    assert!(in_child(check), "alone");
    if Faults::new().is_ok_and(|faults| faults.complete) {
        assert!(check(), "beside other threads");
    }
}

#[test]
fn no_write_of_another_thread_is_lost() {
    let _one = one_at_a_time();
    if !can_hold() {
        return;
    }
    let memory = Memory::filled(1024 + 13);
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let hammers: Vec<_> = (0..3)
            .map(|n| {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    // Each thread counts in its own words, in every page.
                    let mut laps = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        laps += 1;
                        for k in (8 + n..memory.words()).step_by(512) {
                            let word = memory.word(k);
                            assert_eq!(word.load(Ordering::Relaxed), if laps == 1 { pattern(k) } else { laps - 1 });
                            word.store(laps, Ordering::Relaxed);
                        }
                    }
                    laps
                })
            })
            .collect();
        let _stop = Stop(&stop);
        let mut sharer = Sharer::new(false).unwrap();
        for _ in 0..40 {
            let extents = share(&mut sharer, memory.addr, memory.len);
            assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), memory.len, "{:?}", sharer.take_refusal());
            unshare(&mut sharer, &extents);
        }
        drop(_stop);
        hammers.into_iter().map(|hammer| hammer.join().unwrap()).collect::<Vec<_>>()
    });
    for (n, laps) in (0..3).zip(counts) {
        assert!((8 + n..memory.words()).step_by(512).all(|k| memory.word(k).load(Ordering::Relaxed) == laps));
    }
    assert_eq!(memory.word(7).load(Ordering::Relaxed), pattern(7));
}

#[test]
fn the_way_without_holding_threads_back_loses_no_write_either() {
    let _one = one_at_a_time();
    if !can_hold() {
        return;
    }
    let memory = Memory::filled(300);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hammer = scope.spawn(|| {
            let mut laps = 0;
            while !stop.load(Ordering::Relaxed) {
                laps += 1;
                (0..memory.words()).step_by(512).for_each(|k| memory.word(k).store(laps, Ordering::Relaxed));
                let all = (0..memory.words()).step_by(512).all(|k| memory.word(k).load(Ordering::Relaxed) == laps);
                assert!(all, "a write was lost");
            }
        });
        let _stop = Stop(&stop);
        let mut sharer = Sharer::new(false).unwrap();
        for _ in 0..40 {
            let extents = share(&mut sharer, memory.addr, memory.len);
            assert_eq!(extents.len(), 1, "{:?}", sharer.take_refusal());
            // No thread can be stopped.
            sharer.unshare(&extents, 0, &mut |_| {});
            assert_eq!(sharer.take_refusal(), None);
            assert_eq!(memory.rights(), "rw-p");
        }
        drop(_stop);
        hammer.join().unwrap();
    });
}

/// Memory that was restored in place is a private mapping of the arena. A peer that still reads the arena there, or an access
/// of a thread that was under way, gives the arena a page of zeros, which must not show while the program's pages move.
#[test]
fn a_page_of_the_arena_does_not_show_in_what_was_restored_in_place() {
    let _one = one_at_a_time();
    if !can_hold() {
        return;
    }
    let memory = Memory::filled(700);
    let stop = AtomicBool::new(false);
    let mut sharer = Sharer::new(false).unwrap();
    let peers_file = sharer.arena().try_clone_to_owned().unwrap();
    let peer_offset = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let lost =
                    (0..memory.words()).step_by(512).find(|&k| memory.word(k).load(Ordering::Relaxed) != pattern(k));
                assert_eq!(lost, None, "a word that was not there");
            }
        });
        let peer = scope.spawn(|| {
            let mut view = View::new(peers_file).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let offset = peer_offset.load(Ordering::Relaxed);
                if let Some(at) = (offset != u64::MAX).then(|| view.slice(offset, memory.len).unwrap().cast::<u64>()) {
                    // SAFETY: the view's mapping of the whole extent.
                    let ones = (0..memory.words())
                        .step_by(512)
                        .filter(|&k| unsafe { at.add(k as usize).read_volatile() } == 1);
                    assert_eq!(ones.count(), 0);
                }
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..30 {
            let extents = share(&mut sharer, memory.addr, memory.len);
            assert_eq!(extents.len(), 1, "{:?}", sharer.take_refusal());
            // No thread can be stopped.
            sharer.unshare(&extents, 0, &mut |_| {});
            assert_eq!((sharer.take_refusal(), memory.rights().as_str()), (None, "rw-p"));
            peer_offset.store(extents[0].offset, Ordering::Relaxed);
            file(&sharer).write_all_at(&vec![0; memory.len as usize], extents[0].offset).unwrap();
        }
        drop(_stop);
        reader.join().unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn system_calls_of_other_threads_succeed_meanwhile() {
    let _one = one_at_a_time();
    if !Faults::new().is_ok_and(|faults| faults.complete) {
        return;
    }
    let memory = Memory::filled(700);
    let source = crate::memory::anonymous_file("source").unwrap();
    source.write_all_at(&vec![0xab; memory.len as usize], 0).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut calls = 0;
            while !stop.load(Ordering::Relaxed) || calls == 0 {
                let to = std::ptr::with_exposed_provenance_mut(memory.addr as usize);
                // SAFETY: the test's own memory.
                let got = unsafe { libc::pread(source.as_raw_fd(), to, memory.len as usize, 0) };
                assert_eq!(got, memory.len as isize, "{}", std::io::Error::last_os_error());
                calls += 1;
            }
        });
        let _stop = Stop(&stop);
        let mut sharer = Sharer::new(false).unwrap();
        for _ in 0..60 {
            let extents = share(&mut sharer, memory.addr, memory.len);
            assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), memory.len);
            unshare(&mut sharer, &extents);
        }
        drop(_stop);
        reader.join().unwrap();
    });
    assert!((0..memory.words()).all(|k| memory.word(k).load(Ordering::Relaxed) == 0xabab_abab_abab_abab));
}

#[test]
fn a_child_has_its_own_copy() {
    let _one = one_at_a_time();
    assert!(in_child(|| {
        let memory = Memory::filled(1100);
        let mut sharer = Sharer::new(true).unwrap();
        let extents = share(&mut sharer, memory.addr, memory.len);
        assert_eq!(extents.len(), 1);
        let arena = sharer.arena().as_raw_fd();
        let child = in_child(|| {
            let same = memory.holds_pattern() && memory.rights() == "rw-p";
            (0..memory.words()).for_each(|k| memory.word(k).store(3, Ordering::Relaxed));
            // The parent's arena is closed in the child.
            // SAFETY: F_GETFD only queries a descriptor number.
            let closed = unsafe { libc::fcntl(arena, libc::F_GETFD) } == -1;
            // And the child may share on its own.
            let mut own = Sharer::new(true).unwrap();
            let extents = share(&mut own, memory.addr, memory.len);
            let shared = extents.len() == 1 && memory.rights() == "rw-s";
            unshare(&mut own, &extents);
            same && closed && shared && memory.word(9).load(Ordering::Relaxed) == 3
        });
        let untouched = memory.holds_pattern() && memory.rights() == "rw-s";
        unshare(&mut sharer, &extents);
        child && untouched && memory.holds_pattern()
    }));
}

#[test]
fn what_the_parent_writes_after_the_fork_is_not_the_childs() {
    let _one = one_at_a_time();
    for not_told in [false, true] {
        assert!(in_child(|| {
            let memory = Memory::filled(3000);
            let mut sharer = Sharer::new(true).unwrap();
            assert_eq!(share(&mut sharer, memory.addr, memory.len).len(), 1);
            let at = std::ptr::with_exposed_provenance_mut(memory.addr as usize);
            if not_told {
                // A program that reverses the fork advice set for it.
                // SAFETY: the test's own memory.
                assert_eq!(unsafe { libc::madvise(at, memory.len as usize, libc::MADV_DOFORK) }, 0);
            }
            // SAFETY: the child has one thread and leaves without unwinding or handlers.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let same = memory.holds_pattern() && memory.rights() == "rw-p";
                    libc::_exit(if same { 0 } else { 1 });
                }
                // From the end, which is copied last.
                (0..memory.words()).rev().for_each(|k| memory.word(k).store(1, Ordering::Relaxed));
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }));
    }
}

#[test]
fn what_the_program_did_with_its_addresses_is_respected() {
    let _one = one_at_a_time();
    assert!(in_child(|| {
        let page = page_size();
        let memory = Memory::filled(16);
        let mut sharer = Sharer::new(true).unwrap();
        let extents = share(&mut sharer, memory.addr, memory.len);
        let at = |k: u64| std::ptr::with_exposed_provenance_mut::<libc::c_void>((memory.addr + k * page) as usize);
        let elsewhere = Memory::new(2);
        // SAFETY: the test's own memory, in every call.
        unsafe {
            // One page is unmapped, another is replaced, two are moved, one becomes read-only.
            assert_eq!(libc::munmap(at(1), page as usize), 0);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let new = libc::mmap(at(3), page as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_eq!(new, at(3));
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let to = std::ptr::with_exposed_provenance_mut::<libc::c_void>(elsewhere.addr as usize);
            assert_eq!(libc::mremap(at(5), 2 * page as usize, 2 * page as usize, flags, to), to);
            assert_eq!(libc::mprotect(at(9), page as usize, libc::PROT_READ), 0);
        }
        memory.word(3 * 512).store(42, Ordering::Relaxed);
        unshare(&mut sharer, &extents);
        // Other tests may have left their own mappings.
        let mappings = [memory.mappings(memory.len), elsewhere.mappings(elsewhere.len)].concat();
        assert!(!mappings.iter().any(|line| line.contains("memfd:weft")), "{mappings:#?}");
        let missing = |k: u64| crate::mapping::check(memory.addr + k * page, page, false).is_err();
        assert!(missing(1) && missing(5) && missing(6), "nothing was mapped where nothing stood");
        assert_eq!(memory.word(3 * 512).load(Ordering::Relaxed), 42, "what stands there now is the program's");
        assert_eq!(elsewhere.word(0).load(Ordering::Relaxed), pattern(5 * 512), "moved memory keeps its bytes");
        assert_eq!(elsewhere.rights(), "rw-p");
        assert!(crate::mapping::check(memory.addr + 9 * page, page, true).is_err(), "rights are kept");
        [0, 2, 4, 7, 8, 9, 10, 15].iter().all(|k| memory.word(k * 512).load(Ordering::Relaxed) == pattern(k * 512))
    }));
}

#[test]
fn only_plain_memory_is_shared_and_only_what_there_is_takes_memory() {
    let _one = one_at_a_time();
    assert!(in_child(|| {
        let page = page_size();
        let memory = Memory::new(64);
        // Only pages 10 to 19 exist; 30 and 31 are excluded from children, 40 is read-only.
        (10..20).for_each(|k| memory.word(k * 512).store(k, Ordering::Relaxed));
        let at = |k: u64| std::ptr::with_exposed_provenance_mut::<libc::c_void>((memory.addr + k * page) as usize);
        // SAFETY: the test's own memory.
        unsafe {
            assert_eq!(libc::madvise(at(30), 2 * page as usize, libc::MADV_DONTFORK), 0);
            assert_eq!(libc::mprotect(at(40), page as usize, libc::PROT_READ), 0);
        }
        let mut sharer = Sharer::new(true).unwrap();
        let extents = share(&mut sharer, memory.addr, memory.len);
        let ranges: Vec<_> = extents.iter().map(|e| ((e.addr - memory.addr) / page, e.len / page)).collect();
        assert_eq!(ranges, [(0, 30), (32, 8), (41, 23)]);
        assert_eq!(file(&sharer).metadata().unwrap().blocks() * 512, 10 * page);
        assert_eq!(sharer.take_copied(), 10 * page);
        assert!((10..20).all(|k| memory.word(k * 512).load(Ordering::Relaxed) == k));
        assert_eq!(memory.word(25 * 512).load(Ordering::Relaxed), 0);
        unshare(&mut sharer, &extents);
        // The page that was read has memory too.
        assert_eq!(sharer.take_copied(), 11 * page);
        (10..20).all(|k| memory.word(k * 512).load(Ordering::Relaxed) == k)
    }));
}

#[test]
fn careful_sharing_refuses_what_may_be_pinned() {
    let _one = one_at_a_time();
    assert!(in_child(|| {
        let memory = Memory::filled(4);
        let mut sharer = Sharer::new(true).unwrap();
        let mut context = 0u64;
        // SAFETY: `context` has room for the aio context.
        let rc = unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) };
        if rc != 0 {
            return true;
        }
        let none = share(&mut sharer, memory.addr, memory.len).is_empty();
        let why = sharer.take_refusal().unwrap_or_default();
        let some = !share(&mut Sharer::new(false).unwrap(), memory.addr, memory.len).is_empty();
        none && why.contains("libaio") && some
    }));
}
