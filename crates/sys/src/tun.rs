//! Network interfaces whose packets a program carries (TUN). An IPoIB interface is one of link type InfiniBand: it hands
//! over and takes bare IP packets.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `TUNSETIFF`, `TUNSETLINK`, `TUNSETCARRIER`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETLINK: libc::c_ulong = 0x4004_54cd;
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

/// `ARPHRD_INFINIBAND`: the interface's type in /sys/class/net and in `ip link`.
const ARPHRD_INFINIBAND: libc::c_ulong = 32;

/// Longest name of an interface, without the NUL.
pub const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

/// An interface of link type InfiniBand. It exists as long as this descriptor, in the network namespace in which it was
/// made, wherever the descriptor goes.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes an interface in the calling thread's network namespace, down and without addresses.
    ///
    /// # Errors
    /// `EPERM`: the process may not administer the namespace; `ENOENT`: there is no /dev/net/tun; `EBUSY`, `EEXIST`:
    /// another interface has the name.
    pub fn infiniband(name: &str) -> io::Result<Tun> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.bytes().any(|byte| byte == b'/' || byte <= b' ') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::options().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: all zeros is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request reads and writes one `ifreq`, which lives across the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the request takes a number, and passes no pointer.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETLINK as _, ARPHRD_INFINIBAND) } != 0 {
            return Err(io::Error::last_os_error());
        }
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Tun(file.into()))
    }

    /// Tells the kernel whether the interface has a link (Linux 5.0).
    pub fn set_carrier(&self, has_link: bool) -> io::Result<()> {
        let carrier = libc::c_int::from(has_link);
        // SAFETY: the request reads one integer, which lives across the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), TUNSETCARRIER as _, &raw const carrier) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// An interface that another process made.
    pub fn of(descriptor: OwnedFd) -> Tun {
        Tun(descriptor)
    }

    /// Takes the next packet that the kernel sends; `WouldBlock` if there is none. A packet longer than the buffer is
    /// cut.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }

    /// Hands the kernel a packet that arrived. `WouldBlock`: its queue is full; the packet is lost, as on a link.
    pub fn write(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, packet)?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
