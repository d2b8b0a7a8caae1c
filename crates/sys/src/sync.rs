//! Atomics and fences for memory that processes share, and the two patterns that its protocols are made of. With
//! `--cfg loom` they are loom's, which explores every order that the memory model permits: `cargo xtask test --ring loom`
//! runs the protocols' own code that way.

pub use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, fence};

/// Stores a word that the other side checks, before the caller checks by `SeqCst` loads what the other side wrote: at
/// least one of the two sees the other. The other side does the same, or writes, calls `fence(SeqCst)` and checks.
/// Everything before is visible to a thread that sees the word.
///
/// loom knows sequentially consistent fences, but takes sequentially consistent accesses for acquire and release.
#[inline]
pub fn store_then_check(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Waits a moment in a loop until another thread changes a word.
#[inline]
pub fn spin_loop() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
