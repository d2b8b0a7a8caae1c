//! Shared memory in a model: words are loom's atomics, and plain bytes are cells in which loom finds races. Files map
//! the same words again, as they do outside of a model. Nothing is in shared pages, since a model's processes are
//! threads.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use loom::cell::UnsafeCell;

use crate::sync::AtomicU64;

/// Rights of a mapping, which a model does not need.
#[derive(Clone, Copy)]
pub(super) struct Rights;

pub(super) const READ_ONLY: Rights = Rights;
pub(super) const READ_WRITE: Rights = Rights;

/// Largest memory of a model: every word costs time in each of its runs.
const LEN_MAX: usize = 16 << 10;

/// Memory files of the current run, by inode.
static FILES: Mutex<BTreeMap<u64, Weak<Words>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Words {
    atomic: Vec<AtomicU64>,
    plain: Vec<UnsafeCell<[u8; 8]>>,
}

// SAFETY: the plain bytes are reached through loom's cells only, which report every access that races.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn new(len: usize) -> Words {
        assert!(len <= LEN_MAX, "{len} bytes are too many for a model");
        let words = len / 8;
        Words {
            atomic: (0..words).map(|_| AtomicU64::new(0)).collect(),
            plain: (0..words).map(|_| UnsafeCell::new([0; 8])).collect(),
        }
    }
}

/// A mapping.
#[derive(Debug)]
pub(super) struct Pages(Arc<Words>);

impl Pages {
    pub fn map(fd: Option<BorrowedFd<'_>>, len: usize, _: Rights) -> io::Result<Pages> {
        let Some(fd) = fd else { return Ok(Pages(Arc::new(Words::new(len)))) };
        let inode = rustix::fs::fstat(fd)?.st_ino;
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get(&inode).and_then(Weak::upgrade) {
            return Ok(Pages(known));
        }
        let new = Arc::new(Words::new(len));
        files.retain(|_, words| words.strong_count() > 0);
        files.insert(inode, Arc::downgrade(&new));
        Ok(Pages(new))
    }

    pub fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        assert!(offset.is_multiple_of(8), "outside shared memory");
        self.0.atomic.get(offset / 8..).and_then(<[_]>::first_chunk).expect("outside shared memory")
    }

    pub fn read<R>(&self, offset: usize, len: usize, f: impl FnOnce(*const u8) -> R) -> R {
        let first = offset / 8;
        let bytes: Vec<u8> = self.cells(offset, len).iter().flat_map(|cell| cell.with(|word| *word_at(word))).collect();
        f(bytes[offset - first * 8..].as_ptr())
    }

    pub fn write<R>(&self, offset: usize, len: usize, f: impl FnOnce(*mut u8) -> R) -> R {
        assert!(offset.is_multiple_of(8), "a model writes whole words");
        let mut bytes = vec![0; len.next_multiple_of(8)];
        let result = f(bytes.as_mut_ptr());
        for (cell, new) in self.cells(offset, len).iter().zip(bytes.as_chunks::<8>().0) {
            // SAFETY: the cell is alive, and loom has just checked that no other thread uses it.
            cell.with_mut(|word| unsafe { *word = *new });
        }
        result
    }

    pub fn expect_write(&self, _: usize, _: usize) {}

    fn cells(&self, offset: usize, len: usize) -> &[UnsafeCell<[u8; 8]>] {
        &self.0.plain[offset / 8..(offset + len).div_ceil(8)]
    }
}

fn word_at<'a>(word: *const [u8; 8]) -> &'a [u8; 8] {
    // SAFETY: called inside of `with`, which has checked that no thread writes the cell.
    unsafe { &*word }
}
