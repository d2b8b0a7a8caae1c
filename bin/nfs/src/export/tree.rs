//! The exported tree: handles to files and back.
//!
//! A file is found by the place where it was last seen, its parent and its name. The path is walked below the exported
//! directory without following any symbolic link, and the file must be the one that the handle names. A file without a
//! place, after a restart or a change behind the server's back, is searched for along the bytes in its handle.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Statx};

use super::attributes;
use super::handle::{FileId, Handle, STEPS_MAX, step};
use crate::limits::{PLACES_MAX, SEARCH_MAX};
use crate::protocol::status::Status;

/// Directories on the way to a file.
const DEPTH_MAX: usize = 256;

/// A file that a handle names.
#[derive(Debug)]
pub struct Found {
    /// Open as a path only, without rights to its content.
    pub path: OwnedFd,
    /// Its attributes.
    pub stat: Statx,
}

#[derive(Debug)]
struct Place {
    parent: FileId,
    name: Vec<u8>,
    /// Bytes in the handles that were given out: a handle does not change when its file moves.
    steps: Vec<u8>,
}

/// Exported directory.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    id: FileId,
    birth: u64,
    number: u32,
    places: Mutex<HashMap<FileId, Place>>,
}

impl Tree {
    /// Opens a directory.
    pub fn open(path: &Path) -> Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).with_context(|| format!("{}", path.display()))?;
        let stat = attributes::stat(&root).map_err(|status| anyhow::anyhow!("no attributes (status {})", status.0))?;
        let id = attributes::id(&stat);
        let number = (id.device ^ id.inode.rotate_left(17)) as u32;
        let tree = Tree { root, id, birth: attributes::birth(&stat), number, places: Mutex::default() };
        let open = tree.open_beneath(b".").map_err(|status| anyhow::anyhow!("status {}", status.0));
        open.context("the kernel does not open files beneath a directory (openat2 needs Linux 5.6)")?;
        Ok(tree)
    }

    /// Returns the exported directory's identity.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the exported directory's handle.
    pub fn root_handle(&self) -> Handle {
        Handle { export: self.number, id: self.id, birth: self.birth, steps: Vec::new() }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<FileId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the file of a handle.
    pub fn find(&self, bytes: &[u8]) -> Result<Found, Status> {
        let handle = self.parse(bytes)?;
        match self.path_of(handle.id).map(|path| self.open_matching(&path, &handle)) {
            Some(Ok(found)) => Ok(found),
            _ => self.search(&handle),
        }
    }

    /// Reads a handle of this tree.
    pub fn parse(&self, bytes: &[u8]) -> Result<Handle, Status> {
        let handle = Handle::parse(bytes).ok_or(Status::BAD_HANDLE)?;
        if handle.export == self.number { Ok(handle) } else { Err(Status::STALE) }
    }

    /// Remembers a file in a directory, and returns its handle.
    pub fn remember(&self, parent: FileId, name: &[u8], stat: &Statx) -> Handle {
        let id = attributes::id(stat);
        if id == self.id {
            return self.root_handle();
        }
        let mut places = self.places();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        let steps = match places.get(&id) {
            Some(place) => place.steps.clone(),
            None => steps_below(&places, self.id, parent),
        };
        places.insert(id, Place { parent, name: name.to_vec(), steps: steps.clone() });
        Handle { export: self.number, id, birth: attributes::birth(stat), steps }
    }

    /// Returns the handle of a file that has a place.
    pub fn handle_of(&self, stat: &Statx) -> Option<Handle> {
        let id = attributes::id(stat);
        if id == self.id {
            return Some(self.root_handle());
        }
        let steps = self.places().get(&id)?.steps.clone();
        Some(Handle { export: self.number, id, birth: attributes::birth(stat), steps })
    }

    /// Returns the directory in which a file was last seen.
    #[cfg(test)]
    pub fn parent_of(&self, id: FileId) -> Option<FileId> {
        if id == self.id { Some(id) } else { self.places().get(&id).map(|place| place.parent) }
    }

    /// Returns the path of a file below the root, as far as it is remembered.
    fn path_of(&self, mut id: FileId) -> Option<Vec<u8>> {
        let places = self.places();
        let mut names: Vec<&[u8]> = Vec::new();
        while id != self.id {
            let place = places.get(&id)?;
            names.push(&place.name);
            id = place.parent;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        names.reverse();
        Some(if names.is_empty() { b".".to_vec() } else { names.join(&b'/') })
    }

    fn open_beneath(&self, path: &[u8]) -> Result<OwnedFd, Status> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    fn open_matching(&self, path: &[u8], handle: &Handle) -> Result<Found, Status> {
        let path = self.open_beneath(path)?;
        let stat = attributes::stat(&path)?;
        let is_it = attributes::id(&stat) == handle.id && attributes::birth(&stat) == handle.birth;
        if is_it { Ok(Found { path, stat }) } else { Err(Status::STALE) }
    }

    /// Searches along the bytes of the directories above the file.
    fn search(&self, handle: &Handle) -> Result<Found, Status> {
        let mut left = SEARCH_MAX;
        let mut path = Vec::new();
        self.search_in(handle, 0, &mut path, &mut left).unwrap_or(Err(Status::STALE))
    }

    /// `None`: it is not below this directory.
    fn search_in(
        &self,
        handle: &Handle,
        depth: usize,
        path: &mut Vec<(Vec<u8>, Statx)>,
        left: &mut usize,
    ) -> Option<Result<Found, Status>> {
        let names: Vec<&[u8]> = path.iter().map(|(name, _)| &name[..]).collect();
        let here = if names.is_empty() { b".".to_vec() } else { names.join(&b'/') };
        let dir = self.open_beneath(&here).ok()?;
        let wanted = handle.steps.get(depth).copied();
        for (name, inode, kind) in entries(&dir, left) {
            let is_candidate = match wanted {
                Some(byte) => step(inode) == byte && matches!(kind, FileType::Directory | FileType::Unknown),
                None => inode == handle.id.inode,
            };
            if !is_candidate {
                continue;
            }
            let Ok(stat) = attributes::stat_at(&dir, &name) else { continue };
            path.push((name, stat));
            let found = match wanted {
                Some(_) => self.search_in(handle, depth + 1, path, left),
                None => self.take_place(handle, path),
            };
            if found.is_some() {
                return found;
            }
            path.pop();
        }
        None
    }

    /// Opens a file that a search found, and remembers the way to it.
    fn take_place(&self, handle: &Handle, path: &[(Vec<u8>, Statx)]) -> Option<Result<Found, Status>> {
        let names: Vec<&[u8]> = path.iter().map(|(name, _)| &name[..]).collect();
        let found = self.open_matching(&names.join(&b'/'), handle).ok()?;
        let mut parent = self.id;
        for (name, stat) in path {
            self.remember(parent, name, stat);
            parent = attributes::id(stat);
        }
        Some(Ok(found))
    }
}

/// Returns the bytes of the directories from the root down to `parent`, without the root.
fn steps_below(places: &HashMap<FileId, Place>, root: FileId, mut parent: FileId) -> Vec<u8> {
    let mut steps = Vec::new();
    while parent != root && steps.len() < STEPS_MAX {
        steps.push(step(parent.inode));
        let Some(place) = places.get(&parent) else { break };
        parent = place.parent;
    }
    steps.reverse();
    steps
}

/// Returns names, inodes and types in a directory, up to the number that is left.
fn entries(dir: impl AsFd, left: &mut usize) -> Vec<(Vec<u8>, u64, FileType)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::openat(dir, ".", flags, Mode::empty()) else { return Vec::new() };
    let Ok(dir) = Dir::new(dir) else { return Vec::new() };
    let all = dir.flatten().take(*left);
    let found: Vec<_> = all.map(|e| (e.file_name().to_bytes().to_vec(), e.ino(), e.file_type())).collect();
    *left -= found.len();
    found.into_iter().filter(|(name, ..)| name != b"." && name != b"..").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::Scratch;

    fn lookup(tree: &Tree, dir: &Handle, name: &str) -> Handle {
        let dir = tree.find(&dir.to_bytes()).expect("the directory");
        let stat = attributes::stat_at(&dir.path, name.as_bytes()).expect("the name");
        tree.remember(attributes::id(&dir.stat), name.as_bytes(), &stat)
    }

    #[test]
    fn a_handle_finds_its_file_after_a_rename_and_after_a_restart() {
        let scratch = Scratch::new("tree");
        std::fs::create_dir_all(scratch.path().join("a/b")).expect("directories");
        std::fs::write(scratch.path().join("a/b/file"), "x").expect("a file");
        let tree = Tree::open(scratch.path()).expect("a tree");
        let (a, root) = (lookup(&tree, &tree.root_handle(), "a"), tree.root_handle());
        let b = lookup(&tree, &a, "b");
        let file = lookup(&tree, &b, "file");
        assert_eq!((a.steps.len(), b.steps.len(), file.steps.len()), (0, 1, 2));
        std::fs::rename(scratch.path().join("a"), scratch.path().join("z")).expect("renamed");
        for tree in [tree, Tree::open(scratch.path()).expect("a tree")] {
            let found = tree.find(&file.to_bytes()).expect("found by search");
            assert_eq!(attributes::id(&found.stat), file.id);
            assert_eq!(tree.parent_of(file.id), Some(b.id));
            assert!(tree.find(&root.to_bytes()).is_ok());
        }
        std::fs::remove_file(scratch.path().join("z/b/file")).expect("removed");
        let tree = Tree::open(scratch.path()).expect("a tree");
        assert_eq!(tree.find(&file.to_bytes()).err(), Some(Status::STALE));
    }

    #[test]
    fn no_handle_leads_out_of_the_tree() {
        let scratch = Scratch::new("outside");
        let inner = scratch.path().join("export");
        std::fs::create_dir(&inner).expect("a directory");
        std::fs::write(scratch.path().join("secret"), "x").expect("a file");
        std::os::unix::fs::symlink("..", inner.join("up")).expect("a link");
        let tree = Tree::open(&inner).expect("a tree");
        let link = lookup(&tree, &tree.root_handle(), "up");
        let found = tree.find(&link.to_bytes()).expect("the link itself");
        assert_eq!(attributes::file_type(&found.stat), FileType::Symlink);
        // A place below the link, which only a lie about the link could give.
        let stat = attributes::stat_at(rustix::fs::CWD, scratch.path().join("secret").as_os_str().as_encoded_bytes());
        let secret = tree.remember(link.id, b"secret", &stat.expect("attributes"));
        assert_eq!(tree.find(&secret.to_bytes()).err(), Some(Status::STALE));
        let foreign = Handle { export: 0, ..tree.root_handle() };
        assert_eq!(tree.find(&foreign.to_bytes()).err(), Some(Status::STALE));
        assert_eq!(tree.find(b"nonsense").err(), Some(Status::BAD_HANDLE));
    }
}
