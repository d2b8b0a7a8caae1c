//! Identity with which one thread accesses files, for servers that act for their clients' users.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Rights to ask for: the sum of these bits.
pub const READ: i32 = libc::R_OK;
/// Writing.
pub const WRITE: i32 = libc::W_OK;
/// Execution, or the search of a directory.
pub const EXECUTE: i32 = libc::X_OK;

/// Whether the calling thread, with the identity that it assumed, has rights to an open file. A kernel that cannot say
/// (before Linux 5.8) counts as yes: the access itself is checked, too.
pub fn may(file: impl AsFd, rights: i32) -> bool {
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    // SAFETY: an open descriptor, an empty string, and numbers. The C library's function asks about the real user.
    let rc = unsafe { libc::syscall(libc::SYS_faccessat2, file.as_fd().as_raw_fd(), c"".as_ptr(), rights, flags) };
    rc == 0 || matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

/// Gives the calling thread the identity of a user for its accesses to files; other threads keep theirs. Needs root's
/// rights, which the thread keeps for everything else: root can be assumed again.
///
/// # Errors
/// The process has no right to it. Then the identity is undefined, and the thread must not access files for anyone.
pub fn assume(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    /// Changes nothing, and returns the value in force.
    const QUERY: u32 = u32::MAX;
    // SAFETY: the kernel reads that many numbers. The C library's function would change all threads.
    if unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the calls take numbers. They report no errors, hence the queries.
    let (is_uid, is_gid) = unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        let now = |call| libc::syscall(call, QUERY) as u32;
        (now(libc::SYS_setfsuid) == uid, now(libc::SYS_setfsgid) == gid)
    };
    if is_uid && is_gid { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_a_user_and_the_others_are_not() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let path = std::env::temp_dir().join(format!("weft-identity-{}", std::process::id()));
        std::fs::write(&path, "secret").expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("its mode");
        let file = std::fs::File::open(&path).expect("root's");
        assert!(may(&file, READ | WRITE));
        let refused = std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                assume(65534, 65534, &[]).expect("root may");
                let refused = std::fs::read(&path).is_err() && !may(&file, READ);
                assume(0, 0, &[0]).expect("and back");
                refused && std::fs::read(&path).is_ok()
            });
            user.join().expect("no panic")
        });
        let is_readable = std::fs::read(&path).is_ok();
        std::fs::remove_file(&path).expect("it was there");
        assert!(refused && is_readable);
    }
}
