//! Attributes of files, as the client reads `fattr3` (RFC 1813 §2.6).

use crate::protocol::xdr::Reader;

/// Type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Block device.
    Block,
    /// Character device.
    Character,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

impl FileKind {
    /// Returns the type of a number of `ftype3`.
    fn of(number: u32) -> Option<FileKind> {
        Some(match number {
            1 => FileKind::Regular,
            2 => FileKind::Directory,
            3 => FileKind::Block,
            4 => FileKind::Character,
            5 => FileKind::Symlink,
            6 => FileKind::Socket,
            7 => FileKind::Fifo,
            _ => return None,
        })
    }

    /// Returns the number of `ftype3`.
    pub fn number(self) -> u32 {
        match self {
            FileKind::Regular => 1,
            FileKind::Directory => 2,
            FileKind::Block => 3,
            FileKind::Character => 4,
            FileKind::Symlink => 5,
            FileKind::Socket => 6,
            FileKind::Fifo => 7,
        }
    }
}

/// Seconds and nanoseconds.
pub type Time = (u32, u32);

/// `fattr3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Type.
    pub kind: FileKind,
    /// Permissions.
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on the disk.
    pub used: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// File system.
    pub fsid: u64,
    /// Number of the file in it.
    pub fileid: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the attributes.
    pub changed: Time,
}

impl Attributes {
    /// Reads them.
    pub fn read(xdr: &mut Reader<'_>) -> Option<Attributes> {
        let kind = FileKind::of(xdr.u32()?)?;
        let mut words = [0; 4];
        for word in &mut words {
            *word = xdr.u32()?;
        }
        let [mode, links, uid, gid] = words;
        let (size, used) = (xdr.u64()?, xdr.u64()?);
        let device = (xdr.u32()?, xdr.u32()?);
        let (fsid, fileid) = (xdr.u64()?, xdr.u64()?);
        let mut times = [(0, 0); 3];
        for time in &mut times {
            *time = (xdr.u32()?, xdr.u32().filter(|nanoseconds| *nanoseconds < 1_000_000_000)?);
        }
        let [accessed, modified, changed] = times;
        Some(Attributes { kind, mode, links, uid, gid, size, used, device, fsid, fileid, accessed, modified, changed })
    }

    /// Reads attributes that may be absent: `post_op_attr`.
    pub fn read_post_op(xdr: &mut Reader<'_>) -> Option<Option<Attributes>> {
        if xdr.bool()? { Attributes::read(xdr).map(Some) } else { Some(None) }
    }

    /// Reads `wcc_data`: the attributes after an operation.
    pub fn read_wcc(xdr: &mut Reader<'_>) -> Option<Option<Attributes>> {
        const BEFORE_LEN: usize = 24;
        if xdr.bool()? {
            xdr.take(BEFORE_LEN)?;
        }
        Attributes::read_post_op(xdr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::xdr::Writer;

    #[test]
    fn attributes_are_read_in_the_order_of_the_protocol() {
        let mut out = Writer::default();
        out.bool(true);
        out.words(&[2, 0o755, 3, 1000, 100]);
        out.u64(4096);
        out.u64(8192);
        out.words(&[1, 2]);
        out.u64(77);
        out.u64(5);
        out.words(&[1, 2, 3, 4, 5, 6]);
        let mut xdr = Reader::new(&out.0);
        let read = Attributes::read_post_op(&mut xdr).flatten().expect("attributes");
        assert_eq!((read.kind, read.mode, read.links), (FileKind::Directory, 0o755, 3));
        assert_eq!((read.uid, read.gid, read.size, read.used), (1000, 100, 4096, 8192));
        assert_eq!((read.device, read.fsid, read.fileid), ((1, 2), 77, 5));
        assert_eq!((read.accessed, read.modified, read.changed), ((1, 2), (3, 4), (5, 6)));
        assert_eq!(xdr.at(), out.0.len());
        let at = out.0.len() - 1;
        assert_eq!(Attributes::read_post_op(&mut Reader::new(&out.0[..at])), None);
    }
}
