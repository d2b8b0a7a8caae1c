//! Private mount namespaces, with which `weft run` shows one program other libraries and devices than the rest of the
//! machine sees.
//!
//! This works for root, and for an ordinary user through a user namespace that maps the user to its own UID.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use crate::lifetime::{self, Lifetime};

/// The way in which [`enter_mount_namespace`] succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    /// With the privilege that the process already had.
    Privileged,
    /// Through a user namespace of its own. Privileges end at the next exec, unless the user is root.
    UserNamespace,
}

/// Gives the calling process its own mount namespace, whose mounts no other process sees. Later mounts of the machine
/// still propagate into it.
///
/// The process must be single-threaded. `EPERM` means that neither way is allowed here.
pub fn enter_mount_namespace() -> io::Result<Entered> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let entered = match unshare(UnshareFlags::NEWNS) {
        Ok(()) => Entered::Privileged,
        Err(rustix::io::Errno::PERM) => {
            try_in_child(|| enter_user_namespace(uid.as_raw(), gid.as_raw()))?;
            enter_user_namespace(uid.as_raw(), gid.as_raw())?;
            Entered::UserNamespace
        }
        Err(e) => return Err(e.into()),
    };
    stop_propagation()?;
    Ok(entered)
}

fn stop_propagation() -> io::Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

fn enter_user_namespace(uid: u32, gid: u32) -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    map_own_user(uid, gid)?;
    stop_propagation()
}

/// Maps the user and the group to themselves in the user namespace that the process has just made.
pub(crate) fn map_own_user(uid: u32, gid: u32) -> io::Result<()> {
    // The kernel lets an ordinary user map its group only after the process has denied setgroups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Tries `attempt` in a child process. Some systems (AppArmor's restriction of user namespaces) let a process enter a
/// user namespace but forbid the rest; the process could not leave the namespace again, and would have lost its user.
fn try_in_child(attempt: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the process has one thread (see enter_mount_namespace), so the child may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let errno = match attempt() {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(libc::EPERM),
            };
            // SAFETY: ends the child immediately, without the parent's exit handlers.
            unsafe { libc::_exit(errno) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child created above; `status` is ours to write.
            while unsafe { libc::waitpid(child, &mut status, 0) } == -1 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
                Some(0) => Ok(()),
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Err(io::Error::from_raw_os_error(libc::EPERM)),
            }
        }
    }
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: neither flag unshares the file descriptor table, which is what could break others' assumptions.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Opens `path` with O_PATH, so that it stays reachable as [`held_path`] once another mount covers it.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the path that names a held file in another system call.
pub fn held_path(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// Bind-mounts `source` at `target`: a file over a file, or a directory over a directory.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind(source, target)?)
}

/// As [`bind`] for directories, with all mounts below `source`.
pub fn bind_tree(source: &Path, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind_recursive(source, target)?)
}

/// Mounts an empty memory file system of at most `size` bytes.
pub fn mount_tmpfs(target: &Path, size: usize) -> io::Result<()> {
    let options = CString::new(format!("mode=755,size={size}"))?;
    Ok(rustix::mount::mount("weft", target, "tmpfs", MountFlags::NOSUID, Some(options.as_c_str()))?)
}

/// Mounts a /sys that shows the interfaces of the process's network namespace.
pub fn mount_sysfs(target: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
    Ok(rustix::mount::mount("sysfs", target, "sysfs", flags, None)?)
}

/// Mounts, at `target`, the read-only union of `upper` and `lower`; files in `upper` hide those in `lower`.
pub fn mount_overlay(upper: &Path, lower: &Path, target: &Path) -> io::Result<()> {
    let mut options = b"lowerdir=".to_vec();
    push_escaped(&mut options, upper);
    options.push(b':');
    push_escaped(&mut options, lower);
    let options = CString::new(options)?;
    Ok(rustix::mount::mount("weft", target, "overlay", MountFlags::RDONLY, Some(options.as_c_str()))?)
}

/// Appends a path with escapes: overlayfs separates its options by commas and its layers by colons, and a path may
/// contain both.
fn push_escaped(options: &mut Vec<u8>, path: &Path) {
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b':' | b'\\') {
            options.push(b'\\');
        }
        options.push(byte);
    }
}

/// Detaches the mount at `target`; bind mounts from it elsewhere stay.
pub fn detach(target: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(target, UnmountFlags::DETACH)?)
}

/// Returns another process with the same mounts as this one; `None` if none can be found.
pub fn another_process() -> Option<Lifetime> {
    let own = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    lifetime::find_another(|number| {
        std::fs::read_link(format!("/proc/{number}/ns/mnt")).is_ok_and(|other| other == own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_paths_are_escaped() {
        let mut options = Vec::new();
        push_escaped(&mut options, Path::new("/a,b:c\\d"));
        assert_eq!(options, b"/a\\,b\\:c\\\\d");
    }
}
