//! Registered memory: plain loads and stores at addresses that the program registered. Only this module, and the link's
//! `gather` and `shm`, dereference such an address.
//!
//! The program may touch the same bytes at the same time (it must not, but it can, and a program that spins on a byte
//! until an RDMA WRITE arrives must see it). So data is copied by the machine's own copy instructions, and atomics and
//! the eight bytes of an ATOMIC WRITE use the processor's atomics. An access to memory that the program unmapped while
//! it was registered raises the usual signal, with two exceptions: datagrams that the background thread receives, since no
//! connection keeps peers from sending while a program ends, and what strict mode writes late.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use weft_link::NULL_MEMORY;
use weft_sys::{mapping, vm};
use weft_transport::Memory;

use crate::strict;

/// The memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostMemory;

/// Whether an address is in the null region, which reads as zeros and discards writes.
#[inline]
fn is_null(addr: u64) -> bool {
    NULL_MEMORY.contains(&addr)
}

fn pointer<T>(addr: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

/// Copies bytes to registered memory.
#[inline]
fn copy(addr: u64, data: &[u8]) {
    // SAFETY: the range comes from the adapter's check of a registered region with the right to be written (strict mode
    // writes it before the engine's lock is released, so the region is still there); `data` is a receive buffer or the
    // transport's own, which no program registers. The program's other threads may read the bytes while they change, as
    // with an adapter.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), pointer::<u8>(addr), data.len()) };
}

/// As [`copy`], as far as the memory is mapped. Costs a system call.
fn copy_if_mapped(addr: u64, data: &[u8]) {
    // SAFETY: as for `copy`, but for bytes that the program has unmapped.
    let stored = unsafe { vm::store(addr, data) }.unwrap_or(0);
    let rest = data.get(stored..).unwrap_or_default();
    let at = addr + stored as u64;
    // The kernel does not copy to all memory that stores reach (a device's), and a filter of system calls may forbid it.
    if !rest.is_empty() && mapping::check(at, rest.len() as u64, true).is_ok() {
        copy(at, rest);
    }
}

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this is the background thread: it receives datagrams for a program that does not look.
pub fn on_background_thread() {
    IS_BACKGROUND.set(true);
}

/// Writes the bytes that strict mode keeps back.
#[inline]
pub fn place() {
    if strict::on() {
        strict::place(&mut copy_if_mapped);
    }
}

/// Returns the eight bytes at an address; the transport has checked its alignment.
fn atomic<'a>(addr: u64) -> &'a AtomicU64 {
    // SAFETY: the address comes from the adapter's check of a registered region (mapped and writable when it was
    // registered) and is a multiple of eight; every access we make here is atomic.
    unsafe { AtomicU64::from_ptr(pointer(addr)) }
}

impl Memory for HostMemory {
    fn is_there(&self, addr: u64, len: u64, write: bool) -> bool {
        is_null(addr) || weft_sys::mapping::check(addr, len, write).is_ok()
    }

    #[inline]
    fn read(&self, addr: u64, out: &mut [u8]) {
        place();
        if is_null(addr) {
            return out.fill(0);
        }
        // SAFETY: the range comes from the adapter's check of a registered region, mapped when it was registered; `out`
        // is ours alone, so the two do not overlap.
        unsafe {
            match <&mut [u8; 8]>::try_from(&mut *out) {
                // The most common short message: avoid the call of a general copy.
                Ok(word) => *word = pointer::<[u8; 8]>(addr).read_unaligned(),
                Err(_) => std::ptr::copy_nonoverlapping(pointer::<u8>(addr), out.as_mut_ptr(), out.len()),
            }
        }
    }

    #[inline]
    fn write(&mut self, addr: u64, data: &[u8]) {
        if is_null(addr) {
            return;
        }
        if strict::on() {
            return strict::defer(addr, data, &mut copy_if_mapped);
        }
        copy(addr, data);
    }

    fn write_datagram(&mut self, addr: u64, data: &[u8]) {
        if IS_BACKGROUND.get() && !is_null(addr) && !strict::on() {
            return copy_if_mapped(addr, data);
        }
        self.write(addr, data);
    }

    fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64 {
        place();
        if is_null(addr) {
            return 0;
        }
        let (Ok(was) | Err(was)) = atomic(addr).compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        was
    }

    fn fetch_add(&mut self, addr: u64, add: u64) -> u64 {
        place();
        if is_null(addr) {
            return 0;
        }
        atomic(addr).fetch_add(add, Ordering::SeqCst)
    }

    fn store_u64(&mut self, addr: u64, value: [u8; 8]) {
        place();
        if !is_null(addr) {
            atomic(addr).store(u64::from_ne_bytes(value), Ordering::Release);
        }
    }

    fn flush(&mut self, addr: u64, len: u64, persistent: bool) {
        place();
        // The processor's caches are coherent, so stored data is visible; order it before what follows.
        fence(Ordering::SeqCst);
        if persistent && !is_null(addr) {
            weft_sys::mapping::sync(addr, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_atomics_reach_memory() {
        let mut words = vec![0u64; 4];
        let addr = words.as_mut_ptr().expose_provenance() as u64;
        let mut memory = HostMemory;
        memory.write(addr + 8, &7u64.to_ne_bytes());
        assert_eq!(memory.fetch_add(addr + 8, 5), 7);
        assert_eq!(memory.compare_swap(addr + 8, 12, 40), 12);
        assert_eq!(memory.compare_swap(addr + 8, 12, 41), 40);
        memory.store_u64(addr + 16, 3u64.to_ne_bytes());
        let mut out = [0; 16];
        memory.read(addr + 8, &mut out);
        assert_eq!(out[..8], 40u64.to_ne_bytes());
        assert_eq!(words, [0, 40, 3, 0]);
    }

    #[test]
    fn the_background_thread_drops_datagrams_for_unmapped_memory() {
        let word = std::thread::spawn(|| {
            on_background_thread();
            let (mut memory, mut word) = (HostMemory, 0u64);
            memory.write_datagram((&raw mut word).expose_provenance() as u64, &7u64.to_ne_bytes());
            // No program has its first page.
            memory.write_datagram(64, &[1; 32]);
            word
        });
        assert_eq!(word.join().unwrap(), 7);
    }

    #[test]
    fn the_null_region_reads_zeros_and_forgets() {
        let mut memory = HostMemory;
        let addr = NULL_MEMORY.start;
        memory.write(addr, &[1; 64]);
        assert_eq!(memory.fetch_add(addr, 1), 0);
        assert_eq!(memory.compare_swap(addr, 0, 1), 0);
        memory.store_u64(addr, [1; 8]);
        let mut out = [9; 64];
        memory.read(addr + 100, &mut out);
        assert_eq!(out, [0; 64]);
    }
}
