//! Non-blocking TCP sockets: connecting, listening, accepting, and the first bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect, getpeername, getsockname,
    ipproto, listen, recv, send, socket_with, sockopt,
};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Begins to connect. The socket becomes writable when it is connected, or has failed ([`take_error`]). If another socket
/// keeps the local port, the kernel chooses one.
///
/// # Errors
/// The kernel's: a route or an address is missing, or descriptors.
pub fn start_connect(local: SocketAddr, peer: SocketAddr) -> io::Result<OwnedFd> {
    match connect_from(local, peer) {
        Err(error) if is_port_taken(&error) => {
            let mut any_port = local;
            // A link-local address keeps its scope.
            any_port.set_port(0);
            connect_from(any_port, peer)
        }
        result => result,
    }
}

fn is_port_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable | io::ErrorKind::PermissionDenied)
}

fn connect_from(local: SocketAddr, peer: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket_with(family_of(&local), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &local)?;
    match connect(&fd, &peer) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno.into()),
    }
}

/// Listens on an address.
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES` as bind(2) has them.
pub fn listen_on(addr: SocketAddr, backlog: i32) -> io::Result<OwnedFd> {
    let fd = socket_with(family_of(&addr), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &addr)?;
    listen(&fd, backlog)?;
    Ok(fd)
}

/// Accepts a connection: its socket, its local and its peer's address.
///
/// # Errors
/// `EAGAIN` if none waits; others as accept(2) has them.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddr, SocketAddr)> {
    let fd = accept_with(listener, FLAGS)?;
    let peer = getpeername(&fd)?.ok_or(io::ErrorKind::NotConnected)?;
    let (local, peer) = (local_address(&fd)?, SocketAddr::try_from(peer)?);
    Ok((fd, local, peer))
}

/// Returns a socket's own address.
///
/// # Errors
/// The socket is not a TCP socket.
pub fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(fd)?)?)
}

/// Takes the error with which connecting failed; `Ok` if it succeeded.
///
/// # Errors
/// That error.
pub fn take_error(fd: impl AsFd) -> io::Result<()> {
    sockopt::socket_error(fd)?.map_err(io::Error::from)
}

/// Sends bytes; returns how many the socket took.
///
/// # Errors
/// As send(2); never raises SIGPIPE.
pub fn send_bytes(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Receives bytes; zero at the end of the peer's stream.
///
/// # Errors
/// `EAGAIN` if none wait; others as recv(2) has them.
pub fn receive(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(fd, buffer, RecvFlags::DONTWAIT)?.0)
}

fn family_of(addr: &SocketAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn localhost(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    fn ready(fd: &OwnedFd, flags: rustix::event::PollFlags) {
        let mut fds = [rustix::event::PollFd::new(fd, flags)];
        rustix::event::poll(&mut fds, None).unwrap();
    }

    #[test]
    fn two_ends_meet() {
        let listener = listen_on(localhost(0), 8).unwrap();
        let at = local_address(&listener).unwrap();
        assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let client = start_connect(localhost(0), at).unwrap();
        ready(&client, rustix::event::PollFlags::OUT);
        take_error(&client).unwrap();
        ready(&listener, rustix::event::PollFlags::IN);
        let (server, local, peer) = accept(&listener).unwrap();
        assert_eq!((local, peer), (at, local_address(&client).unwrap()));
        assert_eq!(send_bytes(&client, b"hello").unwrap(), 5);
        ready(&server, rustix::event::PollFlags::IN);
        let mut buffer = [0; 8];
        assert_eq!(receive(&server, &mut buffer).unwrap(), 5);
        drop(client);
        ready(&server, rustix::event::PollFlags::IN);
        assert_eq!(receive(&server, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_taken_local_port_is_replaced_and_a_refusal_is_told() {
        let taken = listen_on(localhost(0), 8).unwrap();
        let at = local_address(&taken).unwrap();
        let other = listen_on(localhost(0), 8).unwrap();
        let client = start_connect(at, local_address(&other).unwrap()).unwrap();
        assert_ne!(local_address(&client).unwrap(), at);
        let closed = local_address(&other).unwrap();
        drop(other);
        let refused = start_connect(localhost(0), closed).and_then(|fd| {
            ready(&fd, rustix::event::PollFlags::OUT);
            take_error(&fd)
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
