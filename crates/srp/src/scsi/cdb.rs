//! Command descriptor block: fields by their offsets.

/// Bytes of a command descriptor block; a shorter command ignores the rest.
pub const CDB_LEN: usize = 16;

/// Command descriptor block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cdb(pub [u8; CDB_LEN]);

impl Cdb {
    /// Operation code.
    pub fn opcode(&self) -> u8 {
        self.byte(0)
    }

    /// Service action, for operation codes that have one.
    pub fn service_action(&self) -> u8 {
        self.byte(1) & 0x1f
    }

    /// Returns a byte; 0 beyond the end.
    pub fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// Returns two bytes as a number.
    pub fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.byte(at), self.byte(at + 1)])
    }

    /// Returns four bytes as a number.
    pub fn be32(&self, at: usize) -> u32 {
        u32::from(self.be16(at)) << 16 | u32::from(self.be16(at + 2))
    }

    /// Returns eight bytes as a number.
    pub fn be64(&self, at: usize) -> u64 {
        u64::from(self.be32(at)) << 32 | u64::from(self.be32(at + 4))
    }

    /// Whether bits of a byte are set.
    pub fn has(&self, at: usize, bits: u8) -> bool {
        self.byte(at) & bits != 0
    }
}
