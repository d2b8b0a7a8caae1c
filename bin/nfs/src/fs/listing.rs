//! Requests about directories' entries. A reply of the server has more entries than the kernel asks for at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::io::Errno;

use super::convert::{file_attr, file_type};
use super::files::{Ahead, OpenFile};
use super::mounted::Mounted;
use super::names::EntryReply;
use super::nodes::Node;
use crate::client::{Attributes, Created, Entry, FileKind};
use crate::limits::LISTING_BYTES;

impl Mounted {
    /// READDIR.
    pub fn list(&self, dir: &OpenFile, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        self.each(dir, offset, |entry| {
            let (kind, number) = match &entry.attributes {
                Some(attributes) => (attributes.kind, self.nodes.number(attributes)),
                None => (FileKind::Regular, entry.fileid),
            };
            reply.add(INodeNo(number), entry.cookie, file_type(kind), name(entry))
        })
    }

    /// READDIR with attributes, by which the kernel knows the files.
    pub fn list_with_attributes(
        &self,
        dir: &OpenFile,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        self.each(dir, offset, |entry| {
            if entry.name == b"." || entry.name == b".." {
                return self.add_dot(dir, entry, reply);
            }
            // A file that vanished meanwhile is left out.
            let Ok(found) = self.entry_of(&dir.node, dir, entry) else { return false };
            let number = found.node.number;
            let is_full = reply.add(
                INodeNo(number),
                entry.cookie,
                name(entry),
                &found.valid.min(found.name_valid),
                &found.attributes,
                found.generation(),
            );
            if is_full {
                self.nodes.forget(number, 1);
            }
            is_full
        })
    }

    fn entry_of(&self, node: &Arc<Node>, dir: &OpenFile, entry: &Entry) -> Result<EntryReply, Errno> {
        match &entry.handle {
            Some(handle) => {
                let found = Created { handle: Some(handle.clone()), attributes: entry.attributes };
                self.entry(found, &dir.by)
            }
            None => self.look_up(node, &dir.by, &entry.name),
        }
    }

    /// Adds `.` or `..`, for which the kernel takes no reference.
    fn add_dot(&self, dir: &OpenFile, entry: &Entry, reply: &mut ReplyDirectoryPlus) -> bool {
        let zero = std::time::Duration::ZERO;
        let plain = Attributes {
            kind: FileKind::Directory,
            mode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: (0, 0),
            fsid: 0,
            fileid: entry.fileid,
            accessed: (0, 0),
            modified: (0, 0),
            changed: (0, 0),
        };
        let number = entry.attributes.as_ref().map_or(dir.node.number, |attributes| self.nodes.number(attributes));
        let attributes = file_attr(number, entry.attributes.as_ref().unwrap_or(&plain));
        reply.add(INodeNo(number), entry.cookie, name(entry), &zero, &attributes, Generation(0))
    }

    /// Passes entries from a position on to `add`, until it says that there is no more room.
    fn each(&self, dir: &OpenFile, offset: u64, mut add: impl FnMut(&Entry) -> bool) -> Result<(), Errno> {
        let mut ahead = dir.ahead();
        if ahead.position != offset || offset == 0 {
            // A program went to another place, or begins again.
            let verifier = if offset == 0 { 0 } else { ahead.verifier };
            *ahead = Ahead { position: offset, verifier, ..Ahead::default() };
        }
        let mut is_empty = true;
        loop {
            while let Some(entry) = ahead.entries.front() {
                if add(entry) {
                    return Ok(());
                }
                ahead.position = entry.cookie;
                ahead.entries.pop_front();
                is_empty = false;
            }
            // Entries that are there go to the program first.
            if ahead.is_end || !is_empty {
                return Ok(());
            }
            self.read_ahead(dir, &mut ahead)?;
        }
    }

    fn read_ahead(&self, dir: &OpenFile, ahead: &mut Ahead) -> Result<(), Errno> {
        let from = (ahead.position, ahead.verifier);
        let mut listing = Err(Errno::OPNOTSUPP);
        if self.has_listing() {
            listing = self.nfs.list(&dir.by, &dir.node.handle, from, LISTING_BYTES);
        }
        if let Err(Errno::OPNOTSUPP) = listing {
            self.lists_attributes.store(false, Ordering::Relaxed);
            listing = self.nfs.list_names(&dir.by, &dir.node.handle, from, LISTING_BYTES);
        }
        let listing = listing?;
        // A server that returns nothing and says that there is more would keep the program waiting.
        ahead.is_end = listing.is_end || listing.entries.is_empty();
        ahead.verifier = listing.verifier;
        ahead.entries = listing.entries.into();
        Ok(())
    }
}

fn name(entry: &Entry) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(&entry.name)
}
