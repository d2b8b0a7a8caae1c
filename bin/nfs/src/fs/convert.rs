//! Forms of NFS and of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::io::Errno;

use crate::client::{Attributes, FileKind};
use crate::protocol::new_attributes::NewTime;

/// Block size that programs are told: the preferred size of a transfer.
const BLOCK: u32 = 1 << 20;

/// Returns the kernel's form of attributes.
pub fn file_attr(number: u64, attributes: &Attributes) -> FileAttr {
    let time = |(seconds, nanoseconds)| UNIX_EPOCH + Duration::new(u64::from(seconds), nanoseconds);
    let (major, minor) = attributes.device;
    FileAttr {
        ino: INodeNo(number),
        size: attributes.size,
        blocks: attributes.used.div_ceil(512),
        atime: time(attributes.accessed),
        mtime: time(attributes.modified),
        ctime: time(attributes.changed),
        crtime: UNIX_EPOCH,
        kind: file_type(attributes.kind),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // The kernel's own form of a device: 12 bits of the major number, 20 of the minor.
        rdev: minor & 0xff | (major & 0xfff) << 8 | (minor & 0xfff00) << 12,
        blksize: BLOCK,
        flags: 0,
    }
}

/// Returns major and minor number of a device in the kernel's form.
pub fn device(rdev: u32) -> (u32, u32) {
    (rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & 0xfff00)
}

/// Returns the kernel's form of a type.
pub fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Block => FileType::BlockDevice,
        FileKind::Character => FileType::CharDevice,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Socket => FileType::Socket,
        FileKind::Fifo => FileType::NamedPipe,
    }
}

/// Returns a time to set. NFSv3 has none before 1970 or after 2106.
pub fn new_time(time: Option<TimeOrNow>) -> NewTime {
    match time {
        None => NewTime::Keep,
        Some(TimeOrNow::Now) => NewTime::Now,
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            let seconds = u32::try_from(since.as_secs());
            seconds.map_or(NewTime::Is(u32::MAX, 0), |seconds| NewTime::Is(seconds, since.subsec_nanos()))
        }
    }
}

/// Returns the time now, for the verifier of an exclusive creation.
pub fn verifier() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ weft_sys::random::u64() << 32
}

/// Returns the kernel's form of an error.
pub fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::cache::tests::file;

    #[test]
    fn device_numbers_survive_the_kernels_form() {
        for (major, minor) in [(8, 1), (0xfff, 0xfffff), (1, 256), (259, 70000)] {
            let attributes = Attributes { device: (major, minor), ..file(0) };
            assert_eq!(device(file_attr(2, &attributes).rdev), (major, minor));
        }
    }

    #[test]
    fn times_outside_of_the_protocol_are_the_nearest_ones() {
        let early = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(new_time(Some(TimeOrNow::SpecificTime(early))), NewTime::Is(0, 0));
        let late = UNIX_EPOCH + Duration::from_secs(1 << 33);
        assert_eq!(new_time(Some(TimeOrNow::SpecificTime(late))), NewTime::Is(u32::MAX, 0));
        assert_eq!((new_time(None), new_time(Some(TimeOrNow::Now))), (NewTime::Keep, NewTime::Now));
    }
}
