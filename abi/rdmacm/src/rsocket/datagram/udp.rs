//! The plain UDP socket beside the queue pairs. This module makes system calls directly: a preloaded library that turns
//! the program's sockets into rsockets must not intercept these.

use libc::c_int;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

use crate::rsocket::address::unspecific;

fn errno(error: Errno) -> c_int {
    error.raw_os_error()
}

/// Creates a socket.
pub(super) fn socket(family: c_int) -> Result<OwnedFd, c_int> {
    let family = if family == libc::AF_INET6 { AddressFamily::INET6 } else { AddressFamily::INET };
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(errno)
}

pub(super) fn bind(socket: &OwnedFd, address: SocketAddr) -> Result<(), c_int> {
    rustix::net::bind(socket, &address).map_err(errno)
}

pub(super) fn connect(socket: &OwnedFd, peer: SocketAddr) -> Result<(), c_int> {
    rustix::net::connect(socket, &peer).map_err(errno)
}

fn own(socket: &OwnedFd) -> Result<SocketAddr, c_int> {
    let own = rustix::net::getsockname(socket).map_err(errno)?;
    SocketAddr::try_from(own).map_err(errno)
}

/// Binds the socket to a port, if it has none.
pub(super) fn ensure_port(socket: &OwnedFd) -> Result<(), c_int> {
    let own = own(socket)?;
    if own.port() != 0 {
        return Ok(());
    }
    let any: IpAddr = if own.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    bind(socket, SocketAddr::new(any, 0))
}

/// Returns the source address of messages to `peer`: the socket's own, unless it depends on the route.
pub(super) fn source(socket: &OwnedFd, peer: SocketAddr) -> Result<SocketAddr, c_int> {
    let own_address = own(socket)?;
    if !unspecific(own_address.ip()) {
        return Ok(plain(own_address));
    }
    let family = if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let probe = self::socket(family)?;
    connect(&probe, peer)?;
    let mut found = plain(own(&probe)?);
    found.set_port(own_address.port());
    Ok(found)
}

/// Returns an address without the parts that vary between messages, with a mapped IPv4 address in IPv4 form.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        },
        v4 => v4,
    }
}

/// Sends a packet; EAGAIN if the socket's buffer is full.
pub(super) fn send(socket: &OwnedFd, packet: &[u8], to: SocketAddr) -> Result<(), c_int> {
    let to = match (own(socket)?, to) {
        (SocketAddr::V6(_), SocketAddr::V4(v4)) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        (_, to) => to,
    };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendto(socket, packet, flags, &to).map(drop).map_err(errno)
}

/// Returns the next packet; `None` if there is none.
pub(super) fn receive(socket: &OwnedFd, packet: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let (bytes, _, from) = rustix::net::recvfrom(socket, packet, RecvFlags::DONTWAIT).ok()?;
    Some((bytes, plain(SocketAddr::try_from(from?).ok()?)))
}
