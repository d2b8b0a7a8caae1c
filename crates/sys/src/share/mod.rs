//! Registered memory shared with other processes of the host: the pages of private anonymous memory are put into a file,
//! in place, and peers map that file.

mod arena;
mod faults;
mod fork;
mod hazard;
mod ledger;
mod pages;
mod restore;
mod sharer;
mod signals;
mod survey;
mod swap;
#[cfg(test)]
mod tests;
pub mod view;

pub use arena::Arena;
pub use sharer::Sharer;
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

/// Adds an extent behind the last one, to it if it continues it.
pub fn join(runs: &mut Vec<Extent>, next: Extent) {
    match runs.last_mut() {
        Some(last) if last.addr + last.len == next.addr && last.offset + last.len == next.offset => {
            last.len += next.len
        }
        _ => runs.push(next),
    }
}

/// Bytes of a page of memory.
pub fn page_size() -> u64 {
    static SIZE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| rustix::param::page_size() as u64)
}

/// Advice whose refusal changes nothing that anybody relies on.
fn advise(addr: usize, len: usize, advice: libc::c_int) {
    // SAFETY: only advice that leaves every byte as it is comes here; what is not mapped is refused.
    unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(addr), len, advice) };
}
