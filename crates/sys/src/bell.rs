//! Bells between processes: a sleeping process waits on one end, and a process that wants to wake it rings the other.
//!
//! The ends are separate sockets with separate file descriptions. Neither process can make the other sleep in a call,
//! as it could if both held one counter and one of them cleared `O_NONBLOCK`; and ringing a dead process does nothing,
//! where a pipe would end the program by SIGPIPE.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Read attempts per [`silence`]. An honest bell holds a few bytes; a process that rings without end must not keep this
/// one busy for ever.
const ROUNDS_MAX: u32 = 4;

/// Creates a bell: returns the end that becomes readable when the bell rings, and the end to [`ring`].
///
/// # Errors
/// No descriptors are left.
pub fn bell() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Rings. A bell whose buffer is full of rings wakes the peer as well.
pub fn ring(bell: impl AsFd) {
    let _ = rustix::net::send(bell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// State of a bell after [`silence`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a bell that nobody can ring is readable for ever: it is to be watched no longer"]
pub enum Heard {
    /// The bell may have been rung, and can ring again.
    Rung,
    /// The peer has closed its end, or rings without pause.
    Gone,
}

/// Consumes all rings.
pub fn silence(bell: impl AsFd) -> Heard {
    let mut room = [0; 4096];
    for _ in 0..ROUNDS_MAX {
        match rustix::net::recv(&bell, &mut room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Heard::Gone,
            Ok((came, _)) if came == room.len() => {}
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => return Heard::Rung,
            Err(_) => return Heard::Gone,
        }
    }
    Heard::Gone
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
        assert_eq!(silence(&hear), Heard::Rung);
        assert!(!rings(&hear));
        for _ in 0..100_000 {
            ring(&pull);
        }
        assert!(rings(&hear), "one that is full of ringing rings");
        assert_eq!(silence(&hear), Heard::Rung);
        assert!(!rings(&hear));
        ring(&pull);
        assert!(rings(&hear));
    }

    #[test]
    fn who_goes_or_rings_without_end_is_not_waited_for() {
        let (hear, pull) = bell().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&pull, 1 << 20).unwrap();
        while rustix::net::send(&pull, &[1; 16384], SendFlags::DONTWAIT).is_ok() {}
        assert_eq!(silence(&hear), Heard::Gone);
        let (hear, pull) = bell().unwrap();
        ring(&pull);
        drop(pull);
        assert_eq!(silence(&hear), Heard::Rung);
        assert_eq!(silence(&hear), Heard::Gone);
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
