//! What `rsetsockopt` and `rgetsockopt` reach: the settings of one rsocket.

use libc::{SOL_SOCKET, c_int, c_void, socklen_t};

use super::proto::config::Config;
use super::proto::connect_data::supported;
use super::proto::outbound::SEND_LOW_WATER;

/// Level of the options that sockets do not have.
pub(crate) const SOL_RDMA: c_int = 0x10000;
pub(crate) const RDMA_SQSIZE: c_int = 0;
pub(crate) const RDMA_RQSIZE: c_int = 1;
pub(crate) const RDMA_INLINE: c_int = 2;
pub(crate) const RDMA_IOMAPSIZE: c_int = 3;
pub(crate) const RDMA_ROUTE: c_int = 4;

/// Largest queue that may be asked for.
pub(crate) const QUEUE_MAX: u32 = 0xfffe;
/// Smallest queue of a stream.
pub(crate) const QUEUE_MIN: u16 = 16;
/// Largest buffer, in bytes.
const BUFFER_BYTES_MAX: u32 = 1 << 30;
/// Longest value of RDMA_ROUTE.
const ROUTE_BYTES_MAX: usize = 4096;
/// Seconds before the first keep-alive where the kernel does not say.
const KEEPALIVE_S_DEFAULT: u32 = 7200;

/// Settings of an rsocket. Those of a listener are its connections' too.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) sq_size: u16,
    pub(crate) rq_size: u16,
    pub(crate) inline_bytes: u32,
    pub(crate) iomap_entries: u16,
    pub(crate) send_bytes: u32,
    pub(crate) receive_bytes: u32,
    /// What `rfcntl` knows as F_GETFL.
    pub(crate) file_flags: c_int,
    /// What `rfcntl` knows as F_GETFD.
    pub(crate) descriptor_flags: c_int,
    pub(crate) reuse_address: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_s: u32,
    pub(crate) oob_inline: bool,
    pub(crate) linger: bool,
    pub(crate) no_delay: bool,
    pub(crate) v6_only: bool,
    pub(crate) tos: c_int,
    /// The path to take instead of a resolved one.
    pub(crate) route: Option<Vec<u8>>,
}

impl Options {
    /// As the administrator has it.
    pub(crate) fn new(config: &Config) -> Options {
        Options {
            sq_size: config.sqsize_default,
            rq_size: config.rqsize_default,
            inline_bytes: config.inline_default.into(),
            iomap_entries: config.iomap_size,
            send_bytes: config.wmem_default.min(BUFFER_BYTES_MAX),
            receive_bytes: config.mem_default.min(BUFFER_BYTES_MAX),
            file_flags: 0,
            descriptor_flags: 0,
            reuse_address: false,
            keep_alive: false,
            keep_alive_s: 0,
            oob_inline: false,
            linger: true,
            no_delay: false,
            v6_only: false,
            tos: 0,
            route: None,
        }
    }

    /// Whether calls return instead of waiting.
    pub(crate) fn nonblocking(&self) -> bool {
        self.file_flags & libc::O_NONBLOCK != 0
    }

    /// SO_RCVBUF: twice what was asked for, as the kernel does.
    pub(crate) fn set_receive_bytes(&mut self, asked: u32) {
        self.receive_bytes = doubled(asked).max(2);
    }

    /// SO_SNDBUF: twice what was asked for, and enough to be writable at all.
    pub(crate) fn set_send_bytes(&mut self, asked: u32) {
        let bytes = doubled(asked);
        self.send_bytes = if bytes < SEND_LOW_WATER { SEND_LOW_WATER * 2 } else { bytes };
    }

    /// An option of [`SOL_RDMA`].
    pub(crate) fn set_rdma(&mut self, name: c_int, value: &[u8]) -> Result<(), c_int> {
        if name == RDMA_ROUTE {
            if value.len() > ROUTE_BYTES_MAX {
                return Err(libc::EINVAL);
            }
            self.route = Some(value.to_vec());
            return Ok(());
        }
        let number = number(value)?;
        let queue = number.cast_unsigned().min(QUEUE_MAX);
        match name {
            RDMA_SQSIZE => self.sq_size = queue as u16,
            RDMA_RQSIZE => self.rq_size = queue as u16,
            RDMA_INLINE => self.inline_bytes = queue,
            RDMA_IOMAPSIZE => self.iomap_entries = supported(number.clamp(0, i32::from(u16::MAX)) as u16),
            _ => return Err(libc::ENOTSUP),
        }
        Ok(())
    }

    /// The seconds between keep-alives, the kernel's if none are set.
    pub(crate) fn keep_alive_interval_s(&mut self) -> u32 {
        if self.keep_alive_s == 0 {
            let kernel = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time");
            self.keep_alive_s =
                kernel.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(KEEPALIVE_S_DEFAULT).max(1);
        }
        self.keep_alive_s
    }

    /// An option that every kind of rsocket answers in the same way.
    pub(crate) fn value(&self, level: c_int, name: c_int) -> Option<c_int> {
        let value = match (level, name) {
            (SOL_SOCKET, libc::SO_REUSEADDR) => self.reuse_address.into(),
            (SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive.into(),
            (SOL_SOCKET, libc::SO_OOBINLINE) => self.oob_inline.into(),
            (SOL_SOCKET, libc::SO_RCVBUF) => self.receive_bytes.cast_signed(),
            (SOL_SOCKET, libc::SO_SNDBUF) => self.send_bytes.cast_signed(),
            (SOL_SOCKET, libc::SO_BROADCAST) => 0,
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION | libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => 1,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.keep_alive_s.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.no_delay.into(),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.v6_only.into(),
            (SOL_RDMA, RDMA_SQSIZE) => self.sq_size.into(),
            (SOL_RDMA, RDMA_RQSIZE) => self.rq_size.into(),
            (SOL_RDMA, RDMA_INLINE) => self.inline_bytes.cast_signed(),
            (SOL_RDMA, RDMA_IOMAPSIZE) => self.iomap_entries.into(),
            _ => return None,
        };
        Some(value)
    }
}

fn doubled(asked: u32) -> u32 {
    asked.saturating_mul(2).min(BUFFER_BYTES_MAX)
}

/// The number that an option's value is.
pub(crate) fn number(value: &[u8]) -> Result<c_int, c_int> {
    value.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)).ok_or(libc::EINVAL)
}

/// The bytes of an option's value.
///
/// # Safety
/// `value` is null or has `length` bytes.
pub(crate) unsafe fn argument<'a>(value: *const c_void, length: socklen_t) -> Result<&'a [u8], c_int> {
    if value.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(value.cast(), length as usize) })
}

/// Where an option's value goes, cut to the room that is there.
///
/// # Safety
/// `length` is null or a number; `value` is null or has as many bytes.
pub(crate) unsafe fn answer(bytes: &[u8], value: *mut c_void, length: *mut socklen_t) -> Result<(), c_int> {
    if value.is_null() || length.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: as the caller says.
    unsafe {
        let room = bytes.len().min(*length as usize);
        value.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), room);
        *length = room as socklen_t;
    }
    Ok(())
}
