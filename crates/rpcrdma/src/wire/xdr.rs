//! A cursor over XDR (RFC 4506). Every step is checked: `None` means that the bytes end too early, or that a length is
//! above its bound.

/// Returns the zero bytes that follow `len` bytes of opaque data (RFC 4506 §3).
pub(crate) const fn pad_len(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Cursor over XDR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XdrReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> XdrReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> XdrReader<'a> {
        XdrReader { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Reads the discriminator of an optional item: 0 or 1.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn skip(&mut self, len: usize) -> Option<()> {
        self.take(len).map(drop)
    }

    /// Reads a length of at most `max` bytes.
    pub(crate) fn len(&mut self, max: usize) -> Option<usize> {
        usize::try_from(self.u32()?).ok().filter(|len| *len <= max)
    }

    /// Skips variable-length opaque data of at most `max` bytes, with its padding.
    pub(crate) fn opaque(&mut self, max: usize) -> Option<()> {
        let len = self.len(max)?;
        self.skip(len.checked_add(pad_len(len))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_beyond_the_end_are_refused_and_leave_the_cursor() {
        let mut xdr = XdrReader::new(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 9]);
        assert_eq!((xdr.opaque(4), xdr.at()), (None, 4));
        let mut xdr = XdrReader { at: 0, ..xdr };
        assert_eq!((xdr.opaque(5), xdr.at()), (Some(()), 12));
        assert_eq!((xdr.u32(), xdr.skip(usize::MAX), xdr.at()), (None, None, 12));
        assert_eq!([0, 1, 2, 3, 4].map(pad_len), [0, 3, 2, 1, 0]);
    }
}
