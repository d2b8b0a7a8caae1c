//! Registered memory shared with other processes of the host: the pages of private anonymous memory are put into a file,
//! in place, and peers map that file.

mod arena;
pub mod view;

pub use arena::Arena;
pub use view::View;

/// A range of memory that is shared now: the bytes from `addr` are those of the arena's file from `offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First address, at a page boundary.
    pub addr: u64,
    /// Bytes, whole pages.
    pub len: u64,
    /// Where the arena has them.
    pub offset: u64,
}

/// Advice whose refusal changes nothing that anybody relies on.
fn advise(addr: usize, len: usize, advice: libc::c_int) {
    // SAFETY: only advice that leaves every byte as it is comes here; what is not mapped is refused.
    unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(addr), len, advice) };
}
