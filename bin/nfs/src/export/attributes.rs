//! Attributes of files: `fattr3` (RFC 1813 §2.6).

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};

use super::handle::FileId;
use crate::protocol::new_attributes::MODE_BITS;
use crate::protocol::status::Status;
use crate::protocol::xdr::Writer;

/// Returns the attributes of an open file, which may be open as a path only.
pub fn stat(file: impl AsFd) -> Result<Statx, Status> {
    Ok(rustix::fs::statx(file, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, wanted())?)
}

/// Returns the attributes of a name in a directory; a symbolic link's are its own.
pub fn stat_at(dir: impl AsFd, name: &[u8]) -> Result<Statx, Status> {
    Ok(rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted())?)
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

/// Returns the file's identity.
pub fn id(stat: &Statx) -> FileId {
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    FileId { device, inode: stat.stx_ino }
}

/// Returns a number for the time of the file's creation; 0 if the file system does not keep it.
pub fn birth(stat: &Statx) -> u64 {
    let has_it = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let StatxTimestamp { tv_sec, tv_nsec, .. } = stat.stx_btime;
    if has_it { (tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(tv_nsec.into()) } else { 0 }
}

/// Returns the type in a mode.
pub fn file_type(stat: &Statx) -> rustix::fs::FileType {
    rustix::fs::FileType::from_raw_mode(stat.stx_mode.into())
}

/// Writes `fattr3`. Files of other file systems than the exported one's get numbers that no file of it has.
pub fn write(out: &mut Writer, stat: &Statx, export: FileId) {
    use rustix::fs::FileType::{BlockDevice, CharacterDevice, Directory, Fifo, Socket, Symlink};
    let kind = match file_type(stat) {
        Directory => 2,
        BlockDevice => 3,
        CharacterDevice => 4,
        Symlink => 5,
        Socket => 6,
        Fifo => 7,
        _ => 1,
    };
    out.words(&[kind, u32::from(stat.stx_mode) & MODE_BITS, stat.stx_nlink, stat.stx_uid, stat.stx_gid]);
    out.u64(stat.stx_size);
    out.u64(stat.stx_blocks.saturating_mul(512));
    out.words(&[stat.stx_rdev_major, stat.stx_rdev_minor]);
    out.u64(export.device);
    out.u64(file_number(id(stat), export));
    for time in [stat.stx_atime, stat.stx_mtime, stat.stx_ctime] {
        out.words(&[time.tv_sec.clamp(0, u32::MAX.into()) as u32, time.tv_nsec]);
    }
}

/// Returns `fileid3`.
pub fn file_number(id: FileId, export: FileId) -> u64 {
    if id.device == export.device { id.inode } else { (id.inode ^ id.device.rotate_left(40)) | 1 << 63 }
}

/// Writes `post_op_attr`: the attributes, if they are known.
pub fn write_post_op(out: &mut Writer, stat: Result<&Statx, Status>, export: FileId) {
    out.bool(stat.is_ok());
    if let Ok(stat) = stat {
        write(out, stat, export);
    }
}

/// Writes `wcc_data`. The attributes before an operation are left out: another client, or another program of this
/// machine, may have changed the file in between, which the client must notice.
pub fn write_wcc(out: &mut Writer, after: Result<&Statx, Status>, export: FileId) {
    out.bool(false);
    write_post_op(out, after, export);
}
