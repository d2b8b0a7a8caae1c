//! Options of datagram sockets: the kernel's options are set on the UDP socket, the rest are handled here.

use libc::{SOL_SOCKET, c_int, socklen_t};

use super::Datagram;
use crate::rsocket::options::{SOL_RDMA, number};

impl Datagram {
    /// `rsetsockopt`.
    pub(crate) fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<(), c_int> {
        let mut core = self.lock();
        if level == SOL_RDMA {
            return if core.started { Err(libc::EINVAL) } else { core.options.set_rdma(name, value) };
        }
        // SAFETY: our socket, and a value of the length given.
        let set = unsafe { libc::setsockopt(self.fd(), level, name, value.as_ptr().cast(), value.len() as socklen_t) };
        if set != 0 {
            return Err(crate::errors::errno());
        }
        match (level, name) {
            (SOL_SOCKET, libc::SO_RCVBUF) if !core.started => {
                core.options.set_receive_bytes(number(value)?.cast_unsigned());
            }
            (SOL_SOCKET, libc::SO_SNDBUF) if !core.started => {
                core.options.set_send_bytes(number(value)?.cast_unsigned());
            }
            _ => {}
        }
        Ok(())
    }

    /// `rgetsockopt`: returns the bytes of a value.
    pub(crate) fn option(&self, level: c_int, name: c_int, room: usize) -> Result<Vec<u8>, c_int> {
        let ours = level == SOL_RDMA || level == SOL_SOCKET && matches!(name, libc::SO_RCVBUF | libc::SO_SNDBUF);
        if ours {
            let value = self.lock().options.value(level, name);
            return value.map(|value| value.to_ne_bytes().to_vec()).ok_or(libc::ENOTSUP);
        }
        let mut value = vec![0; room.min(VALUE_BYTES_MAX)];
        let mut length = value.len() as socklen_t;
        // SAFETY: our socket, and room of the length given.
        let got = unsafe { libc::getsockopt(self.fd(), level, name, value.as_mut_ptr().cast(), &mut length) };
        if got != 0 {
            return Err(crate::errors::errno());
        }
        value.truncate(length as usize);
        Ok(value)
    }
}

/// Maximum length of a kernel option's value.
const VALUE_BYTES_MAX: usize = 4096;
