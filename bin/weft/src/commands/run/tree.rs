//! The view as a directory tree, for programs whose system calls the library of the view (`abi/view`) redirects:
//! `DIR/sys/class/infiniband` stands for `/sys/class/infiniband`. It is in memory where possible, and gone when the last
//! process that sees it has ended.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use weft_sys::lifetime::{self, Lifetime};
use weft_sys::process::euid;

use super::built::Built;
use super::nodes::{Manager, Nodes};
use super::sys_files::{Changes, SysFiles};
use super::view::View;
use crate::commands::own_view::VIEW_VARIABLE;

/// Beginning of the directories' names; the user and a number follow.
const PREFIX: &str = "weft-view-";

/// Maximum number of names to try; another user may have taken some in a public directory.
const NAMES_MAX: u32 = 1000;

/// Age at which an unlocked tree is one whose keeper was killed, and not one that is being made.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// A tree. Its lock says that a process keeps it.
#[derive(Debug)]
pub struct Tree {
    dir: PathBuf,
    lock: OwnedFd,
}

impl Tree {
    /// Builds the tree and the view in it.
    ///
    /// # Errors
    /// No directory for temporary files takes it; the error of the last one.
    pub fn build(view: &View, manager: Manager<'_>) -> io::Result<(Tree, Built)> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for parent in parents() {
            sweep(&parent);
            let tree = match Tree::make(&parent) {
                Ok(tree) => tree,
                Err(error) => {
                    failure = error;
                    continue;
                }
            };
            match tree.fill(view, manager) {
                Ok(built) => return Ok((tree, built)),
                Err(error) => failure = error,
            }
            tree.remove();
        }
        Err(failure)
    }

    fn make(parent: &Path) -> io::Result<Tree> {
        let parent = parent.canonicalize()?;
        for number in 0..NAMES_MAX {
            let dir = parent.join(format!("{PREFIX}{}-{}-{number}", euid(), std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => {
                    // Programs may go on as another user.
                    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
                    let lock = lock(&dir)?;
                    return Ok(Tree { dir, lock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn fill(&self, view: &View, manager: Manager<'_>) -> io::Result<Built> {
        let mut sys = SysFiles::new(&self.dir.join("sys"))?;
        let Changes { live, srp_logins, .. } = sys.show(view)?;
        let mut nodes = Nodes::new(&self.dir.join("dev/infiniband"), make_node)?;
        let pipes = nodes.show(view, manager)?;
        Ok(Built { sys, nodes, live, pipes, srp_logins })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory and its lock, which a copy of this process takes over.
    pub fn into_parts(self) -> (PathBuf, OwnedFd) {
        (self.dir, self.lock)
    }

    /// The tree of these parts.
    pub fn of_parts(dir: PathBuf, lock: OwnedFd) -> Tree {
        Tree { dir, lock }
    }

    /// Another process that sees the tree.
    pub fn another_process(&self) -> Option<Lifetime> {
        let entry = [VIEW_VARIABLE.as_bytes(), b"=", self.dir.as_os_str().as_bytes()].concat();
        lifetime::find_another(|number| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry)
        })
    }

    /// Removes the tree.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Directories for the tree: those in memory first, because not every file system has leases, and public ones before
/// the user's own.
fn parents() -> impl Iterator<Item = PathBuf> {
    let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    [PathBuf::from("/dev/shm"), env::temp_dir()].into_iter().chain(own)
}

/// A node that programs find and that reads and writes like /dev/null. A device of its own would need root, and a file
/// system that opens devices.
fn make_node(path: &Path, mode: u32, _label: &str) -> io::Result<()> {
    if mode & 0o600 != 0 {
        return symlink("/dev/null", path);
    }
    fs::write(path, "")?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn lock(dir: &Path) -> io::Result<OwnedFd> {
    let dir = File::open(dir)?;
    rustix::fs::flock(dir.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    Ok(dir.into())
}

/// Removes this user's trees whose keeper was killed.
fn sweep(parent: &Path) {
    let own = format!("{PREFIX}{}-", euid());
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(own.as_bytes())) {
        let Ok(found) = entry.path().symlink_metadata() else { continue };
        let age = found.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        let is_old = found.is_dir() && found.uid() == euid() && age > ABANDONED_AFTER;
        if is_old && lock(&entry.path()).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_tree_is_locked_while_it_is_kept_and_swept_after() {
        let parent = env::temp_dir().canonicalize().unwrap().join(format!("weft-trees-{}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        let tree = Tree::make(&parent).unwrap();
        let second = Tree::make(&parent).unwrap();
        assert_ne!(tree.dir(), second.dir());
        make_node(&tree.dir().join("uverbs0"), 0o666, "").unwrap();
        assert_eq!(fs::metadata(tree.dir().join("uverbs0")).unwrap().rdev(), fs::metadata("/dev/null").unwrap().rdev());
        let long_ago = SystemTime::UNIX_EPOCH;
        for tree in [&tree, &second] {
            File::open(tree.dir()).unwrap().set_modified(long_ago).unwrap();
        }
        let (kept, abandoned) = (tree.dir().to_owned(), second.into_parts().0);
        sweep(&parent);
        assert!(kept.is_dir() && !abandoned.exists());
        tree.remove();
        fs::remove_dir(&parent).unwrap();
    }
}
