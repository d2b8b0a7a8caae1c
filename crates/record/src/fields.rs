//! The five words of a record that depend on its kind, field by field.

/// Bytes of these words.
const BYTES: usize = 40;

/// Fields to write or read, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    bytes: [u8; BYTES],
    at: usize,
}

impl Fields {
    /// Makes empty fields.
    pub fn new() -> Fields {
        Fields { bytes: [0; BYTES], at: 0 }
    }

    /// Makes fields of a record's words.
    pub fn of(words: [u64; 5]) -> Fields {
        let mut fields = Fields::new();
        for (bytes, word) in fields.bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        fields
    }

    /// Returns the words.
    pub fn words(&self) -> [u64; 5] {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    /// Appends bytes. Bytes beyond the end are lost: no kind has that many.
    pub fn put<const N: usize>(mut self, bytes: [u8; N]) -> Fields {
        debug_assert!(self.at + N <= BYTES, "a record's fields do not fit");
        if let Some(to) = self.bytes.get_mut(self.at..self.at + N) {
            to.copy_from_slice(&bytes);
        }
        self.at += N;
        self
    }

    /// Takes the next bytes; zeroes beyond the end.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).copied();
        self.at += N;
        taken.unwrap_or([0; N])
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    /// Takes 16 bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Takes 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// Takes 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
