//! Procedures on one file: attributes, rights and content.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Statx, Timestamps, Uid};
use weft_sys::file_identity;

use super::attributes;
use super::exported::Export;
use super::identity::Users;
use super::message::{CallBytes, Circumstances};
use super::open_files::OpenKey;
use super::outcome::{Failure, Outcome, argument};
use super::tree::Found;
use crate::limits::TRANSFER_MAX;
use crate::protocol::credential::Credential;
use crate::protocol::new_attributes::{NewAttributes, NewTime};
use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer, pad_len};

/// Longest text of a symbolic link, in bytes.
const LINK_MAX: usize = 4096;
/// Bytes of `post_op_attr` with attributes, and of READ's count, end of file and length behind it.
const READ_HEAD: usize = 88 + 12;

/// Returns a path by which the kernel opens the file of a descriptor again, with the checks of its permissions.
pub fn again(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

impl Export {
    /// Opens the content of a file for its user, or returns the file from an earlier call.
    pub(super) fn content(&self, handle: &[u8], identity: &Credential, write: bool) -> Result<Arc<OwnedFd>, Status> {
        let parsed = self.tree.parse(handle)?;
        let key = OpenKey { id: parsed.id, birth: parsed.birth, identity: identity.clone() };
        match self.open_files.get(&key, write) {
            Some(file) => Ok(file),
            None => self.open_content(&self.tree.find(handle)?, key, write),
        }
    }

    fn open_content(&self, found: &Found, key: OpenKey, write: bool) -> Result<Arc<OwnedFd>, Status> {
        match attributes::file_type(&found.stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Status::IS_DIRECTORY),
            _ => return Err(Status::INVALID),
        }
        let flags = if write { OFlags::WRONLY } else { OFlags::RDONLY } | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let path = again(&found.path);
        let open = || rustix::fs::open(&path, flags, Mode::empty());
        let opened = self.users.act(&key.identity, || {
            let may_execute = || !write && file_identity::may(&found.path, file_identity::EXECUTE);
            open().map_err(|error| (error, may_execute()))
        })?;
        let is_owner = matches!(self.users, Users::Claimed { .. }) && found.stat.stx_uid == key.identity.uid;
        let file = match opened {
            // Clients check permissions when a program opens a file; its owner may have changed them since. Execution over
            // the network is reading.
            Err((rustix::io::Errno::ACCESS, may_execute)) if is_owner || may_execute => open()?,
            opened => opened.map_err(|(error, _)| error)?,
        };
        Ok(self.open_files.keep(key, !write, write, file))
    }

    /// Sets attributes of a file.
    pub(super) fn apply(
        &self,
        found: &Found,
        handle: &[u8],
        new: &NewAttributes,
        identity: &Credential,
    ) -> Result<(), Status> {
        let path = again(&found.path);
        self.users.act(identity, || {
            if let Some(mode) = new.mode {
                rustix::fs::chmodat(CWD, &path, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            if new.uid.is_some() || new.gid.is_some() {
                let (uid, gid) = (new.uid.map(Uid::from_raw), new.gid.map(Gid::from_raw));
                rustix::fs::chownat(&found.path, "", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            Ok::<(), Status>(())
        })??;
        if let Some(size) = new.size {
            let file = self.content(handle, identity, true)?;
            rustix::fs::ftruncate(&file, size)?;
        }
        if (new.accessed, new.modified) != (NewTime::Keep, NewTime::Keep) {
            let times = Timestamps { last_access: new.accessed.timespec(), last_modification: new.modified.timespec() };
            self.users.act(identity, || rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()))??;
        }
        if new.mode.is_some() || new.uid.is_some() || new.gid.is_some() {
            let is_owner = found.stat.stx_uid == identity.uid || self.users == Users::Server;
            self.open_files.close(attributes::id(&found.stat), is_owner.then_some(identity));
        }
        Ok(())
    }
}

/// GETATTR.
pub fn getattr(export: &Export, _: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    attributes::write(out, &found.stat, export.tree.id());
    Ok(())
}

/// SETATTR.
pub fn setattr(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let handle = argument(xdr.opaque(HANDLE_MAX))?;
    let new = argument(NewAttributes::read(xdr))?;
    let guard = if argument(xdr.bool())? { Some((argument(xdr.u32())?, argument(xdr.u32())?)) } else { None };
    let found = export.tree.find(handle)?;
    let changed = found.stat.stx_ctime;
    if guard.is_some_and(|guard| guard != (changed.tv_sec as u32, changed.tv_nsec)) {
        return Err(Status::NOT_SYNC.into());
    }
    export.apply(&found, handle, &new, &around.identity)?;
    attributes::write_wcc(out, attributes::stat(&found.path).as_ref().map_err(|e| *e), export.tree.id());
    Ok(())
}

/// ACCESS.
pub fn access(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    const READ: u32 = 1;
    const LOOKUP: u32 = 2;
    const MODIFY: u32 = 4;
    const EXTEND: u32 = 8;
    const DELETE: u32 = 16;
    const EXECUTE: u32 = 32;
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    let asked = argument(xdr.u32())?;
    let is_directory = attributes::file_type(&found.stat) == FileType::Directory;
    let may = |rights| file_identity::may(&found.path, rights);
    let rights = export
        .users
        .act(&around.identity, || [may(file_identity::READ), may(file_identity::WRITE), may(file_identity::EXECUTE)])?;
    let bits = match is_directory {
        true => [READ, MODIFY | EXTEND | DELETE, LOOKUP],
        false => [READ, MODIFY | EXTEND, EXECUTE],
    };
    let mut granted: u32 = rights.iter().zip(bits).filter(|(has, _)| **has).map(|(_, bits)| bits).sum();
    if export.read_only {
        granted &= !(MODIFY | EXTEND | DELETE);
    }
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    out.u32(granted & asked);
    Ok(())
}

/// READLINK.
pub fn readlink(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    if attributes::file_type(&found.stat) != FileType::Symlink {
        return Err(Status::INVALID.into());
    }
    let text = rustix::fs::readlinkat(&found.path, "", Vec::new())?.into_bytes();
    let text = text.get(..LINK_MAX).unwrap_or(&text);
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    let at = out.0.len() + 4;
    out.opaque(text);
    around.results.push(at..at + text.len());
    Ok(())
}

/// READ: into the memory that WRITEs to the client read from, if there is one.
pub fn read(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let handle = argument(xdr.opaque(HANDLE_MAX))?;
    let (offset, count) = (argument(xdr.u64())?, argument(xdr.u32())?.min(TRANSFER_MAX) as usize);
    let file = export.content(handle, &around.identity, false)?;
    let at = out.0.len() + READ_HEAD;
    let mut bytes = Vec::new();
    let room = around.memory.map(|memory| (memory, memory.len().saturating_sub(at + 3)));
    let read = match room.filter(|(_, room)| *room >= count) {
        Some((memory, _)) => {
            around.in_memory = true;
            read_whole(count, |done| memory.read_file(&*file, offset + done as u64, at + done, count - done))?
        }
        None => {
            bytes.resize(count, 0);
            let mut rest = |done: usize| {
                let into = bytes.get_mut(done..).unwrap_or_default();
                Ok(rustix::io::pread(&*file, into, offset.saturating_add(done as u64))?)
            };
            read_whole(count, &mut rest)?
        }
    };
    let stat = attributes::stat(&*file)?;
    attributes::write_post_op(out, Ok(&stat), export.tree.id());
    let is_end = offset.saturating_add(read as u64) >= stat.stx_size;
    out.words(&[read as u32, is_end.into(), read as u32]);
    if !around.in_memory {
        out.0.extend_from_slice(bytes.get(..read).unwrap_or_default());
        out.0.resize(out.0.len() + pad_len(read), 0);
    }
    around.results.push(at..at + read);
    Ok(())
}

/// Repeats a read until the end of the file, or all bytes are there.
fn read_whole(count: usize, mut read: impl FnMut(usize) -> std::io::Result<usize>) -> Result<usize, Status> {
    let mut done = 0;
    while done < count {
        match read(done)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

/// WRITE: from the memory that the client's data was read into, if it came in a chunk.
pub fn write(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    const UNSTABLE: u32 = 0;
    const DATA_SYNC: u32 = 1;
    let handle = argument(xdr.opaque(HANDLE_MAX))?;
    let (offset, count, stable) = (argument(xdr.u64())?, argument(xdr.u32())?, argument(xdr.u32())?);
    let len = argument(xdr.u32())?;
    let at = xdr.at();
    let is_there = at.checked_add(len as usize).is_some_and(|end| end <= around.message.len());
    // The data's length and the count are equal (RFC 1813 §3.3.7).
    if len != count || !is_there || stable > 2 {
        return Err(Failure::Arguments);
    }
    if offset.checked_add(len.into()).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Status::from(rustix::io::Errno::FBIG).into());
    }
    let file = export.content(handle, &around.identity, true)?;
    let mut done = 0;
    while done < len as usize {
        let (position, from, left) = (offset + done as u64, at + done, len as usize - done);
        done += match around.message {
            CallBytes::Inline(bytes) => {
                rustix::io::pwrite(&*file, bytes.get(from..from + left).unwrap_or_default(), position)?
            }
            CallBytes::Registered(memory, _) => memory.write_file(&*file, position, from, left)?,
        };
    }
    match stable {
        UNSTABLE => {}
        DATA_SYNC => rustix::fs::fdatasync(&*file)?,
        _ => rustix::fs::fsync(&*file)?,
    }
    attributes::write_wcc(out, attributes::stat(&*file).as_ref().map_err(|e| *e), export.tree.id());
    out.words(&[len, stable]);
    out.u64(export.verifier);
    Ok(())
}

/// COMMIT.
pub fn commit(export: &Export, around: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let handle = argument(xdr.opaque(HANDLE_MAX))?;
    let file = export.content(handle, &around.identity, true)?;
    rustix::fs::fsync(&*file)?;
    let stat: Result<Statx, Status> = attributes::stat(&*file);
    attributes::write_wcc(out, stat.as_ref().map_err(|e| *e), export.tree.id());
    out.u64(export.verifier);
    Ok(())
}
