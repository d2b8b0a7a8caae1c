//! Procedures of NFSv3 (RFC 1813 §3.3) besides READ and WRITE.

use rustix::io::Errno;

use super::attributes::{Attributes, FileKind};
use super::message::{self, Handle};
use super::nfs::{Nfs, about, named};
use crate::limits::{DIRECTORY_MAX, NAME_MAX};
use crate::protocol::credential::Credential;
use crate::protocol::new_attributes::NewAttributes;
use crate::protocol::xdr::{Reader, Writer};

/// Longest text of a symbolic link, in bytes.
const LINK_MAX: usize = 4096;

/// A new file, or the file of a name.
#[derive(Clone, Debug)]
pub struct Created {
    /// Handle; servers may leave it out.
    pub handle: Option<Handle>,
    /// Attributes, if the server told them.
    pub attributes: Option<Attributes>,
}

/// Entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of the file.
    pub fileid: u64,
    /// Name.
    pub name: Vec<u8>,
    /// Position behind the entry.
    pub cookie: u64,
    /// Attributes, of READDIRPLUS.
    pub attributes: Option<Attributes>,
    /// Handle, of READDIRPLUS.
    pub handle: Option<Handle>,
}

/// Part of a directory.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Verifier of the positions.
    pub verifier: u64,
    /// Entries.
    pub entries: Vec<Entry>,
    /// The last entry is among them.
    pub is_end: bool,
}

/// Results of FSSTAT.
#[derive(Clone, Copy, Debug)]
pub struct FsStat {
    /// Bytes of the file system: all, free, and free for the user.
    pub bytes: [u64; 3],
    /// Files: all, free, and free for the user.
    pub files: [u64; 3],
}

/// Results of FSINFO.
#[derive(Clone, Copy, Debug)]
pub struct FsInfo {
    /// Most bytes of a READ.
    pub read_max: u32,
    /// Most bytes of a WRITE.
    pub write_max: u32,
}

impl Nfs {
    /// GETATTR.
    pub fn attributes(&self, by: &Credential, file: &Handle) -> Result<Attributes, Errno> {
        self.call(1, by, &about(file), &|_, xdr| Attributes::read(xdr))
    }

    /// SETATTR. Returns the attributes after it, if the server told them.
    pub fn set_attributes(
        &self,
        by: &Credential,
        file: &Handle,
        new: &NewAttributes,
    ) -> Result<Option<Attributes>, Errno> {
        let mut out = about(file);
        new.write(&mut out);
        out.bool(false);
        self.call(2, by, &out, &|_, xdr| Attributes::read_wcc(xdr))
    }

    /// LOOKUP.
    pub fn lookup(&self, by: &Credential, dir: &Handle, name: &[u8]) -> Result<Created, Errno> {
        self.call(3, by, &named(dir, name), &|_, xdr| {
            let handle = Some(Handle::read(xdr)?);
            Some(Created { handle, attributes: Attributes::read_post_op(xdr)? })
        })
    }

    /// ACCESS. Returns the granted rights among `rights`.
    pub fn access(&self, by: &Credential, file: &Handle, rights: u32) -> Result<(u32, Option<Attributes>), Errno> {
        let mut out = about(file);
        out.u32(rights);
        self.call(4, by, &out, &|_, xdr| {
            let attributes = Attributes::read_post_op(xdr)?;
            Some((xdr.u32()? & rights, attributes))
        })
    }

    /// READLINK.
    pub fn link_text(&self, by: &Credential, link: &Handle) -> Result<Vec<u8>, Errno> {
        self.call(5, by, &about(link), &|answer, xdr| {
            Attributes::read_post_op(xdr)?;
            message::data(answer, xdr, LINK_MAX)
        })
    }

    /// CREATE of a regular file; with `exclusive`, by that verifier, without attributes.
    pub fn create(
        &self,
        by: &Credential,
        dir: &Handle,
        name: &[u8],
        new: &NewAttributes,
        exclusive: Option<u64>,
    ) -> Result<Created, Errno> {
        const UNCHECKED: u32 = 0;
        const EXCLUSIVE: u32 = 2;
        let mut out = named(dir, name);
        match exclusive {
            Some(verifier) => {
                out.u32(EXCLUSIVE);
                out.u64(verifier);
            }
            None => {
                out.u32(UNCHECKED);
                new.write(&mut out);
            }
        }
        self.make(8, by, dir, name, &out)
    }

    /// MKDIR.
    pub fn make_directory(&self, by: &Credential, dir: &Handle, name: &[u8], mode: u32) -> Result<Created, Errno> {
        let mut out = named(dir, name);
        NewAttributes::mode(mode).write(&mut out);
        self.make(9, by, dir, name, &out)
    }

    /// SYMLINK.
    pub fn make_link(&self, by: &Credential, dir: &Handle, name: &[u8], text: &[u8]) -> Result<Created, Errno> {
        let mut out = named(dir, name);
        NewAttributes::mode(0o777).write(&mut out);
        out.opaque(text);
        self.make(10, by, dir, name, &out)
    }

    /// MKNOD of a pipe, a socket or a device.
    pub fn make_node(
        &self,
        by: &Credential,
        dir: &Handle,
        name: &[u8],
        node: (FileKind, u32, (u32, u32)),
    ) -> Result<Created, Errno> {
        let (kind, mode, (major, minor)) = node;
        let mut out = named(dir, name);
        out.u32(kind.number());
        NewAttributes::mode(mode).write(&mut out);
        if matches!(kind, FileKind::Block | FileKind::Character) {
            out.words(&[major, minor]);
        }
        self.make(11, by, dir, name, &out)
    }

    /// Makes a file, and asks for its handle if the server left it out.
    fn make(
        &self,
        procedure: u32,
        by: &Credential,
        dir: &Handle,
        name: &[u8],
        arguments: &Writer,
    ) -> Result<Created, Errno> {
        let made = self.call(procedure, by, arguments, &|_, xdr| {
            let handle = if xdr.bool()? { Some(Handle::read(xdr)?) } else { None };
            Some(Created { handle, attributes: Attributes::read_post_op(xdr)? })
        })?;
        if made.handle.is_some() { Ok(made) } else { self.lookup(by, dir, name) }
    }

    /// REMOVE.
    pub fn remove(&self, by: &Credential, dir: &Handle, name: &[u8]) -> Result<(), Errno> {
        self.call(12, by, &named(dir, name), &|_, _| Some(()))
    }

    /// RMDIR.
    pub fn remove_directory(&self, by: &Credential, dir: &Handle, name: &[u8]) -> Result<(), Errno> {
        self.call(13, by, &named(dir, name), &|_, _| Some(()))
    }

    /// RENAME.
    pub fn rename(&self, by: &Credential, from: (&Handle, &[u8]), to: (&Handle, &[u8])) -> Result<(), Errno> {
        let mut out = named(from.0, from.1);
        to.0.write(&mut out);
        out.opaque(to.1);
        self.call(14, by, &out, &|_, _| Some(()))
    }

    /// LINK. Returns the file's attributes, if the server told them.
    pub fn link(&self, by: &Credential, file: &Handle, dir: &Handle, name: &[u8]) -> Result<Option<Attributes>, Errno> {
        let mut out = about(file);
        dir.write(&mut out);
        out.opaque(name);
        self.call(15, by, &out, &|_, xdr| Attributes::read_post_op(xdr))
    }

    /// READDIRPLUS, from a position on. `len` bounds the reply.
    pub fn list(&self, by: &Credential, dir: &Handle, from: (u64, u64), len: u32) -> Result<Listing, Errno> {
        let (mut out, (cookie, verifier)) = (about(dir), from);
        out.u64(cookie);
        out.u64(verifier);
        // A third for the names is as much as entries with attributes and handles need.
        out.words(&[(len / 3).max(1024), len]);
        self.call(17, by, &out, &|_, xdr| read_listing(xdr, true))
    }

    /// READDIR, for servers without READDIRPLUS.
    pub fn list_names(&self, by: &Credential, dir: &Handle, from: (u64, u64), len: u32) -> Result<Listing, Errno> {
        let (mut out, (cookie, verifier)) = (about(dir), from);
        out.u64(cookie);
        out.u64(verifier);
        out.u32(len);
        self.call(16, by, &out, &|_, xdr| read_listing(xdr, false))
    }

    /// FSSTAT.
    pub fn fs_stat(&self, by: &Credential, root: &Handle) -> Result<FsStat, Errno> {
        self.call(18, by, &about(root), &|_, xdr| {
            Attributes::read_post_op(xdr)?;
            let mut next = || xdr.u64();
            Some(FsStat { bytes: [next()?, next()?, next()?], files: [next()?, next()?, next()?] })
        })
    }

    /// FSINFO.
    pub fn fs_info(&self, by: &Credential, root: &Handle) -> Result<FsInfo, Errno> {
        self.call(19, by, &about(root), &|_, xdr| {
            Attributes::read_post_op(xdr)?;
            let mut words = [0; 7];
            for word in &mut words {
                *word = xdr.u32()?;
            }
            let [read_max, _, _, write_max, _, _, _] = words;
            Some(FsInfo { read_max, write_max })
        })
    }
}

/// Reads a directory's entries. Memory grows with the bytes that are there.
pub(super) fn read_listing(xdr: &mut Reader<'_>, plus: bool) -> Option<Listing> {
    Attributes::read_post_op(xdr)?;
    let verifier = xdr.u64()?;
    let mut entries = Vec::new();
    while xdr.bool()? {
        let (fileid, name, cookie) = (xdr.u64()?, xdr.opaque(NAME_MAX)?.to_vec(), xdr.u64()?);
        let mut entry = Entry { fileid, name, cookie, attributes: None, handle: None };
        if plus {
            entry.attributes = Attributes::read_post_op(xdr)?;
            entry.handle = if xdr.bool()? { Some(Handle::read(xdr)?) } else { None };
        }
        // A name with a slash would lead programs elsewhere.
        let is_name = !entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0);
        if is_name && entries.len() < DIRECTORY_MAX / 24 {
            entries.push(entry);
        }
    }
    Some(Listing { verifier, entries, is_end: xdr.bool()? })
}
