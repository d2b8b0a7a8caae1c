//! Requests about one file: attributes, rights, links' texts, the file system's size.

use std::sync::Arc;
use std::time::Duration;

use fuser::{AccessFlags, FileAttr};
use rustix::io::Errno;

use super::convert::file_attr;
use super::mounted::Mounted;
use super::nodes::Node;
use crate::client::{Attributes, FileKind, FsStat};
use crate::protocol::credential::Credential;
use crate::protocol::new_attributes::NewAttributes;

/// Rights of ACCESS (RFC 1813 §3.3.4).
pub const READ: u32 = 1;
/// Look up a name.
pub const LOOKUP: u32 = 2;
/// Change what is there.
pub const MODIFY: u32 = 4;
/// Add.
pub const EXTEND: u32 = 8;
/// Remove an entry.
pub const DELETE: u32 = 16;
/// Execute.
pub const EXECUTE: u32 = 32;

impl Mounted {
    /// GETATTR.
    pub fn get_attributes(&self, node: &Arc<Node>, by: &Credential) -> Result<(Duration, FileAttr), Errno> {
        let (attributes, valid) = self.fresh(node, by)?;
        Ok((valid, file_attr(node.number, &attributes)))
    }

    /// SETATTR.
    pub fn change(
        &self,
        node: &Arc<Node>,
        by: &Credential,
        new: &NewAttributes,
    ) -> Result<(Duration, FileAttr), Errno> {
        if node.writes.is_dirty() {
            self.writes.settle(node);
        }
        let after = self.nfs.set_attributes(by, &node.handle, new)?;
        let attributes: Attributes = after.map_or_else(|| self.nfs.attributes(by, &node.handle), Ok)?;
        node.own_change(Some(&attributes), &self.options.times);
        let (attributes, valid) = node.note(&attributes, &self.options.times);
        Ok((valid, file_attr(node.number, &attributes)))
    }

    /// Checks rights, as the server grants them.
    pub fn check_access(&self, node: &Arc<Node>, by: &Credential, mask: AccessFlags) -> Result<(), Errno> {
        let is_directory = node.kind == FileKind::Directory;
        let rights = [
            (AccessFlags::R_OK, READ),
            (AccessFlags::W_OK, if is_directory { MODIFY | EXTEND | DELETE } else { MODIFY | EXTEND }),
            (AccessFlags::X_OK, if is_directory { LOOKUP } else { EXECUTE }),
        ];
        let asked = rights.iter().filter(|(flag, _)| mask.contains(*flag)).map(|(_, rights)| rights).sum();
        if asked == 0 {
            return self.fresh(node, by).map(drop);
        }
        let (granted, _) = self.nfs.access(by, &node.handle, asked)?;
        if granted == asked { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// READLINK.
    pub fn link_text(&self, node: &Arc<Node>, by: &Credential) -> Result<Vec<u8>, Errno> {
        self.nfs.link_text(by, &node.handle)
    }

    /// STATFS.
    pub fn size(&self, by: &Credential) -> Result<FsStat, Errno> {
        self.nfs.fs_stat(by, &self.nodes.root().handle)
    }
}
