//! Builder of a structure of fixed length: fields are put at the offsets that the specification gives.

/// Structure that is zero where nothing was put.
#[derive(Debug)]
pub struct Builder(Vec<u8>);

impl Builder {
    /// Begins a structure of `len` bytes.
    pub fn new(len: usize) -> Builder {
        Builder(vec![0; len])
    }

    /// Puts bytes at an offset; those beyond the end are cut.
    pub fn bytes(mut self, at: usize, bytes: &[u8]) -> Builder {
        let field = self.0.iter_mut().skip(at);
        field.zip(bytes).for_each(|(to, byte)| *to = *byte);
        self
    }

    /// Puts a number of 8 bits.
    pub fn u8(self, at: usize, value: u8) -> Builder {
        self.bytes(at, &[value])
    }

    /// Puts a number of 16 bits.
    pub fn u16(self, at: usize, value: u16) -> Builder {
        self.bytes(at, &value.to_le_bytes())
    }

    /// Puts a number of 32 bits.
    pub fn u32(self, at: usize, value: u32) -> Builder {
        self.bytes(at, &value.to_le_bytes())
    }

    /// Puts a number of 64 bits.
    pub fn u64(self, at: usize, value: u64) -> Builder {
        self.bytes(at, &value.to_le_bytes())
    }

    /// Puts a text that spaces fill up to `len` bytes.
    pub fn padded(self, at: usize, len: usize, text: &str) -> Builder {
        let bytes: Vec<u8> = text.bytes().chain(std::iter::repeat(b' ')).take(len).collect();
        self.bytes(at, &bytes)
    }

    /// Puts a text that ends with a zero byte within `len` bytes.
    pub fn text(self, at: usize, len: usize, text: &str) -> Builder {
        let end = text.len().min(len.saturating_sub(1));
        self.bytes(at, text.as_bytes().get(..end).unwrap_or_default())
    }

    /// Returns the structure.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_and_texts_are_padded() {
        let page = Builder::new(12).u16(0, 0x1234).padded(2, 4, "ab").text(6, 3, "xyz").u8(11, 7).bytes(11, &[8, 9]);
        assert_eq!(page.finish(), b"\x34\x12ab  xy\0\0\0\x08");
    }
}
