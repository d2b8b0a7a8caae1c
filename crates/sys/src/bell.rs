//! Bells between processes: whoever sleeps hears one end, whoever wakes him rings the other.
//!
//! The ends are sockets and descriptions of their own. Neither process can make the other sleep in a call, as it could where
//! both hold one counter and one of them clears `O_NONBLOCK`; and ringing where nobody lives any more does nothing, where a
//! pipe would end the program by SIGPIPE.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

/// A bell: the end that is readable when it was rung, and the end to [`ring`].
///
/// # Errors
/// Descriptors are used up.
pub fn bell() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Rings; a bell that is full of ringing wakes as well.
pub fn ring(bell: impl AsFd) {
    let _ = rustix::net::send(bell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Forgets that it was rung.
pub fn silence(bell: impl AsFd) {
    let mut room = [0; 256];
    while rustix::net::recv(&bell, &mut room, RecvFlags::DONTWAIT).is_ok_and(|(came, _)| came == room.len()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(bell: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        fds[0].revents().contains(PollFlags::IN)
    }

    #[test]
    fn a_bell_rings_until_it_is_silenced() {
        let (hear, pull) = bell().unwrap();
        silence(&hear);
        assert!(!rings(&hear));
        for _ in 0..100_000 {
            ring(&pull);
        }
        assert!(rings(&hear), "one that is full of ringing rings");
        silence(&hear);
        assert!(!rings(&hear));
        ring(&pull);
        assert!(rings(&hear));
    }

    #[test]
    fn ringing_the_dead_raises_no_signal() {
        let (hear, pull) = bell().unwrap();
        drop(hear);
        // A signal that is blocked waits even where it would be ignored.
        // SAFETY: the sets are ours, and the mask is this thread's, which ends with the test.
        let raised = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            ring(&pull);
            libc::sigpending(&raw mut set);
            libc::sigismember(&raw const set, libc::SIGPIPE)
        };
        assert_eq!(raised, 0);
    }
}
