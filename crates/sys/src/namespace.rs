//! Private mount namespaces: what `weft run` needs to show one program other libraries and devices than the rest
//! of the machine sees.
//!
//! Works for root, and for an ordinary user through a user namespace in which the user keeps its own number.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

/// How [`enter_mount_namespace`] got there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    /// With the privilege that the process had.
    Privileged,
    /// Through a user namespace of its own. Privileges end at the next exec, unless the user is number 0.
    UserNamespace,
}

/// Gives the calling process a mount namespace of its own, whose mounts nobody else sees. Mounts that the machine
/// makes later still arrive in it.
///
/// The process must have one thread only. `EPERM` means that neither way is allowed here.
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
    // The kernel lets an ordinary user map its group only after it gave up setgroups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    stop_propagation()
}

/// Tries `attempt` in a child process. Some systems (AppArmor's restriction of user namespaces) let a process into a
/// user namespace and forbid the rest; a process that is in cannot get out again, and would have lost its user.
fn try_in_child(attempt: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the process has one thread (see enter_mount_namespace), so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let errno = match attempt() {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(libc::EPERM),
            };
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(errno) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child just made; the status is ours to fill.
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

/// Holds `path` open without opening it, so that it stays reachable as [`held_path`] once something is mounted over it.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The path under which a held file can be named in another system call.
pub fn held_path(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// Makes `target` show what `source` is: a file over a file, or a directory over a directory.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind(source, target)?)
}

/// As [`bind`] for directories, with everything that is mounted below `source`.
pub fn bind_tree(source: &Path, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind_recursive(source, target)?)
}

/// Mounts an empty memory file system of at most `size` bytes.
pub fn mount_tmpfs(target: &Path, size: usize) -> io::Result<()> {
    let options = CString::new(format!("mode=755,size={size}"))?;
    Ok(rustix::mount::mount("weft", target, "tmpfs", MountFlags::NOSUID, Some(options.as_c_str()))?)
}

/// Mounts, at `target`, the read-only union of `upper` and `lower`: what is in `upper` hides what is in `lower`.
pub fn mount_overlay(upper: &Path, lower: &Path, target: &Path) -> io::Result<()> {
    let mut options = b"lowerdir=".to_vec();
    push_escaped(&mut options, upper);
    options.push(b':');
    push_escaped(&mut options, lower);
    let options = CString::new(options)?;
    Ok(rustix::mount::mount("weft", target, "overlay", MountFlags::RDONLY, Some(options.as_c_str()))?)
}

/// Overlayfs separates its options by commas and its layers by colons; both may occur in a path.
fn push_escaped(options: &mut Vec<u8>, path: &Path) {
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b':' | b'\\') {
            options.push(b'\\');
        }
        options.push(byte);
    }
}

/// Takes the mount at `target` out of sight; what is bound from it elsewhere stays.
pub fn detach(target: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(target, UnmountFlags::DETACH)?)
}

/// A process that sees the same mounts as this one, but is not this one; `None` if there is none that can be told.
pub fn another_process() -> Option<OwnedFd> {
    let own = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    let numbers = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|number| *number != std::process::id())
        .filter(|number| std::fs::read_link(format!("/proc/{number}/ns/mnt")).is_ok_and(|other| other == own))
        .find_map(|number| crate::pidfd::open(number).ok().filter(|process| !crate::pidfd::is_dead(process)))
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
