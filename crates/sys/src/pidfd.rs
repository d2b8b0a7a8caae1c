//! Process descriptors: unlike a PID, one never comes to mean another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

/// Opens a descriptor of a process.
///
/// # Errors
/// No process has this PID; the kernel is older than 5.3.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Whether the process is dead.
pub fn is_dead(process: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Returns the PID in this process's PID namespace; `None` if the process has none there, or is dead.
pub fn number(process: impl AsFd) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_fd().as_raw_fd())).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_until_it_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = open(child.id()).unwrap();
        assert_eq!(number(&process), Some(child.id() as i32));
        assert!(!is_dead(&process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_dead(&process));
        assert_eq!(number(&process), None);
    }
}
