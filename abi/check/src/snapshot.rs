//! Digests of the program's buffers.

use weft_check::model::Memory;

/// Reads the process's own memory. Where the program may have unmapped it, the kernel reads: an error, not a fault.
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
    fn digest(&mut self, ranges: &[(u64, u64)], is_steady: bool) -> Option<u64> {
        ranges.iter().try_fold(0xcbf2_9ce4_8422_2325, |digest, (address, length)| {
            if !is_steady {
                return Some(mix(digest, self.read(*address, *length)?));
            }
            let start = std::ptr::with_exposed_provenance(usize::try_from(*address).ok()?);
            // SAFETY: the program registered this memory, and all calls that take memory away are wrapped. The device or
            // another thread may write there meanwhile; any value will do.
            let bytes = unsafe { std::slice::from_raw_parts(start, usize::try_from(*length).ok()?) };
            Some(mix(digest, bytes))
        })
    }
}

/// Whether an address may be on a thread's stack, which the C library unmaps by itself.
pub fn is_stack(address: u64) -> bool {
    const STACK_BYTES: u64 = 64 << 20;
    let here = (&raw const address).addr() as u64;
    here.abs_diff(address) < STACK_BYTES
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
