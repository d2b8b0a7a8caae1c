//! Stream sockets, over RDMA or the system's own, each with a table of calls.

use std::io;
use std::os::fd::RawFd;

use libc::{c_int, c_void, pollfd, sockaddr, socklen_t, ssize_t};

use super::SockAddr;
use super::calls::RsocketCalls;
use crate::verbs::check;

/// The calls of one kind of socket.
#[derive(Clone, Copy)]
pub struct SocketCalls {
    socket: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    shutdown: unsafe extern "C" fn(c_int, c_int) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    recv: unsafe extern "C" fn(c_int, *mut c_void, usize, c_int) -> ssize_t,
    send: unsafe extern "C" fn(c_int, *const c_void, usize, c_int) -> ssize_t,
    poll: unsafe extern "C" fn(*mut pollfd, libc::nfds_t, c_int) -> c_int,
    fcntl: unsafe extern "C" fn(c_int, c_int, ...) -> c_int,
    setsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    getsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    /// Whether the sockets use RDMA.
    pub rdma: bool,
}

impl SocketCalls {
    /// The system's TCP sockets.
    pub fn system() -> SocketCalls {
        SocketCalls {
            socket: libc::socket,
            bind: libc::bind,
            listen: libc::listen,
            accept: libc::accept,
            connect: libc::connect,
            shutdown: libc::shutdown,
            close: libc::close,
            recv: libc::recv,
            send: libc::send,
            poll: libc::poll,
            fcntl: libc::fcntl,
            setsockopt: libc::setsockopt,
            getsockopt: libc::getsockopt,
            rdma: false,
        }
    }

    pub(super) fn rsockets(calls: &RsocketCalls) -> SocketCalls {
        SocketCalls {
            socket: calls.rsocket,
            bind: calls.rbind,
            listen: calls.rlisten,
            accept: calls.raccept,
            connect: calls.rconnect,
            shutdown: calls.rshutdown,
            close: calls.rclose,
            recv: calls.rrecv,
            send: calls.rsend,
            poll: calls.rpoll,
            fcntl: calls.rfcntl,
            setsockopt: calls.rsetsockopt,
            getsockopt: calls.rgetsockopt,
            rdma: true,
        }
    }
}

/// A stream socket, closed when dropped.
pub struct Socket {
    calls: SocketCalls,
    fd: RawFd,
}

/// Converts a call's return value: a count, or -1 with errno set.
fn counted(n: ssize_t) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

impl Socket {
    /// Creates a socket for addresses of this family.
    pub fn new(calls: SocketCalls, family: c_int) -> io::Result<Socket> {
        // SAFETY: the call takes numbers.
        let fd = unsafe { (calls.socket)(family, libc::SOCK_STREAM, 0) };
        counted(fd as ssize_t)?;
        Ok(Socket { calls, fd })
    }

    /// The calls of the socket.
    pub fn calls(&self) -> SocketCalls {
        self.calls
    }

    /// `bind`.
    pub fn bind(&self, addr: &SockAddr) -> io::Result<()> {
        // SAFETY: the address is alive.
        check(unsafe { (self.calls.bind)(self.fd, addr.ptr(), addr.len()) })
    }

    /// `listen`.
    pub fn listen(&self, backlog: c_int) -> io::Result<()> {
        // SAFETY: the call takes numbers.
        check(unsafe { (self.calls.listen)(self.fd, backlog) })
    }

    /// `accept`.
    pub fn accept(&self) -> io::Result<Socket> {
        // SAFETY: null pointers mean that the caller does not want the peer's address.
        let fd = unsafe { (self.calls.accept)(self.fd, std::ptr::null_mut(), std::ptr::null_mut()) };
        counted(fd as ssize_t)?;
        Ok(Socket { calls: self.calls, fd })
    }

    /// `connect`.
    pub fn connect(&self, addr: &SockAddr) -> io::Result<()> {
        // SAFETY: the address is alive.
        check(unsafe { (self.calls.connect)(self.fd, addr.ptr(), addr.len()) })
    }

    /// `shutdown`, in both directions.
    pub fn shutdown(&self) -> io::Result<()> {
        // SAFETY: the call takes numbers.
        check(unsafe { (self.calls.shutdown)(self.fd, libc::SHUT_RDWR) })
    }

    /// `send`.
    pub fn send(&self, bytes: &[u8], flags: c_int) -> io::Result<usize> {
        // SAFETY: the bytes are readable.
        counted(unsafe { (self.calls.send)(self.fd, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// `recv`.
    pub fn recv(&self, into: &mut [u8], flags: c_int) -> io::Result<usize> {
        // SAFETY: the buffer has room for this many bytes.
        counted(unsafe { (self.calls.recv)(self.fd, into.as_mut_ptr().cast(), into.len(), flags) })
    }

    /// Waits for `POLLIN` or `POLLOUT`, in rounds of `timeout_ms` (-1: a single one without limit). Returns which of
    /// `POLLERR` and `POLLHUP` came with it.
    pub fn wait(&self, events: i16, timeout_ms: c_int) -> io::Result<i16> {
        let mut entry = pollfd { fd: self.fd, events, revents: 0 };
        loop {
            // SAFETY: one entry, as the count says.
            match unsafe { (self.calls.poll)(&mut entry, 1, timeout_ms) } {
                0 => {}
                1 => return Ok(entry.revents & (libc::POLLERR | libc::POLLHUP)),
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }

    /// Makes the socket non-blocking.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        // SAFETY: F_SETFL takes a number.
        check(unsafe { (self.calls.fcntl)(self.fd, libc::F_SETFL, libc::O_NONBLOCK) })
    }

    /// `setsockopt` with an integer.
    pub fn set_option(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        self.set_option_bytes(level, name, &value.to_ne_bytes())
    }

    /// `setsockopt` with any bytes.
    pub fn set_option_bytes(&self, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
        // SAFETY: this many bytes are readable.
        check(unsafe { (self.calls.setsockopt)(self.fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) })
    }

    /// `getsockopt` of an integer.
    pub fn option(&self, level: c_int, name: c_int) -> io::Result<c_int> {
        let (mut value, mut len) = (0 as c_int, size_of::<c_int>() as socklen_t);
        // SAFETY: there is room for an integer, as the length says.
        check(unsafe { (self.calls.getsockopt)(self.fd, level, name, (&raw mut value).cast(), &mut len) })?;
        Ok(value)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: this object owns the descriptor and closes it once.
        unsafe { (self.calls.close)(self.fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdmacm::lookup;

    #[test]
    fn the_systems_sockets_talk() {
        let listener = Socket::new(SocketCalls::system(), libc::AF_INET).unwrap();
        listener.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).unwrap();
        assert_ne!(listener.option(libc::SOL_SOCKET, libc::SO_REUSEADDR).unwrap(), 0);
        listener.bind(&lookup(Some("127.0.0.1"), Some("0"), 0).unwrap()).unwrap();
        listener.listen(1).unwrap();
        listener.set_nonblocking().unwrap();
        assert_eq!(listener.accept().err().unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
