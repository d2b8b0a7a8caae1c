//! Digests of the program's buffers.

use weft_check::model::Memory;

/// Reads the process's own memory through the kernel: an address that the program has unmapped is an error, not a fault.
#[derive(Default)]
pub struct ProcessMemory {
    buffer: Vec<u8>,
}

impl ProcessMemory {
    fn read(&mut self, address: u64, length: u64) -> Option<&[u8]> {
        let length = usize::try_from(length).ok()?;
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let to = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: length };
        let address = std::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?);
        let from = libc::iovec { iov_base: address, iov_len: length };
        // SAFETY: the kernel writes at most `length` bytes to the buffer, and checks the source.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        (usize::try_from(count) == Ok(length)).then(|| &self.buffer[..length])
    }
}

impl Memory for ProcessMemory {
    fn digest(&mut self, ranges: &[(u64, u64)]) -> Option<u64> {
        ranges.iter().try_fold(0xcbf2_9ce4_8422_2325, |digest, (address, length)| {
            Some(mix(digest, self.read(*address, *length)?))
        })
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
