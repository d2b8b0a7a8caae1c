//! The 64 data bytes of a subnet management attribute, as received.

/// Size of a subnet management attribute in bytes.
pub const ATTRIBUTE_BYTES: usize = 64;

/// An attribute's bytes, with big-endian integers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attribute(pub [u8; ATTRIBUTE_BYTES]);

impl Attribute {
    /// All zeros.
    pub const ZERO: Attribute = Attribute([0; ATTRIBUTE_BYTES]);

    /// The first 64 bytes of `bytes`, padded with zeros.
    pub fn of(bytes: &[u8]) -> Attribute {
        let mut attribute = Attribute::ZERO;
        let len = bytes.len().min(ATTRIBUTE_BYTES);
        attribute.0[..len].copy_from_slice(&bytes[..len]);
        attribute
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|b| b.try_into().ok()).unwrap_or([0; N])
    }

    /// The byte at `at`.
    pub fn u8(&self, at: usize) -> u8 {
        u8::from_be_bytes(self.bytes(at))
    }

    /// The two bytes at `at`.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    /// The four bytes at `at`.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    /// The eight bytes at `at`.
    pub fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }

    /// Writes the eight bytes at `at`.
    pub fn set_u64(&mut self, at: usize, value: u64) {
        if let Some(bytes) = self.0.get_mut(at..at + 8) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }
}

impl std::fmt::Debug for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
