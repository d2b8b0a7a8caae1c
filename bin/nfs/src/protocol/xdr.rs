//! XDR (RFC 4506) of the embedded server's arguments and results. Each step of the reader is checked.

/// Returns the zero bytes behind `len` bytes of opaque data.
pub fn pad_len(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Cursor over arguments; `None` means that the bytes end too early, or that a length is above its bound.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Reads bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Reads a word.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Reads two words.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Reads 0 or 1.
    pub fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Reads opaque data of at most `max` bytes.
    pub fn opaque(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok().filter(|len| *len <= max)?;
        let taken = self.take(len)?;
        self.take(pad_len(len))?;
        Some(taken)
    }
}

/// Results under construction.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Appends words.
    pub fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_be_bytes()));
    }

    /// Appends a word.
    pub fn u32(&mut self, value: u32) {
        self.words(&[value]);
    }

    /// Appends two words.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// Appends opaque data with its length and padding.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len() + pad_len(bytes.len()), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_items_are_read_again_and_nothing_behind_the_end_is() {
        let mut out = Writer::default();
        out.u64(1 << 40);
        out.bool(true);
        out.opaque(b"12345");
        assert_eq!(out.0.len(), 8 + 4 + 4 + 8);
        let mut xdr = Reader::new(&out.0);
        assert_eq!((xdr.u64(), xdr.bool(), xdr.opaque(5)), (Some(1 << 40), Some(true), Some(&b"12345"[..])));
        assert_eq!((xdr.u32(), xdr.at()), (None, out.0.len()));
        assert_eq!(Reader::new(&[0, 0, 0, 5, 1, 2, 3, 4, 5]).opaque(5), None);
        assert_eq!(Reader::new(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0]).opaque(4), None);
        assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), None);
    }
}
