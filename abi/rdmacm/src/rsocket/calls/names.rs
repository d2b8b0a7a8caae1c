//! Addresses of both ends.

use libc::{c_int, sockaddr, socklen_t};

use crate::errors::{code, errno};
use crate::rsocket::index::{self, Rsocket};

/// Converts the kernel's result for a datagram socket's own UDP socket.
fn kernel(answer: c_int) -> Result<(), c_int> {
    if answer == 0 { Ok(()) } else { Err(errno()) }
}

/// getpeername(2).
pub unsafe extern "C" fn rgetpeername(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    code(index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(stream) => {
            let peer = stream.peer_address()?;
            // SAFETY: the caller's place for an address, of the stated size.
            unsafe { peer.write(addr, addrlen) };
            Ok(())
        }
        // SAFETY: as above.
        Rsocket::Datagram(datagram) => kernel(unsafe { libc::getpeername(datagram.fd(), addr, addrlen) }),
        Rsocket::Interests(_) => Err(libc::EBADF),
    }))
}

/// getsockname(2).
pub unsafe extern "C" fn rgetsockname(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    code(index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(stream) => {
            let own = stream.local_address()?;
            // SAFETY: the caller's place for an address, of the stated size.
            unsafe { own.write(addr, addrlen) };
            Ok(())
        }
        // SAFETY: as above.
        Rsocket::Datagram(datagram) => kernel(unsafe { libc::getsockname(datagram.fd(), addr, addrlen) }),
        Rsocket::Interests(_) => Err(libc::EBADF),
    }))
}
