//! Unpredictable bytes from the kernel.

use rustix::rand::GetRandomFlags;

/// Fills the buffer. The kernel's call cannot fail on any supported Linux, short of a seccomp filter; then the stack
/// address and the clock are the source.
pub fn fill(mut buffer: &mut [u8]) {
    while !buffer.is_empty() {
        match rustix::rand::getrandom(&mut *buffer, GetRandomFlags::empty()) {
            Ok(count) => buffer = buffer.get_mut(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                fill_without_kernel(buffer);
                return;
            }
        }
    }
}

fn fill_without_kernel(buffer: &mut [u8]) {
    use std::hash::{BuildHasher, Hasher};
    for (index, byte) in buffer.iter_mut().enumerate() {
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_usize(index);
        *byte = hasher.finish() as u8;
    }
}

/// Returns 64 unpredictable bits.
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
