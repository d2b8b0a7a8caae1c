//! Copies to and from registered and shared memory. Other processes and the program's own threads may touch the same
//! bytes at the same time, so all accesses use raw pointers.

use weft_transport::frame::HostRange;

use crate::NULL_MEMORY;

/// Returns a host address as a pointer.
#[inline]
pub(super) fn pointer(addr: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

/// Whether the range is in the null region, which reads as zeros and discards writes.
#[inline]
pub(super) fn is_null(range: HostRange) -> bool {
    NULL_MEMORY.contains(&range.addr)
}

/// Copies bytes that no thread reads yet.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`], except that others may change the bytes meanwhile.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promised.
    unsafe {
        match len {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies bytes to memory whose last bytes a program may be polling: writes the last aligned word, or the part of it in
/// the range, after everything before it, and never in halves.
///
/// # Safety
/// As [`copy`].
#[inline]
pub(super) unsafe fn deliver(from: *const u8, to: *mut u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: as the caller promised; the tail lies inside the range, and its first byte is aligned or the range's.
    unsafe {
        let last = (to as usize + len - 1) & 7;
        let tail = (last + 1).min(len);
        let body = len - tail;
        if body > 0 {
            copy(from, to, body);
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        }
        store_tail(from.add(body), to.add(body), tail);
    }
}

/// Stores at most eight bytes inside one aligned word, in pieces as large as their alignment allows, the last one last.
#[inline]
unsafe fn store_tail(mut from: *const u8, mut to: *mut u8, mut len: usize) {
    macro_rules! piece {
        ($word:ty) => {{
            // SAFETY: aligned and inside the range; volatile keeps it one store, in its place.
            unsafe {
                to.cast::<$word>().write_volatile(from.cast::<$word>().read_unaligned());
                from = from.add(size_of::<$word>());
                to = to.add(size_of::<$word>());
            }
            len -= size_of::<$word>();
        }};
    }
    while len > 0 {
        match (len, to as usize & 7) {
            (8.., 0) => piece!(u64),
            (4.., 0 | 4) => piece!(u32),
            (2.., 0 | 2 | 4 | 6) => piece!(u16),
            _ => piece!(u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_arrives_and_nothing_else_changes() {
        let from: Vec<u8> = (1..=64).collect();
        for start in 0..16 {
            for len in 0..40 {
                let mut to = [0u8; 64];
                // SAFETY: both buffers belong to the test and are long enough.
                unsafe { deliver(from.as_ptr(), to.as_mut_ptr().add(start), len) };
                assert_eq!(to[start..start + len], from[..len]);
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0), "{start} {len}");
            }
        }
    }
}
