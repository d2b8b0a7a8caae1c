//! Files that the kernel knows, by the numbers that it has for them.
//!
//! A number is the server's own number of the file, so that programs see it as the inode. A second file with the same
//! number, such as one of another file system below the export, or a later one with the same inode, is told apart by its
//! generation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cache::{CacheTimes, Freshness};
use super::writes::Writes;
use crate::client::{Attributes, FileKind, Handle};

/// Number of the root in FUSE.
pub const ROOT: u64 = 1;
/// Marks numbers of files of other file systems than the root's.
const FOREIGN: u64 = 1 << 63;

/// A file.
#[derive(Debug)]
pub struct Node {
    /// Number.
    pub number: u64,
    /// Tells files with the same number apart.
    pub generation: u64,
    /// The server's handle.
    pub handle: Handle,
    /// Type.
    pub kind: FileKind,
    freshness: Mutex<Freshness>,
    /// Data on its way to the server.
    pub writes: Writes,
    /// How often programs have it open, and its place if it was removed meanwhile.
    pub usage: Mutex<Usage>,
}

/// Use of a file by programs.
#[derive(Debug, Default)]
pub struct Usage {
    /// Open files.
    pub opens: u32,
    /// Directory and name of a file that was removed while it was open.
    pub removed_as: Option<(Arc<Node>, Vec<u8>)>,
}

impl Node {
    fn freshness(&self) -> MutexGuard<'_, Freshness> {
        self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its use by programs.
    pub fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes attributes from the server. Returns them as programs shall see them, and for how long they are valid.
    pub fn note(&self, attributes: &Attributes, times: &CacheTimes) -> (Attributes, Duration) {
        let valid = self.freshness().note(attributes, times, Instant::now());
        // Data that the server does not have yet counts.
        (Attributes { size: attributes.size.max(self.writes.end()), ..*attributes }, valid)
    }

    /// Notes attributes after a change of this client's own.
    pub fn own_change(&self, attributes: Option<&Attributes>, times: &CacheTimes) {
        if let Some(attributes) = attributes {
            self.freshness().own_change(attributes, times, Instant::now());
        }
    }

    /// Whether the content is that of the last attributes.
    pub fn is_same(&self, attributes: &Attributes) -> bool {
        self.freshness().is_same(attributes)
    }
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// References of the kernel.
    lookups: u64,
}

/// All files that the kernel knows.
#[derive(Debug)]
pub struct Nodes {
    root: Arc<Node>,
    root_fileid: u64,
    fsid: u64,
    known: Mutex<BTreeMap<u64, Known>>,
}

impl Nodes {
    /// Begins with the root.
    pub fn new(handle: Handle, attributes: &Attributes) -> Nodes {
        let root = node(ROOT, 0, handle, attributes.kind);
        Nodes { root, root_fileid: attributes.fileid, fsid: attributes.fsid, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the root.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// Returns the file of a number.
    pub fn find(&self, number: u64) -> Option<Arc<Node>> {
        match number {
            ROOT => Some(self.root.clone()),
            _ => self.known().get(&number).map(|known| known.node.clone()),
        }
    }

    /// Returns the number of a file.
    pub fn number(&self, attributes: &Attributes) -> u64 {
        let Attributes { fileid, fsid, .. } = *attributes;
        match fileid {
            _ if fsid != self.fsid => (fileid ^ fsid.rotate_left(32)) | FOREIGN,
            id if id == self.root_fileid => ROOT,
            // The root has this number in FUSE.
            ROOT => self.root_fileid,
            0 => FOREIGN,
            id => id,
        }
    }

    /// Returns the file of a handle, to which the kernel gets one more reference.
    pub fn remember(&self, handle: Handle, attributes: &Attributes) -> Arc<Node> {
        let number = self.number(attributes);
        if number == ROOT {
            return self.root.clone();
        }
        let mut known = self.known();
        let known = known
            .entry(number)
            .or_insert_with(|| Known { node: node(number, 0, handle.clone(), attributes.kind), lookups: 0 });
        known.lookups += 1;
        if known.node.handle != handle || known.node.kind != attributes.kind {
            known.node = node(number, known.node.generation + 1, handle, attributes.kind);
        }
        known.node.clone()
    }

    /// Takes references back. A file without any is forgotten.
    pub fn forget(&self, number: u64, lookups: u64) {
        let mut known = self.known();
        if let Some(entry) = known.get_mut(&number) {
            entry.lookups = entry.lookups.saturating_sub(lookups);
            if entry.lookups == 0 {
                known.remove(&number);
            }
        }
    }
}

fn node(number: u64, generation: u64, handle: Handle, kind: FileKind) -> Arc<Node> {
    Arc::new(Node {
        number,
        generation,
        handle,
        kind,
        freshness: Mutex::default(),
        writes: Writes::default(),
        usage: Mutex::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::cache::tests::file;
    use crate::protocol::xdr::{Reader, Writer};

    fn handle(byte: u8) -> Handle {
        let mut out = Writer::default();
        out.opaque(&[byte; 8]);
        Handle::read(&mut Reader::new(&out.0)).expect("a handle")
    }

    fn nodes(root: u64) -> Nodes {
        let attributes = Attributes { kind: FileKind::Directory, fileid: root, ..file(0) };
        Nodes::new(handle(0), &attributes)
    }

    #[test]
    fn numbers_are_the_servers_except_for_the_root() {
        let nodes = nodes(77);
        let number = |fileid| nodes.number(&Attributes { fileid, ..file(0) });
        assert_eq!([number(77), number(1), number(5)], [ROOT, 77, 5]);
        assert!(nodes.number(&Attributes { fsid: 9, fileid: 5, ..file(0) }) & FOREIGN != 0);
        assert_eq!(nodes.remember(handle(0), &Attributes { fileid: 77, ..file(0) }).number, ROOT);
    }

    #[test]
    fn a_file_lives_as_long_as_the_kernels_references() {
        let nodes = nodes(77);
        let five = Attributes { fileid: 5, ..file(0) };
        let first = nodes.remember(handle(1), &five);
        assert!(Arc::ptr_eq(&first, &nodes.remember(handle(1), &five)));
        nodes.forget(5, 1);
        assert!(nodes.find(5).is_some());
        // Another file with the same number.
        let second = nodes.remember(handle(2), &five);
        assert_eq!((second.generation, &second.handle), (1, &handle(2)));
        nodes.forget(5, 2);
        assert!(nodes.find(5).is_none() && nodes.find(ROOT).is_some());
    }
}
