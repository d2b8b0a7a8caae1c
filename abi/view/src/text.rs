//! A path under construction, of bounded length.

/// Maximum length of a path (PATH_MAX), with its terminating zero.
pub const PATH_BYTES_MAX: usize = 4096;

/// A path's bytes, and a zero behind them.
pub struct Text<const BYTES_MAX: usize = PATH_BYTES_MAX> {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

/// The path is longer than the kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl<const BYTES_MAX: usize> Text<BYTES_MAX> {
    /// No bytes.
    pub const fn new() -> Self {
        Text { bytes: [0; BYTES_MAX], length: 0 }
    }

    /// The path.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The path as C takes it: a zero follows.
    pub fn as_c(&self) -> *const core::ffi::c_char {
        // `push` and `fill` leave the last byte zero, and so is every byte behind the text.
        self.bytes.as_ptr().cast()
    }

    /// Appends bytes.
    pub fn push(&mut self, more: &[u8]) -> Result<(), TooLong> {
        let end = self.length + more.len();
        let room = self.bytes.get_mut(self.length..end).filter(|_| end < BYTES_MAX).ok_or(TooLong)?;
        room.copy_from_slice(more);
        self.length = end;
        Ok(())
    }

    /// Appends a slash and a component.
    pub fn push_component(&mut self, name: &[u8]) -> Result<(), TooLong> {
        self.push(b"/")?;
        self.push(name)
    }

    /// Removes the last component, with its slash.
    pub fn pop_component(&mut self) {
        self.truncate(self.as_bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0));
    }

    /// Keeps the first bytes.
    pub fn truncate(&mut self, length: usize) {
        if let Some(rest) = self.bytes.get_mut(length..self.length) {
            rest.fill(0);
            self.length = length;
        }
    }

    /// Puts bytes in front.
    pub fn prepend(&mut self, front: &[u8]) -> Result<(), TooLong> {
        let end = self.length + front.len();
        if end >= BYTES_MAX {
            return Err(TooLong);
        }
        self.bytes.copy_within(..self.length, front.len());
        self.bytes.get_mut(..front.len()).ok_or(TooLong)?.copy_from_slice(front);
        self.length = end;
        Ok(())
    }

    /// Removes the first bytes.
    pub fn cut(&mut self, count: usize) {
        let count = count.min(self.length);
        self.bytes.copy_within(count..self.length, 0);
        self.truncate(self.length - count);
    }

    /// Lets `write` fill the room; it returns the number of bytes written, or `None`, and leaves the last one zero.
    pub fn fill(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        self.truncate(0);
        let written = self.bytes.get_mut(..BYTES_MAX - 1).and_then(write);
        self.length = written.unwrap_or(0).min(BYTES_MAX - 1);
        written.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_and_go() {
        let mut text: Text = Text::new();
        text.push_component(b"sys").unwrap();
        text.push_component(b"class").unwrap();
        assert_eq!(text.as_bytes(), b"/sys/class");
        text.pop_component();
        text.push_component(b"x").unwrap();
        assert_eq!(text.as_bytes(), b"/sys/x");
        text.cut(4);
        assert_eq!(text.as_bytes(), b"/x");
        text.prepend(b"/front").unwrap();
        assert_eq!(text.as_bytes(), b"/front/x");
        text.cut(6);
        text.pop_component();
        text.pop_component();
        assert_eq!(text.as_bytes(), b"");
    }

    #[test]
    fn the_length_is_bounded_and_a_zero_follows() {
        let mut text = Text::<4>::new();
        assert_eq!(text.push(b"xxxx"), Err(TooLong));
        text.push(b"xxx").unwrap();
        assert_eq!((text.push(b"x"), text.prepend(b"x")), (Err(TooLong), Err(TooLong)));
        assert_eq!(text.bytes, *b"xxx\0");
    }
}
