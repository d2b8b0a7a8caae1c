//! Digests of the program's buffers.

use weft_check::model::Memory;

/// Ranges that the kernel reads in one call.
const RANGES_MAX: usize = libc::UIO_MAXIOV as usize;
/// Digest of no bytes.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Reads the process's own memory through the kernel. Memory goes away in ways that no library sees (shmdt, a shorter file,
/// a module that is unloaded), and the device or another thread may write to it: the kernel answers with an error then, or
/// with any of the values.
#[derive(Default)]
pub struct ProcessMemory {
    buffer: Vec<u8>,
}

impl ProcessMemory {
    /// Reads at most [`RANGES_MAX`] ranges.
    fn read(&mut self, ranges: &[(u64, u64)]) -> Option<&[u8]> {
        let mut from = Vec::with_capacity(ranges.len());
        let mut total = 0usize;
        for (address, length) in ranges {
            let length = usize::try_from(*length).ok()?;
            let iov_base = std::ptr::with_exposed_provenance_mut(usize::try_from(*address).ok()?);
            from.push(libc::iovec { iov_base, iov_len: length });
            total = total.checked_add(length)?;
        }
        if self.buffer.len() < total {
            self.buffer.resize(total, 0);
        }
        let to = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: total };
        // SAFETY: the buffer has room for `total` bytes; the kernel checks the ranges, of which the list has so many.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, from.as_ptr(), from.len() as _, 0) };
        (usize::try_from(count) == Ok(total)).then(|| &self.buffer[..total])
    }
}

impl Memory for ProcessMemory {
    fn digest(&mut self, ranges: &[(u64, u64)]) -> Option<u64> {
        ranges.chunks(RANGES_MAX).try_fold(EMPTY, |digest, ranges| Some(mix(digest, self.read(ranges)?)))
    }
}

/// Multiplies and folds eight bytes at a time.
fn mix(mut digest: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words.iter().chain([&last]) {
        digest = (digest ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        digest ^= digest >> 32;
    }
    digest ^ bytes.len() as u64
}
