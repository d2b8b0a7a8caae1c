//! Device nodes that stand for adapters in a view of /dev. Each is an inode of its own, so that changes to it do not
//! affect the machine's node.
//!
//! Root creates a character device that reads and writes like /dev/null. In a user namespace no user may create one;
//! there the `ptmx` of a new devpts instance is the one character device that an ordinary user owns. Where even that
//! cannot be mounted, an empty file takes its place.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags};

/// Device number of /dev/null.
const NULL: (u32, u32) = (1, 3);

/// The extended attribute with a node's label. Only real root can set one of this namespace.
const LABEL: &str = "trusted.weft";
const LABEL_BYTES_MAX: usize = 256;

/// Owner, group and mode of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permissions.
    pub mode: u32,
}

impl Rights {
    /// Whether a user with these groups may read and write.
    pub fn allow(&self, uid: u32, groups: &[u32]) -> bool {
        let shift = if uid == self.uid {
            6
        } else if groups.contains(&self.gid) {
            3
        } else {
            0
        };
        self.mode >> shift & 6 == 6
    }
}

/// Creates a node with these permissions, and labels it if this process may.
///
/// # Errors
/// No kind of node can be created there.
pub fn make(path: &Path, mode: u32, label: &str) -> io::Result<()> {
    let permissions = Mode::from_raw_mode(mode);
    let device = rustix::fs::makedev(NULL.0, NULL.1);
    if rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, permissions, device).is_err() {
        return make_by_devpts(path, mode).or_else(|_| fs::write(path, "").and_then(|()| set_mode(path, mode)));
    }
    if !label.is_empty() {
        // An unlabelled node still works as a node, but grants nothing.
        let _ = rustix::fs::setxattr(path, LABEL, label.as_bytes(), XattrFlags::empty());
    }
    set_mode(path, mode)
}

fn make_by_devpts(path: &Path, mode: u32) -> io::Result<()> {
    let instance = path.with_extension("devpts");
    fs::create_dir(&instance)?;
    let made = || -> io::Result<()> {
        rustix::mount::mount("weft", &instance, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, Some(c"mode=600"))?;
        let bound = fs::write(path, "").and_then(|()| {
            let ptmx = instance.join("ptmx");
            set_mode(&ptmx, mode)?;
            Ok(rustix::mount::mount_bind(&ptmx, path)?)
        });
        rustix::mount::unmount(&instance, UnmountFlags::DETACH)?;
        bound
    }();
    fs::remove_dir(&instance)?;
    made
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?)
}

/// Returns the rights of the node at a path, if it is a character device that root labelled with `label`; `None` for
/// everything else.
pub fn rights_if_labelled(path: &Path, label: &str) -> Option<Rights> {
    let mut found = [0; LABEL_BYTES_MAX];
    let length = rustix::fs::lgetxattr(path, LABEL, &mut found).ok()?;
    let stat = rustix::fs::lstat(path).ok()?;
    let is_node = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    let labelled = !label.is_empty() && found.get(..length) == Some(label.as_bytes());
    (is_node && labelled).then_some(Rights { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o777 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_first_that_fit() {
        let rights = Rights { uid: 0, gid: 5, mode: 0o660 };
        assert!(rights.allow(0, &[]) && rights.allow(7, &[3, 5]));
        assert!(!rights.allow(7, &[3]));
        assert!(!Rights { mode: 0o606, ..rights }.allow(7, &[5]), "the group's rights hold, however few");
        assert!(Rights { mode: 0o606, ..rights }.allow(7, &[3]));
        assert!(!Rights { mode: 0o644, ..rights }.allow(7, &[]));
    }

    #[test]
    fn what_nobody_labelled_grants_nothing() {
        assert_eq!(rights_if_labelled(Path::new("/dev/null"), "node1"), None);
        assert_eq!(rights_if_labelled(Path::new("/nonesuch"), "node1"), None);
    }
}
