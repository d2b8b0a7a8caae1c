//! Requests about names in directories.

use std::sync::Arc;
use std::time::Duration;

use fuser::{FileAttr, Generation};
use rustix::io::Errno;

use super::convert::{self, file_attr};
use super::mounted::Mounted;
use super::nodes::Node;
use crate::client::{Attributes, Created, FileKind};
use crate::protocol::credential::Credential;
use crate::protocol::new_attributes::{MODE_BITS, NewAttributes, NewTime};

/// Name of a file that was removed while programs have it open; tools know that it may vanish.
const REMOVED_PREFIX: &str = ".nfs";

/// A file for the kernel, with one more reference.
#[derive(Clone, Debug)]
pub struct EntryReply {
    /// The file.
    pub node: Arc<Node>,
    /// Validity of the attributes.
    pub valid: Duration,
    /// Validity of the name.
    pub name_valid: Duration,
    /// Attributes.
    pub attributes: FileAttr,
}

impl EntryReply {
    /// Returns the number that tells the file from another with the same number.
    pub fn generation(&self) -> Generation {
        Generation(self.node.generation)
    }
}

impl Mounted {
    /// LOOKUP.
    pub fn look_up(&self, dir: &Arc<Node>, by: &Credential, name: &[u8]) -> Result<EntryReply, Errno> {
        let found = self.nfs.lookup(by, &dir.handle, name)?;
        self.entry(found, by)
    }

    /// Gives the kernel a reference to a file.
    pub fn entry(&self, found: Created, by: &Credential) -> Result<EntryReply, Errno> {
        let handle = found.handle.ok_or(Errno::IO)?;
        let attributes: Attributes = found.attributes.map_or_else(|| self.nfs.attributes(by, &handle), Ok)?;
        let node = self.nodes.remember(handle, &attributes);
        let (attributes, valid) = node.note(&attributes, &self.options.times);
        let attributes = file_attr(node.number, &attributes);
        Ok(EntryReply { node, valid, name_valid: self.name_valid(valid), attributes })
    }

    /// Creates a regular file; with `is_new`, fails if there is one.
    pub fn create_file(
        &self,
        dir: &Arc<Node>,
        by: &Credential,
        name: &[u8],
        mode: u32,
        is_new: bool,
    ) -> Result<EntryReply, Errno> {
        let new = NewAttributes::mode(mode & MODE_BITS);
        if !is_new {
            return self.entry(self.nfs.create(by, &dir.handle, name, &new, None)?, by);
        }
        let made = self.nfs.create(by, &dir.handle, name, &new, Some(convert::verifier()))?;
        let handle = made.handle.clone().ok_or(Errno::IO)?;
        // The server keeps the verifier in the times.
        let new = NewAttributes { accessed: NewTime::Now, modified: NewTime::Now, ..new };
        let attributes = self.nfs.set_attributes(by, &handle, &new)?;
        self.entry(Created { attributes, ..made }, by)
    }

    /// MKDIR.
    pub fn create_directory(
        &self,
        dir: &Arc<Node>,
        by: &Credential,
        name: &[u8],
        mode: u32,
    ) -> Result<EntryReply, Errno> {
        let made = self.nfs.make_directory(by, &dir.handle, name, mode & MODE_BITS)?;
        self.entry(made, by)
    }

    /// SYMLINK.
    pub fn create_link(&self, dir: &Arc<Node>, by: &Credential, name: &[u8], text: &[u8]) -> Result<EntryReply, Errno> {
        let made = self.nfs.make_link(by, &dir.handle, name, text)?;
        self.entry(made, by)
    }

    /// MKNOD.
    pub fn create_node(
        &self,
        dir: &Arc<Node>,
        by: &Credential,
        name: &[u8],
        mode: u32,
        rdev: u32,
    ) -> Result<EntryReply, Errno> {
        use rustix::fs::FileType;
        let kind = match FileType::from_raw_mode(mode) {
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::BlockDevice => FileKind::Block,
            FileType::CharacterDevice => FileKind::Character,
            FileType::RegularFile => return self.create_file(dir, by, name, mode, true),
            _ => return Err(Errno::INVAL),
        };
        let node = (kind, mode & MODE_BITS, convert::device(rdev));
        self.entry(self.nfs.make_node(by, &dir.handle, name, node)?, by)
    }

    /// LINK.
    pub fn create_hard_link(
        &self,
        file: &Arc<Node>,
        by: &Credential,
        dir: &Arc<Node>,
        name: &[u8],
    ) -> Result<EntryReply, Errno> {
        if file.writes.is_dirty() {
            self.writes.settle(file);
        }
        let attributes = self.nfs.link(by, &file.handle, &dir.handle, name)?;
        self.entry(Created { handle: Some(file.handle.clone()), attributes }, by)
    }

    /// UNLINK. A file that programs have open gets another name until they close it, since the server does not know them.
    pub fn remove_file(&self, dir: &Arc<Node>, by: &Credential, name: &[u8]) -> Result<(), Errno> {
        match self.open_file_of(dir, by, name) {
            Some(node) => self.hide(&node, dir, by, name),
            None => self.nfs.remove(by, &dir.handle, name),
        }
    }

    /// RMDIR.
    pub fn remove_directory(&self, dir: &Arc<Node>, by: &Credential, name: &[u8]) -> Result<(), Errno> {
        self.nfs.remove_directory(by, &dir.handle, name)
    }

    /// RENAME. A file at the new name that programs have open stays for them.
    pub fn rename(&self, by: &Credential, from: (&Arc<Node>, &[u8]), to: (&Arc<Node>, &[u8])) -> Result<(), Errno> {
        if let Some(target) = self.open_file_of(to.0, by, to.1) {
            let source = self.nfs.lookup(by, &from.0.handle, from.1)?;
            // Two names of one file: nothing happens.
            if source.handle.as_ref() != Some(&target.handle) {
                self.hide(&target, to.0, by, to.1)?;
            }
        }
        self.nfs.rename(by, (&from.0.handle, from.1), (&to.0.handle, to.1))
    }

    /// Returns the file of a name if programs have it open and it has no other name.
    fn open_file_of(&self, dir: &Arc<Node>, by: &Credential, name: &[u8]) -> Option<Arc<Node>> {
        if self.files.is_empty() {
            return None;
        }
        let found = self.nfs.lookup(by, &dir.handle, name).ok()?;
        let attributes = found.attributes.filter(|found| found.kind == FileKind::Regular && found.links == 1)?;
        let node = self.nodes.find(self.nodes.number(&attributes))?;
        let usage = node.usage();
        let is_open = usage.opens > 0 && usage.removed_as.is_none() && Some(&node.handle) == found.handle.as_ref();
        drop(usage);
        is_open.then_some(node)
    }

    fn hide(&self, node: &Arc<Node>, dir: &Arc<Node>, by: &Credential, name: &[u8]) -> Result<(), Errno> {
        let hidden = format!("{REMOVED_PREFIX}{:016x}{:08x}", node.number, weft_sys::random::u64() as u32).into_bytes();
        self.nfs.rename(by, (&dir.handle, name), (&dir.handle, &hidden))?;
        node.usage().removed_as = Some((dir.clone(), hidden));
        Ok(())
    }

    /// Removes a hidden file that no program has open any more.
    pub fn remove_hidden(&self, node: &Arc<Node>, by: &Credential) {
        let removed_as = node.usage().removed_as.take();
        if let Some((dir, name)) = removed_as {
            // Another client may have removed it.
            let _ = self.nfs.remove(by, &dir.handle, &name);
        }
    }
}
