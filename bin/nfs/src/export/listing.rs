//! READDIR and READDIRPLUS. A cookie is the kernel's own position in the directory, so nothing is kept between calls.

use std::mem::MaybeUninit;

use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};

use super::exported::Export;
use super::files::again;
use super::message::Circumstances;
use super::outcome::{Failure, Outcome, argument};
use super::tree::Found;
use super::{attributes, rpc};
use crate::limits::DIRECTORY_MAX;
use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer};

/// Bytes read from the kernel at a time.
const ENTRIES_BYTES: usize = 32 << 10;
/// Bytes of the results besides the entries: status, attributes, verifier, end.
const FRAME: usize = 4 + 88 + 8 + 8;

/// Limits of one reply.
struct Room {
    /// Bytes of the whole results.
    total: usize,
    /// Bytes of names with their numbers and cookies, without attributes and handles.
    names: usize,
    /// Attributes and handles are wanted.
    plus: bool,
}

/// READDIR.
pub fn readdir(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let (found, cookie) = arguments(export, xdr)?;
    let total = (argument(xdr.u32())? as usize).min(DIRECTORY_MAX);
    list(export, around, &found, cookie, &Room { total, names: total, plus: false }, out)
}

/// READDIRPLUS.
pub fn readdirplus(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let (found, cookie) = arguments(export, xdr)?;
    let names = argument(xdr.u32())? as usize;
    let total = (argument(xdr.u32())? as usize).min(DIRECTORY_MAX);
    list(export, around, &found, cookie, &Room { total, names, plus: true }, out)
}

fn arguments(export: &Export, xdr: &mut Reader<'_>) -> Result<(Found, u64), Failure> {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    let cookie = argument(xdr.u64())?;
    // The verifier: cookies stay valid as long as the directory's file system says.
    argument(xdr.u64())?;
    match attributes::file_type(&found.stat) {
        FileType::Directory => Ok((found, cookie)),
        _ => Err(Status::NOT_DIRECTORY.into()),
    }
}

fn list(
    export: &Export,
    around: &Circumstances<'_>,
    found: &Found,
    cookie: u64,
    room: &Room,
    out: &mut Writer,
) -> Outcome {
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    out.u64(0);
    let is_end = export.users.act(&around.identity, || entries(export, found, cookie, room, out))??;
    out.bool(false);
    out.bool(is_end);
    Ok(())
}

/// Writes entries as long as there is room. Returns whether the last one is among them.
fn entries(export: &Export, found: &Found, cookie: u64, room: &Room, out: &mut Writer) -> Result<bool, Status> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(again(&found.path), flags, Mode::empty())?;
    if cookie != 0 {
        rustix::fs::seek(&dir, SeekFrom::Start(cookie))?;
    }
    let mut buffer = vec![MaybeUninit::<u8>::uninit(); ENTRIES_BYTES];
    let mut raw = RawDir::new(&dir, &mut buffer);
    let (mut names, mut count) = (0, 0);
    let id = attributes::id(&found.stat);
    let results = rpc::ACCEPTED_LEN;
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let before = out.0.len();
        let is_root_parent = name == b".." && id == export.tree.id();
        let inode = if is_root_parent { id.inode } else { entry.ino() };
        out.bool(true);
        out.u64(inode);
        out.opaque(name);
        out.u64(entry.next_entry_cookie());
        names += out.0.len() - before;
        if room.plus {
            write_plus(export, found, name, is_root_parent, &dir, out);
        }
        if out.0.len() - results + 8 > room.total.max(FRAME) || names > room.names {
            out.0.truncate(before);
            return if count == 0 { Err(Status::TOO_SMALL) } else { Ok(false) };
        }
        count += 1;
    }
    Ok(true)
}

/// Writes attributes and handle of an entry, if they can be had.
fn write_plus(
    export: &Export,
    found: &Found,
    name: &[u8],
    is_root_parent: bool,
    dir: &std::os::fd::OwnedFd,
    out: &mut Writer,
) {
    let stat = match is_root_parent {
        true => Ok(found.stat),
        false => attributes::stat_at(dir, name),
    };
    attributes::write_post_op(out, stat.as_ref().map_err(|status| *status), export.tree.id());
    let handle = stat.ok().and_then(|stat| match name {
        b"." | b".." => export.tree.handle_of(&stat),
        name => Some(export.tree.remember(attributes::id(&found.stat), name, &stat)),
    });
    out.bool(handle.is_some());
    if let Some(handle) = handle {
        out.opaque(&handle.to_bytes());
    }
}
