//! Procedures on names in directories.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, Timestamps};
use rustix::io::Errno;

use super::attributes;
use super::exported::Export;
use super::files::again;
use super::message::Circumstances;
use super::open_files::OpenKey;
use super::outcome::{Failure, Outcome, argument};
use super::tree::Found;
use crate::protocol::new_attributes::NewAttributes;
use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer};

/// Longest name, in bytes. Longer ones than a message may have are malformed.
const NAME_MAX: usize = 255;
const NAME_FIELD_MAX: usize = 1024;
/// Longest text of a symbolic link, in bytes.
const LINK_MAX: usize = 4095;
/// Permissions of files and directories whose creator sends none.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A directory, and a name in it.
struct Named<'a> {
    dir: Found,
    name: &'a [u8],
}

impl<'a> Named<'a> {
    /// Reads `diropargs3`.
    fn read(export: &Export, xdr: &mut Reader<'a>) -> Result<Named<'a>, Failure> {
        let handle = argument(xdr.opaque(HANDLE_MAX))?;
        let name = argument(xdr.opaque(NAME_FIELD_MAX))?;
        let dir = export.tree.find(handle)?;
        if attributes::file_type(&dir.stat) != FileType::Directory {
            return Err(Status::NOT_DIRECTORY.into());
        }
        Ok(Named { dir, name })
    }

    /// Requires that the name can be one of a new file, or of one to remove.
    fn plain(self) -> Result<Named<'a>, Status> {
        match self.name {
            b"" | b"." | b".." => Err(Status::INVALID),
            name if name.len() > NAME_MAX => Err(Status::NAME_TOO_LONG),
            name if name.contains(&b'/') || name.contains(&0) => Err(Status::INVALID),
            _ => Ok(self),
        }
    }

    fn stat(&self) -> Result<Statx, Status> {
        attributes::stat_at(&self.dir.path, self.name)
    }

    /// Writes the directory's attributes after the operation.
    fn write_wcc(&self, export: &Export, out: &mut Writer) {
        let after = attributes::stat(&self.dir.path);
        attributes::write_wcc(out, after.as_ref().map_err(|status| *status), export.tree.id());
    }

    /// Writes handle and attributes of a new file, and the directory's attributes.
    fn write_created(&self, export: &Export, out: &mut Writer) -> Outcome {
        let stat = self.stat()?;
        let handle = export.tree.remember(attributes::id(&self.dir.stat), self.name, &stat);
        out.bool(true);
        out.opaque(&handle.to_bytes());
        attributes::write_post_op(out, Ok(&stat), export.tree.id());
        self.write_wcc(export, out);
        Ok(())
    }

    /// Sets what a new file has besides its permissions.
    fn finish(&self, export: &Export, around: &Circumstances<'_>, new: &NewAttributes) -> Result<(), Status> {
        let rest = NewAttributes { mode: None, ..*new };
        if rest == NewAttributes::default() {
            return Ok(());
        }
        let stat = self.stat()?;
        let handle = export.tree.remember(attributes::id(&self.dir.stat), self.name, &stat).to_bytes();
        export.apply(&export.tree.find(&handle)?, &handle, &rest, &around.identity)
    }
}

/// LOOKUP.
pub fn lookup(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let at = Named::read(export, xdr)?;
    let dir = attributes::id(&at.dir.stat);
    let (handle, stat) = match at.name {
        b"." => (None, at.dir.stat),
        b".." if dir == export.tree.id() => (None, at.dir.stat),
        name if name.len() > NAME_MAX => return Err(Status::NAME_TOO_LONG.into()),
        name if name.is_empty() || name.contains(&b'/') || name.contains(&0) => return Err(Status::INVALID.into()),
        name => {
            let stat = export.users.act(&around.identity, || at.stat())??;
            // The parent has a place of its own, which stays.
            ((name != b"..").then(|| export.tree.remember(dir, name, &stat)), stat)
        }
    };
    let handle = match handle {
        Some(handle) => handle,
        None => export.tree.handle_of(&stat).ok_or(Status::STALE)?,
    };
    out.opaque(&handle.to_bytes());
    attributes::write_post_op(out, Ok(&stat), export.tree.id());
    attributes::write_post_op(out, Ok(&at.dir.stat), export.tree.id());
    Ok(())
}

/// CREATE.
pub fn create(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    const GUARDED: u32 = 1;
    const EXCLUSIVE: u32 = 2;
    let at = Named::read(export, xdr)?.plain()?;
    let how = argument(xdr.u32().filter(|how| *how <= EXCLUSIVE))?;
    let (new, verifier) = match how {
        EXCLUSIVE => (NewAttributes::default(), Some((argument(xdr.u32())?, argument(xdr.u32())?))),
        _ => (argument(NewAttributes::read(xdr))?, None),
    };
    match (at.stat(), verifier) {
        (Ok(stat), Some(verifier)) if keeps_verifier(&stat) == verifier => return at.write_created(export, out),
        (Ok(_), _) if how == GUARDED || how == EXCLUSIVE => return Err(Status::EXISTS.into()),
        // Opening anything else may have effects of its own.
        (Ok(stat), _) if attributes::file_type(&stat) != FileType::RegularFile => return Err(Status::EXISTS.into()),
        (Ok(_), _) => {
            at.finish(export, around, &NewAttributes { size: new.size, ..NewAttributes::default() })?;
            return at.write_created(export, out);
        }
        (Err(_), _) => {}
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(new.mode.unwrap_or(FILE_MODE));
    let open = || rustix::fs::openat(&at.dir.path, at.name, flags, mode);
    let file = export.users.act(&around.identity, open)??;
    if let Some(verifier) = verifier {
        store_verifier(&file, verifier)?;
    }
    let stat = attributes::stat(&file)?;
    let (id, birth) = (attributes::id(&stat), attributes::birth(&stat));
    export.open_files.keep(OpenKey { id, birth, identity: around.identity.clone() }, true, true, file);
    at.finish(export, around, &new)?;
    at.write_created(export, out)
}

/// Bits of a verifier's words that a time keeps.
const VERIFIER_BITS: u32 = 0x7fff_ffff;

/// The verifier of an exclusive creation is in the file's times, where it survives a restart; the client sets them next.
fn store_verifier(file: &OwnedFd, (first, second): (u32, u32)) -> Result<(), Errno> {
    let time = |word: u32| rustix::fs::Timespec { tv_sec: (word & VERIFIER_BITS).into(), tv_nsec: 0 };
    rustix::fs::futimens(file, &Timestamps { last_access: time(first), last_modification: time(second) })
}

fn keeps_verifier(stat: &Statx) -> (u32, u32) {
    // A comparison with the whole words: those with the highest bit set never match, and the client gets EXIST.
    (stat.stx_atime.tv_sec as u32, stat.stx_mtime.tv_sec as u32)
}

/// MKDIR.
pub fn mkdir(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let at = Named::read(export, xdr)?.plain()?;
    let new = argument(NewAttributes::read(xdr))?;
    let mode = Mode::from_raw_mode(new.mode.unwrap_or(DIRECTORY_MODE));
    export.users.act(&around.identity, || rustix::fs::mkdirat(&at.dir.path, at.name, mode))??;
    at.finish(export, around, &NewAttributes { size: None, ..new })?;
    at.write_created(export, out)
}

/// SYMLINK.
pub fn symlink(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let at = Named::read(export, xdr)?.plain()?;
    let new = argument(NewAttributes::read(xdr))?;
    let text = argument(xdr.opaque(LINK_MAX))?;
    export.users.act(&around.identity, || rustix::fs::symlinkat(text, &at.dir.path, at.name))??;
    let owner = NewAttributes { uid: new.uid, gid: new.gid, ..NewAttributes::default() };
    at.finish(export, around, &owner)?;
    at.write_created(export, out)
}

/// MKNOD: sockets and FIFOs. Devices of this machine are not for clients.
pub fn mknod(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let at = Named::read(export, xdr)?.plain()?;
    let kind = match argument(xdr.u32())? {
        3 | 4 => return Err(Status::NOT_SUPPORTED.into()),
        6 => FileType::Socket,
        7 => FileType::Fifo,
        _ => return Err(Status::BAD_TYPE.into()),
    };
    let new = argument(NewAttributes::read(xdr))?;
    let mode = Mode::from_raw_mode(new.mode.unwrap_or(FILE_MODE));
    export.users.act(&around.identity, || rustix::fs::mknodat(&at.dir.path, at.name, kind, mode, 0))??;
    at.finish(export, around, &NewAttributes { size: None, ..new })?;
    at.write_created(export, out)
}

/// REMOVE.
pub fn remove(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    unlink(export, around, xdr, out, AtFlags::empty())
}

/// RMDIR.
pub fn rmdir(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    unlink(export, around, xdr, out, AtFlags::REMOVEDIR)
}

fn unlink(
    export: &Export,
    around: &Circumstances<'_>,
    xdr: &mut Reader<'_>,
    out: &mut Writer,
    flags: AtFlags,
) -> Outcome {
    let at = Named::read(export, xdr)?.plain()?;
    let target = at.stat();
    export.users.act(&around.identity, || rustix::fs::unlinkat(&at.dir.path, at.name, flags))??;
    if let Ok(stat) = target {
        export.open_files.close(attributes::id(&stat), None);
    }
    at.write_wcc(export, out);
    Ok(())
}

/// RENAME.
pub fn rename(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let from = Named::read(export, xdr)?.plain()?;
    let to = Named::read(export, xdr)?.plain()?;
    let replaced = to.stat();
    let rename = || rustix::fs::renameat(&from.dir.path, from.name, &to.dir.path, to.name);
    export.users.act(&around.identity, rename)??;
    if let Ok(stat) = to.stat() {
        export.tree.remember(attributes::id(&to.dir.stat), to.name, &stat);
        if let Ok(replaced) = replaced.map(|stat| attributes::id(&stat))
            && replaced != attributes::id(&stat)
        {
            export.open_files.close(replaced, None);
        }
    }
    from.write_wcc(export, out);
    to.write_wcc(export, out);
    Ok(())
}

/// LINK.
pub fn link(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let file = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    let at = Named::read(export, xdr)?.plain()?;
    if attributes::file_type(&file.stat) == FileType::Directory {
        return Err(Status::INVALID.into());
    }
    let path = again(&file.path);
    let link = || rustix::fs::linkat(CWD, &path, &at.dir.path, at.name, AtFlags::SYMLINK_FOLLOW);
    export.users.act(&around.identity, link)??;
    let after = attributes::stat(&file.path);
    attributes::write_post_op(out, after.as_ref().map_err(|status| *status), export.tree.id());
    at.write_wcc(export, out);
    Ok(())
}
