//! Creating, connecting and closing rsockets.

use libc::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, c_int, sockaddr, socklen_t};
use weft_abi_types::AF_IB;

use crate::errors::{code, fail};
use crate::rsocket::address::Address;
use crate::rsocket::datagram::Datagram;
use crate::rsocket::index::{self, Rsocket};
use crate::rsocket::options::Options;
use crate::rsocket::proto::state::Direction;
use crate::rsocket::settings;
use crate::rsocket::stream::Stream;

/// socket(2); ENODEV without devices.
pub extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    open(domain, kind, protocol).unwrap_or_else(fail)
}

fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, c_int> {
    let base = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let known = match base {
        SOCK_STREAM => [AF_INET, AF_INET6, AF_IB].contains(&domain) && [0, IPPROTO_TCP].contains(&protocol),
        SOCK_DGRAM => [AF_INET, AF_INET6].contains(&domain) && [0, IPPROTO_UDP].contains(&protocol),
        _ => false,
    };
    if !known {
        return Err(libc::ENOTSUP);
    }
    let mut options = Options::new(settings());
    options.file_flags = if kind & libc::SOCK_NONBLOCK != 0 { libc::O_NONBLOCK } else { 0 };
    options.descriptor_flags = if kind & libc::SOCK_CLOEXEC != 0 { libc::FD_CLOEXEC } else { 0 };
    if base == SOCK_STREAM {
        let stream = Stream::new(domain, options)?;
        let fd = stream.fd();
        index::insert(fd, Rsocket::Stream(stream));
        Ok(fd)
    } else {
        let datagram = Datagram::new(domain, options)?;
        let fd = datagram.fd();
        index::insert(fd, Rsocket::Datagram(datagram));
        Ok(fd)
    }
}

/// bind(2).
pub unsafe extern "C" fn rbind(socket: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    let bound = index::socket(socket).and_then(|rsocket| {
        // SAFETY: the caller's address, of the stated length.
        let address = unsafe { Address::read(addr, addrlen)? };
        match rsocket {
            Rsocket::Stream(stream) => stream.bind(&address),
            Rsocket::Datagram(datagram) => datagram.bind(address.ip().ok_or(libc::EAFNOSUPPORT)?),
            Rsocket::Interests(_) => Err(libc::EBADF),
        }
    });
    code(bound)
}

/// listen(2).
pub extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    code(index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(stream) => stream.listen(backlog),
        _ => Err(libc::EOPNOTSUPP),
    }))
}

/// accept(2).
pub unsafe extern "C" fn raccept(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    let accepted = index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(listener) => listener.accept(),
        _ => Err(libc::EOPNOTSUPP),
    });
    match accepted {
        Ok(stream) => {
            if let Ok(peer) = stream.peer_address()
                && !addr.is_null()
            {
                // SAFETY: the caller's place for an address, of the stated size.
                unsafe { peer.write(addr, addrlen) };
            }
            let fd = stream.fd();
            index::insert(fd, Rsocket::Stream(stream));
            fd
        }
        Err(errno) => fail(errno),
    }
}

/// connect(2).
pub unsafe extern "C" fn rconnect(socket: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    let connected = index::socket(socket).and_then(|rsocket| {
        // SAFETY: the caller's address, of the stated length.
        let address = unsafe { Address::read(addr, addrlen)? };
        match rsocket {
            Rsocket::Stream(stream) => stream.connect(&address),
            Rsocket::Datagram(datagram) => datagram.connect(address.ip().ok_or(libc::EAFNOSUPPORT)?),
            Rsocket::Interests(_) => Err(libc::EBADF),
        }
    });
    code(connected)
}

/// shutdown(2); waits until the peer has received all data.
pub extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    let direction = match how {
        libc::SHUT_RD => Direction::Read,
        libc::SHUT_WR => Direction::Write,
        libc::SHUT_RDWR => Direction::Both,
        _ => return fail(libc::EINVAL),
    };
    code(index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(stream) => stream.shutdown(direction),
        _ => Err(libc::EOPNOTSUPP),
    }))
}

/// close(2).
pub extern "C" fn rclose(socket: c_int) -> c_int {
    match index::remove(socket) {
        Some(Rsocket::Stream(stream)) => stream.close(),
        Some(Rsocket::Datagram(datagram)) => datagram.close(),
        Some(Rsocket::Interests(interests)) => interests.close(),
        None => return fail(libc::EBADF),
    }
    0
}
