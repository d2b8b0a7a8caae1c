//! The settings of one rsocket, for `rsetsockopt` and `rgetsockopt`.

use libc::{SOL_SOCKET, c_int, c_void, socklen_t};

use super::proto::config::Config;
use super::proto::connect_data::supported;
use super::proto::outbound::SEND_LOW_WATER;

/// Level of the options specific to rsockets.
pub(crate) const SOL_RDMA: c_int = 0x10000;
pub(crate) const RDMA_SQSIZE: c_int = 0;
pub(crate) const RDMA_RQSIZE: c_int = 1;
pub(crate) const RDMA_INLINE: c_int = 2;
pub(crate) const RDMA_IOMAPSIZE: c_int = 3;
pub(crate) const RDMA_ROUTE: c_int = 4;

/// Maximum queue size.
pub(crate) const QUEUE_MAX: u32 = 0xfffe;
/// Minimum queue size of a stream.
pub(crate) const QUEUE_MIN: u16 = 16;
/// Maximum buffer size in bytes.
const BUFFER_BYTES_MAX: u32 = 1 << 30;
/// Maximum length of an RDMA_ROUTE value.
const ROUTE_BYTES_MAX: usize = 4096;
/// Seconds before the first keep-alive if the kernel does not report its default.
const KEEPALIVE_S_DEFAULT: u32 = 7200;

/// Settings of an rsocket. A listener's connections inherit them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) sq_size: u16,
    pub(crate) rq_size: u16,
    pub(crate) inline_bytes: u32,
    pub(crate) iomap_entries: u16,
    pub(crate) send_bytes: u32,
    pub(crate) receive_bytes: u32,
    /// The flags of F_GETFL in `rfcntl`.
    pub(crate) file_flags: c_int,
    /// The flags of F_GETFD in `rfcntl`.
    pub(crate) descriptor_flags: c_int,
    pub(crate) reuse_address: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_s: u32,
    pub(crate) oob_inline: bool,
    pub(crate) linger: bool,
    pub(crate) no_delay: bool,
    pub(crate) v6_only: bool,
    pub(crate) tos: c_int,
    /// The path to use instead of a resolved one.
    pub(crate) route: Option<Vec<u8>>,
}

impl Options {
    /// Creates the administrator's defaults.
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

    /// Sets SO_RCVBUF: twice the requested size, as the kernel does.
    pub(crate) fn set_receive_bytes(&mut self, asked: u32) {
        self.receive_bytes = doubled(asked).max(2);
    }

    /// Sets SO_SNDBUF: twice the requested size, and enough to ever be writable.
    pub(crate) fn set_send_bytes(&mut self, asked: u32) {
        let bytes = doubled(asked);
        self.send_bytes = if bytes < SEND_LOW_WATER { SEND_LOW_WATER * 2 } else { bytes };
    }

    /// Sets an option of [`SOL_RDMA`].
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

    /// Returns the seconds between keep-alives, the kernel's default if none are set.
    pub(crate) fn keep_alive_interval_s(&mut self) -> u32 {
        if self.keep_alive_s == 0 {
            let kernel = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time");
            self.keep_alive_s =
                kernel.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(KEEPALIVE_S_DEFAULT).max(1);
        }
        self.keep_alive_s
    }

    /// Returns the value of an option that every kind of rsocket handles alike.
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

/// Reads an option's value as a number.
pub(crate) fn number(value: &[u8]) -> Result<c_int, c_int> {
    value.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)).ok_or(libc::EINVAL)
}

/// Returns the bytes of an option's value.
///
/// # Safety
/// `value` is null or has `length` bytes.
pub(crate) unsafe fn argument<'a>(value: *const c_void, length: socklen_t) -> Result<&'a [u8], c_int> {
    if value.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller upholds the contract.
    Ok(unsafe { std::slice::from_raw_parts(value.cast(), length as usize) })
}

/// Writes an option's value to the program's buffer, truncated to its room.
///
/// # Safety
/// `length` is null or a number; `value` is null or has as many bytes.
pub(crate) unsafe fn answer(bytes: &[u8], value: *mut c_void, length: *mut socklen_t) -> Result<(), c_int> {
    if value.is_null() || length.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller upholds the contract.
    unsafe {
        let room = bytes.len().min(*length as usize);
        value.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), room);
        *length = room as socklen_t;
    }
    Ok(())
}
