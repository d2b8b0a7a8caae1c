//! `weft nfs umount`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use weft_tool::errno;

use super::args::UmountArgs;
use crate::mount_table::find;

/// Unmounts a directory.
///
/// # Errors
/// It is not mounted by this command, or in use.
pub fn run(args: &UmountArgs) -> Result<()> {
    let directory = absolute(&args.directory)?;
    let shown = directory.display();
    let mount = find(&directory).with_context(|| format!("{shown}: not mounted"))?;
    if !matches!(mount.kind.as_str(), "fuse.nfs" | "fuse" | "nfs" | "nfs4") {
        bail!("{shown}: a file system of type {}, not NFS", mount.kind);
    }
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::FORCE, args.force);
    flags.set(UnmountFlags::DETACH, args.lazy);
    match rustix::mount::unmount(&directory, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => by_fusermount(&directory, args.lazy || args.force),
        Err(Errno::BUSY) => bail!("{shown}: in use by a program; --lazy unmounts it nevertheless"),
        Err(error) => bail!("{shown}: {}", errno::text(&error.into())),
    }
}

/// Unmounts a directory now; programs that use it keep it.
///
/// # Errors
/// It is not mounted.
pub fn lazily(directory: &Path) -> Result<()> {
    match rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => by_fusermount(directory, true),
        result => Ok(result?),
    }
}

/// Ordinary users unmount by the program that mounted for them.
fn by_fusermount(directory: &Path, is_lazy: bool) -> Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u").args(is_lazy.then_some("-z")).arg("--").arg(directory);
    let status = command.status().context("fusermount3 (package fuse3)")?;
    if status.success() { Ok(()) } else { bail!("{}: not unmounted", directory.display()) }
}

/// Returns the absolute path without touching the directory itself: its server may not answer, and a client that was
/// killed leaves a directory that only fails.
fn absolute(directory: &Path) -> Result<PathBuf> {
    let parent = match directory.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(directory.to_path_buf()),
    };
    let parent = parent.canonicalize().with_context(|| format!("{}", parent.display()))?;
    Ok(directory.file_name().map_or_else(|| parent.clone(), |name| parent.join(name)))
}
