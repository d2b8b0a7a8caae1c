//! Registered memory shared with other processes of the host: the pages of private anonymous memory are put into a file in
//! memory, in place, and peers map that file and copy by themselves. Deregistered pages are private and anonymous again.
//!
//! **What is shared.** Whole pages of mappings that are private, anonymous, readable, writable, and plain (`survey`): the
//! heap, bss, what mmap and malloc give. Not the stack of the calling thread, files, huge pages of hugetlbfs, locked
//! memory, memory that children or core dumps do not get, memory that a userfaultfd watches; the bytes of a region that
//! share their page with others; on-demand regions. All of that is reached by other ways.
//!
//! **When.** One thread: always. Other threads: they sleep in a userfaultfd(2) when they touch a chunk of 2 MiB that is on
//! its way (`faults`). Without the right to hold system calls too (CAP_SYS_PTRACE, `vm.unprivileged_userfaultfd`, access to
//! /dev/userfaultfd), a careful caller shares only if the other threads are his own and stand still. Nothing is shared
//! carefully in a process where the kernel or a device may write to pages without asking for their address again: one
//! with an io_uring, a libaio context, a mapped ring of a socket, a device that may pin memory, a file open with O_DIRECT
//! beside other threads (`hazard`). There must be a /proc and no `ulimit -f`.
//!
//! **What the program may notice.** Nothing in its bytes, its addresses, its rights. Beyond that:
//! - A child of fork gets a copy while its parent waits, 0.3 s a gibibyte, instead of one at the first write; if the copies
//!   would take more than half of the free memory it gets a private mapping of the file, in which the parent's later
//!   writes show until it writes itself. A child of a bare clone(2) lacks the memory (`fork`).
//! - `madvise(MADV_DONTNEED)` of memory *while it is registered* does not make it zero (nor does it free what an adapter
//!   had pinned). Afterwards it does.
//! - Memory that is unmapped, moved or mapped anew while it is registered is restored where it is now, and what stands in
//!   its place is left alone (`restore`). mremap(2) must not be told to grow a range that is shared in part; realloc copies.
//! - Input under way by the kernel into memory *while it is deregistered* (an io_uring opened since) may be lost, as the
//!   pages change. Two threads that unmap and deregister the same memory at once race.
//! - Shared pages count as shared memory (RssShmem, memory.stat's shmem), not against RLIMIT_DATA; core dumps have them as
//!   anonymous shared memory. A mapping that was restored beside other threads does not join its neighbours in
//!   /proc/self/maps. What mbind(2) said of it is lost. Huge pages are kept if the kernel has them for shared memory
//!   (`/sys/kernel/mm/transparent_hugepage/shmem_enabled`).
//! - Processes of the same user that were given the file can read and write every page in it, whatever rights the regions
//!   have.
//!
//! **What it costs.** To share and to restore, each two to three times what making the pages present costs (pages that nobody
//! touched cost nothing), and a look at /proc/self/smaps, which takes 10 ms for each gibibyte that the process has in small pages. Copies are as fast as within
//! private memory (`examples/share_cost.rs`).

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
pub use survey::resident_bytes;
pub use view::View;

use rustix::mm::Advice;

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
fn advise(addr: usize, len: usize, advice: Advice) {
    // SAFETY: only advice that leaves every byte as it is comes here; what is not mapped is refused.
    let _ = unsafe { rustix::mm::madvise(std::ptr::with_exposed_provenance_mut(addr), len, advice) };
}
