//! Structures of C programs that are not aligned. x86 allows it, rdma-core's providers read them, and libiscsi has its
//! gather lists in a packed structure; a reference to one would be undefined behaviour.

use std::mem::MaybeUninit;

/// Stack memory for the copy of a structure that is not aligned, `N` elements at most.
pub(crate) struct Copies<T, const N: usize>(MaybeUninit<[T; N]>);

impl<T: Copy, const N: usize> Copies<T, N> {
    /// Returns memory that is not written before it is needed.
    #[inline]
    pub(crate) fn new() -> Self {
        Copies(MaybeUninit::uninit())
    }

    /// Returns the elements in place if they are aligned, else a copy; of more than `N` elements the first `N`.
    ///
    /// # Safety
    /// `list` points to that many elements, which live as long as the result.
    #[inline]
    pub(crate) unsafe fn aligned(&mut self, list: *const T, count: usize) -> &[T] {
        if list.is_aligned() {
            // SAFETY: by the contract.
            return unsafe { std::slice::from_raw_parts(list, count.min(N)) };
        }
        // SAFETY: by the contract.
        unsafe { self.copied(list, count.min(N)) }
    }

    #[cold]
    unsafe fn copied(&mut self, list: *const T, count: usize) -> &[T] {
        let place = self.0.as_mut_ptr().cast::<T>();
        // SAFETY: both have `count` elements, at most `N`, and do not overlap. Bytes have no alignment.
        unsafe {
            std::ptr::copy_nonoverlapping(list.cast::<u8>(), place.cast::<u8>(), count * size_of::<T>());
            std::slice::from_raw_parts(place, count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, packed)]
    struct Packed {
        before: u8,
        list: [u64; 3],
    }

    #[test]
    fn elements_anywhere_are_read() {
        let packed = Packed { before: 0xff, list: [1, u64::MAX, 3] };
        let list = (&raw const packed.list).cast::<u64>();
        let mut copies = Copies::<u64, 4>::new();
        // SAFETY: three elements.
        assert_eq!(unsafe { copies.aligned(list, 3) }, [1, u64::MAX, 3]);
        let aligned = [4u64, 5];
        // SAFETY: two elements.
        let seen = unsafe { copies.aligned(aligned.as_ptr(), 2) };
        assert_eq!(seen.as_ptr(), aligned.as_ptr(), "in place");
        let mut two = Copies::<u64, 2>::new();
        // SAFETY: three elements.
        assert_eq!(unsafe { two.aligned(list, 3) }.len(), 2, "no more than there is room for");
        assert_eq!(packed.before, 0xff);
    }
}
