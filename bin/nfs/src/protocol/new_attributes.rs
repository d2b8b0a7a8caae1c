//! `sattr3`: the attributes that a client sets (RFC 1813 §2.6).

use super::xdr::{Reader, Writer};

/// Bits of a mode that are permissions.
pub const MODE_BITS: u32 = 0o7777;

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NewTime {
    /// Unchanged.
    #[default]
    Keep,
    /// The server's time.
    Now,
    /// Seconds and nanoseconds.
    Is(u32, u32),
}

/// Attributes to set. `None`: unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub accessed: NewTime,
    /// Time of the last change of the content.
    pub modified: NewTime,
}

impl NewTime {
    fn read(xdr: &mut Reader<'_>) -> Option<NewTime> {
        match xdr.u32()? {
            0 => Some(NewTime::Keep),
            1 => Some(NewTime::Now),
            2 => Some(NewTime::Is(xdr.u32()?, xdr.u32().filter(|nanoseconds| *nanoseconds < 1_000_000_000)?)),
            _ => None,
        }
    }

    fn write(self, out: &mut Writer) {
        match self {
            NewTime::Keep => out.u32(0),
            NewTime::Now => out.u32(1),
            NewTime::Is(seconds, nanoseconds) => out.words(&[2, seconds, nanoseconds]),
        }
    }

    /// Returns the time as utimensat takes it.
    pub fn timespec(self) -> rustix::fs::Timespec {
        let (tv_sec, tv_nsec) = match self {
            NewTime::Keep => (0, rustix::fs::UTIME_OMIT),
            NewTime::Now => (0, rustix::fs::UTIME_NOW),
            NewTime::Is(seconds, nanoseconds) => (seconds.into(), nanoseconds.into()),
        };
        rustix::fs::Timespec { tv_sec, tv_nsec }
    }
}

impl NewAttributes {
    /// Returns attributes that set the permissions only.
    pub fn mode(mode: u32) -> NewAttributes {
        NewAttributes { mode: Some(mode), ..NewAttributes::default() }
    }

    /// Reads them. Of a mode, the permissions count.
    pub fn read(xdr: &mut Reader<'_>) -> Option<NewAttributes> {
        let word = |xdr: &mut Reader<'_>| Some(if xdr.bool()? { Some(xdr.u32()?) } else { None });
        let (mode, uid, gid) = (word(xdr)?, word(xdr)?, word(xdr)?);
        let size = if xdr.bool()? { Some(xdr.u64()?) } else { None };
        let (accessed, modified) = (NewTime::read(xdr)?, NewTime::read(xdr)?);
        Some(NewAttributes { mode: mode.map(|mode| mode & MODE_BITS), uid, gid, size, accessed, modified })
    }

    /// Writes them.
    pub fn write(&self, out: &mut Writer) {
        for value in [self.mode, self.uid, self.gid] {
            out.bool(value.is_some());
            value.into_iter().for_each(|value| out.u32(value));
        }
        out.bool(self.size.is_some());
        self.size.into_iter().for_each(|size| out.u64(size));
        self.accessed.write(out);
        self.modified.write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_is_written() {
        let mut out = Writer::default();
        let new = NewAttributes { size: Some(7), modified: NewTime::Is(1, 2), ..NewAttributes::mode(0o600) };
        new.write(&mut out);
        let mut expected = Writer::default();
        expected.words(&[1, 0o600, 0, 0, 1, 0, 7, 0, 2, 1, 2]);
        assert_eq!(out.0, expected.0);
        assert_eq!(NewAttributes::read(&mut Reader::new(&out.0)), Some(new));
    }

    #[test]
    fn nanoseconds_and_kinds_of_time_are_bounded() {
        let read = |words: &[u32]| {
            let mut out = Writer::default();
            out.words(&[0; 4]);
            out.words(words);
            NewAttributes::read(&mut Reader::new(&out.0))
        };
        assert_eq!(read(&[1, 0]), Some(NewAttributes { accessed: NewTime::Now, ..NewAttributes::default() }));
        assert_eq!(read(&[0, 2, 5, 1_000_000_000]), None);
        assert_eq!(read(&[3, 0]), None);
        assert_eq!(read(&[0]), None);
    }
}
