//! Unix sockets of the control path: abstract SOCK_SEQPACKET sockets, which Linux scopes to the network namespace as it
//! scopes RDMA devices. SCM_RIGHTS passes descriptors and SO_PEERCRED names callers. Everything is close-on-exec and
//! never raises SIGPIPE, because it runs inside programs that are not ours.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::sockopt;

/// Maximum number of descriptors in one message: the kernel's own bound (SCM_MAX_FD).
pub const MESSAGE_FDS_MAX: usize = 253;

/// Whether a call may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Sleep until the call can succeed.
    Block,
    /// Return `WouldBlock` instead of sleeping.
    No,
}

/// Credentials of the peer, as the kernel recorded them when the connection was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// PID, 0 if it is not visible from this PID namespace.
    pub pid: u32,
    /// Effective user, translated into this user namespace.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the buffer; 0 is the end of the connection.
    pub len: usize,
    /// The message was longer than the buffer; the rest is lost.
    pub truncated: bool,
    /// Descriptors attached to it, all close-on-exec.
    pub fds: Vec<OwnedFd>,
}

fn seqpacket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)?)
}

/// Creates a SOCK_SEQPACKET socket. Abstract names that it is bound or connected to are those of the network namespace in
/// which it was created, wherever it goes.
pub fn socket() -> io::Result<OwnedFd> {
    seqpacket(SocketFlags::empty())
}

/// Listens on the abstract name; `AddrInUse` means that another socket already does. The listener does not block.
pub fn listen_abstract(name: &str, backlog: i32) -> io::Result<OwnedFd> {
    listen_with(socket()?, name, backlog)
}

/// Listens on the abstract name with this new socket.
pub fn listen_with(fd: OwnedFd, name: &str, backlog: i32) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    rustix::net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Connects to the abstract name; `ConnectionRefused` means that no process listens. The returned socket blocks.
pub fn connect_abstract(name: &str) -> io::Result<OwnedFd> {
    connect_with(socket()?, name)
}

/// Connects this new socket to the abstract name.
pub fn connect_with(fd: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) => return Ok(fd),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Accepts a waiting connection; the returned socket does not block.
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Creates two connected SOCK_SEQPACKET sockets; they block.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Creates a non-blocking stream pair. Data written to one side waits in the other for as long as any process holds
/// that side, even after the writer is gone: a process can park descriptors in it.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Shuts down sending; the other end reads the data sent so far, and then the end.
pub fn end_sending(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, rustix::net::Shutdown::Write)?)
}

/// Returns the credentials of the peer (SO_PEERCRED).
pub fn peer_credentials(fd: impl AsFd) -> io::Result<Credentials> {
    let mut cred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `cred` and `len` are valid for writing, `len` is the size of `cred`.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: u32::try_from(cred.pid).unwrap_or(0), uid: cred.uid, gid: cred.gid })
}

/// Returns a pidfd of the process that made the connection (SO_PEERPIDFD of Linux 6.5, else pidfd_open). It is readable
/// once that process died, even if a child of it still holds the connection open. `None` if the kernel supports
/// neither.
pub fn peer_pidfd(fd: impl AsFd) -> Option<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut raw: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `raw` and `len` are valid for writing, `len` is the size of `raw`.
    let rc = unsafe {
        libc::getsockopt(fd.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut raw).cast(), &raw mut len)
    };
    if rc == 0 && raw >= 0 {
        // SAFETY: the kernel just returned this descriptor to us, so we own it.
        return Some(unsafe { OwnedFd::from_raw_fd(raw) });
    }
    let pid = i32::try_from(peer_credentials(fd).ok()?.pid).ok().and_then(rustix::process::Pid::from_raw)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Sends one message with its descriptors, at most [`MESSAGE_FDS_MAX`].
pub fn send(fd: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>], wait: Wait) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut flags = SendFlags::NOSIGNAL;
    if wait == Wait::No {
        flags |= SendFlags::DONTWAIT;
    }
    loop {
        match rustix::net::sendmsg(&fd, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => continue,
            result => return Ok(result?),
        }
    }
}

/// Receives one message and at most `fds_max` descriptors; the kernel closes the excess. With `fds_max` 0 no foreign
/// descriptor ever enters this process.
pub fn recv(fd: impl AsFd, buffer: &mut [u8], fds_max: usize, wait: Wait) -> io::Result<Received> {
    recv_with(fd.as_fd(), buffer, fds_max, wait, RecvFlags::empty())
}

/// As [`recv`], but leaves the message in the queue; the descriptors are duplicates. With [`set_peek_offset`]
/// successive calls walk along the queue.
pub fn peek(fd: impl AsFd, buffer: &mut [u8], fds_max: usize, wait: Wait) -> io::Result<Received> {
    recv_with(fd.as_fd(), buffer, fds_max, wait, RecvFlags::PEEK)
}

/// Sets the offset at which the next [`peek`] starts (SO_PEEK_OFF); each peek then advances it.
pub fn set_peek_offset(fd: impl AsFd, offset: i32) -> io::Result<()> {
    sockopt::set_int(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, offset)
}

fn recv_with(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds_max: usize,
    wait: Wait,
    extra: RecvFlags,
) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FDS_MAX))];
    // Limited to the caller's maximum, so that the kernel drops the rest before it enters this process.
    let room = if fds_max == 0 { 0 } else { rustix::cmsg_space!(ScmRights(fds_max.min(MESSAGE_FDS_MAX))) };
    let mut control = RecvAncillaryBuffer::new(space.get_mut(..room).unwrap_or_default());
    let mut flags = RecvFlags::CMSG_CLOEXEC | extra;
    if wait == Wait::No {
        flags |= RecvFlags::DONTWAIT;
    }
    let result = loop {
        match rustix::net::recvmsg(fd, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => continue,
            result => break result?,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    // Padding of the control buffer may have admitted one more than requested.
    fds.truncate(fds_max);
    Ok(Received { len: result.bytes, truncated: result.flags.contains(ReturnFlags::TRUNC), fds })
}

/// Limits how long a blocking receive sleeps, then `WouldBlock`. Zero means no limit.
pub fn set_receive_timeout(fd: impl AsFd, timeout: std::time::Duration) -> io::Result<()> {
    let value = if timeout.is_zero() { None } else { Some(timeout) };
    Ok(rustix::net::sockopt::set_socket_timeout(fd, rustix::net::sockopt::Timeout::Recv, value)?)
}

/// Sets the send buffer: to this size if the kernel permits, else to the limit for unprivileged users.
pub fn set_send_buffer(fd: impl AsFd, bytes: i32) {
    if sockopt::set_int(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes).is_err() {
        let _ = sockopt::set_int(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
    }
}

/// Limits how long a blocking send sleeps, then `WouldBlock`. Zero means no limit.
pub fn set_send_timeout(fd: impl AsFd, timeout: std::time::Duration) -> io::Result<()> {
    let value = if timeout.is_zero() { None } else { Some(timeout) };
    Ok(rustix::net::sockopt::set_socket_timeout(fd, rustix::net::sockopt::Timeout::Send, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_travel_and_stay_parked_after_the_sender_died() {
        let (a, b) = stream_pair().unwrap();
        let (x, y) = pair().unwrap();
        send(&a, b"one", &[x.as_fd()], Wait::No).unwrap();
        send(&a, b"two", &[y.as_fd()], Wait::No).unwrap();
        drop((a, x, y));
        let mut buffer = [0; 3];
        for _ in 0..2 {
            set_peek_offset(&b, 0).unwrap();
            let first = peek(&b, &mut buffer, 4, Wait::No).unwrap();
            assert_eq!((&buffer, first.fds.len()), (b"one", 1));
            let second = peek(&b, &mut buffer, 4, Wait::No).unwrap();
            assert_eq!((&buffer, second.fds.len()), (b"two", 1));
            // They are still connected to each other.
            send(&first.fds[0], b"hi", &[], Wait::No).unwrap();
            assert_eq!(recv(&second.fds[0], &mut buffer, 0, Wait::No).unwrap().len, 2);
        }
    }

    #[test]
    fn unwanted_descriptors_never_arrive() {
        let (a, b) = pair().unwrap();
        let (x, _y) = pair().unwrap();
        let mut buffer = [0; 8];
        send(&a, b"x", &[x.as_fd(), x.as_fd(), x.as_fd()], Wait::No).unwrap();
        assert_eq!(recv(&b, &mut buffer, 1, Wait::No).unwrap().fds.len(), 1);
        send(&a, b"x", &[x.as_fd()], Wait::No).unwrap();
        assert_eq!(recv(&b, &mut buffer, 0, Wait::No).unwrap().fds.len(), 0);
    }

    #[test]
    fn credentials_are_our_own_on_a_pair() {
        let (a, _b) = pair().unwrap();
        let cred = peer_credentials(&a).unwrap();
        assert_eq!(cred.uid, rustix::process::geteuid().as_raw());
        assert_eq!(cred.pid, std::process::id());
        assert!(peer_pidfd(&a).is_some());
    }
}
