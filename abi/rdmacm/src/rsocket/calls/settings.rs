//! Options and flags.

use libc::{c_int, c_long, c_void, socklen_t};

use crate::errors::{code, fail};
use crate::rsocket::index::{self, Rsocket};
use crate::rsocket::options::{Options, answer, argument};

/// setsockopt(2), plus the level SOL_RDMA.
pub unsafe extern "C" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: socklen_t,
) -> c_int {
    code(index::socket(socket).and_then(|rsocket| {
        // SAFETY: the caller's value, of the stated length.
        let value = unsafe { argument(optval, optlen)? };
        match rsocket {
            Rsocket::Stream(stream) => stream.set_option(level, optname, value),
            Rsocket::Datagram(datagram) => datagram.set_option(level, optname, value),
            Rsocket::Interests(_) => Err(libc::EBADF),
        }
    }))
}

/// getsockopt(2), plus the level SOL_RDMA.
pub unsafe extern "C" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut socklen_t,
) -> c_int {
    code(index::socket(socket).and_then(|rsocket| {
        if optval.is_null() || optlen.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's place for a value, of the stated size.
        unsafe {
            let room = *optlen as usize;
            let value = match rsocket {
                Rsocket::Stream(stream) => stream.option(level, optname, room)?,
                Rsocket::Datagram(datagram) => datagram.option(level, optname, room)?,
                Rsocket::Interests(_) => return Err(libc::EBADF),
            };
            answer(&value, optval, optlen)
        }
    }))
}

/// fcntl(2), for the flags. In C it takes a variable argument, which is passed like a third one.
pub extern "C" fn rfcntl(socket: c_int, cmd: c_int, arg: c_long) -> c_int {
    let flags = |options: &mut Options| match cmd {
        libc::F_GETFL => Ok(options.file_flags),
        libc::F_SETFL => {
            options.file_flags = arg as c_int;
            Ok(0)
        }
        libc::F_GETFD => Ok(options.descriptor_flags),
        libc::F_SETFD => {
            options.descriptor_flags = arg as c_int;
            Ok(0)
        }
        _ => Err(libc::ENOTSUP),
    };
    let done = index::socket(socket).and_then(|rsocket| match rsocket {
        Rsocket::Stream(stream) => flags(&mut stream.lock().options),
        Rsocket::Datagram(datagram) => flags(&mut datagram.lock().options),
        Rsocket::Interests(_) => Err(libc::EBADF),
    });
    done.unwrap_or_else(fail)
}
