//! Registered memory shared with other processes of the host. The pages of private anonymous memory are replaced in
//! place by pages of a memory file, which peers map and copy from directly. Deregistered pages become private and
//! anonymous again.
//!
//! **Eligible memory.** Whole pages of mappings that are private, anonymous, readable, writable, and plain (`survey`):
//! the heap, bss, memory from mmap and malloc. Not eligible: the stack of the calling thread, files, huge pages of
//! hugetlbfs, locked memory, memory excluded from children or core dumps, memory watched by a userfaultfd, the bytes of
//! a region that share their page with other data, and on-demand regions. Peers reach all of that by other paths.
//!
//! **Conditions.** With one thread: always. Other threads sleep in a userfaultfd(2) when they touch a chunk of 2 MiB
//! that is being moved (`faults`). Without the right to block system calls too (CAP_SYS_PTRACE,
//! `vm.unprivileged_userfaultfd`, access to /dev/userfaultfd), a careful caller shares only if all other threads are
//! its own and stopped. A careful caller shares nothing in a process where the kernel or a device may write to pages
//! without resolving their address again: one with an io_uring, a libaio context, a mapped ring of a socket, a device
//! that may pin memory, or a file open with O_DIRECT beside other threads (`hazard`). /proc must be mounted, and
//! `ulimit -f` unlimited.
//!
//! **Visible effects.** The program's bytes, addresses and access rights do not change. Beyond that:
//! - A child of fork gets a copy while its parent waits, 0.3 s a gibibyte, instead of one at the first write. If the
//!   copies would take more than half of the free memory, it gets a private mapping of the file, in which the parent's
//!   later writes show until the child writes the page. A child of a bare clone(2) lacks the memory (`fork`).
//! - `madvise(MADV_DONTNEED)` of memory *while it is registered* does not zero it (nor does it free memory that a
//!   hardware adapter pins). Afterwards it does.
//! - Memory that is unmapped, moved or remapped while it is registered is restored at its current address, and a new
//!   mapping at its old address is left alone (`restore`). A program must not grow a partly shared range with
//!   mremap(2); realloc copies.
//! - Input under way by the kernel into memory *while it is deregistered* (an io_uring opened since) may be lost, as
//!   the pages change. Two threads that unmap and deregister the same memory at the same time race.
//! - Shared pages count as shared memory (RssShmem, memory.stat's shmem), not against RLIMIT_DATA; core dumps contain
//!   them as anonymous shared memory. A mapping that was restored beside other threads does not merge with its
//!   neighbours in /proc/self/maps. Its mbind(2) policy is lost. Huge pages are kept if the kernel supports them for
//!   shared memory (`/sys/kernel/mm/transparent_hugepage/shmem_enabled`).
//! - Processes of the same user that hold the file can read and write every page in it, whatever rights the regions
//!   have.
//!
//! - Pages that hold only zeros when they are shared take no memory until they are written to.
//!
//! **Cost.** Sharing and restoring each take two to three times as long as making the pages present (untouched pages
//! cost nothing, pages of zeros a check), plus one read of /proc/self/smaps, which takes 10 ms for each gibibyte that
//! the process has in small pages. Copies are as fast as within private memory (`examples/share_cost.rs`).

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

/// Opens a userfaultfd and closes it again.
///
/// # Errors
/// The kernel has none, or a seccomp filter denies it.
pub fn try_user_faults() -> std::io::Result<()> {
    faults::Faults::new().map(drop)
}

/// A range of memory that is shared now: the bytes from `addr` on are the arena's bytes from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First address, page-aligned.
    pub addr: u64,
    /// Length in bytes, whole pages.
    pub len: u64,
    /// Offset in the arena.
    pub offset: u64,
}

/// Appends an extent, or merges it with the last one if they are contiguous.
pub fn join(runs: &mut Vec<Extent>, next: Extent) {
    match runs.last_mut() {
        Some(last) if last.addr + last.len == next.addr && last.offset + last.len == next.offset => {
            last.len += next.len
        }
        _ => runs.push(next),
    }
}

/// Returns the page size in bytes.
pub fn page_size() -> u64 {
    static SIZE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| rustix::param::page_size() as u64)
}

/// Gives advice that may fail without consequences.
fn advise(addr: usize, len: usize, advice: Advice) {
    // SAFETY: callers pass only advice that changes no byte; the kernel refuses unmapped ranges.
    let _ = unsafe { rustix::mm::madvise(std::ptr::with_exposed_provenance_mut(addr), len, advice) };
}
