//! Network interfaces whose packets a program carries. An IPoIB interface is a TUN of link type InfiniBand: it hands
//! over and takes bare IP packets. A TAP hands over and takes Ethernet frames. Each packet follows a header with which
//! the kernel defers checksums and segmentation.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `TUNSETIFF`, `TUNGETIFF`, `TUNSETLINK`, `TUNSETOFFLOAD`, `TUNSETCARRIER`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNGETIFF: libc::c_ulong = 0x8004_54d2;
const TUNSETLINK: libc::c_ulong = 0x4004_54cd;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`; `TUN_F_USO4` and `TUN_F_USO6` are of Linux 6.2.
const OFFLOADS_OF_TCP: libc::c_ulong = 0x1 | 0x2 | 0x4;
/// `TUN_F_TSO_ECN`: TCP segments with CWR, too.
const OFFLOAD_OF_ECN: libc::c_ulong = 0x8;
const OFFLOADS_OF_UDP: libc::c_ulong = 0x20 | 0x40;

/// `ARPHRD_INFINIBAND`: the interface's type in /sys/class/net and in `ip link`.
const ARPHRD_INFINIBAND: libc::c_ulong = 32;

/// Longest name of an interface, without the NUL.
pub const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

/// Bytes of `struct virtio_net_hdr` before each packet of a [`Tun`] and each frame of a [`Tap`].
pub const FRAME_HEADER_BYTES: usize = 10;

/// An interface of link type InfiniBand. It exists as long as this descriptor, in the network namespace in which it was
/// made, wherever the descriptor goes.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    /// The kernel has headers before the packets.
    has_headers: bool,
}

impl Tun {
    /// Makes an interface in the calling thread's network namespace, down and without addresses. The kernel defers what
    /// it can: packets of up to 64 KiB that it has not cut, and checksums.
    ///
    /// # Errors
    /// `EPERM`: the process may not administer the namespace; `ENOENT`: there is no /dev/net/tun; `EBUSY`, `EEXIST`:
    /// another interface has the name.
    pub fn infiniband(name: &str) -> io::Result<Tun> {
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        let file = match open(name, flags | libc::IFF_VNET_HDR) {
            // A sandbox's kernel may have no headers.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => open(name, flags)?,
            opened => opened?,
        };
        // SAFETY: the request takes a number, and passes no pointer.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETLINK as _, ARPHRD_INFINIBAND) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A kernel that refuses all of them cuts and sums every packet itself.
        let tcp = OFFLOADS_OF_TCP | OFFLOAD_OF_ECN;
        let _ = offer(&file, tcp | OFFLOADS_OF_UDP) || offer(&file, tcp);
        Tun::of(file.into())
    }

    /// Tells the kernel whether the interface has a link (Linux 5.0).
    pub fn set_carrier(&self, has_link: bool) -> io::Result<()> {
        let carrier = libc::c_int::from(has_link);
        // SAFETY: the request reads one integer, which lives across the call.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), TUNSETCARRIER as _, &raw const carrier) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// An interface that another process made.
    ///
    /// # Errors
    /// The descriptor is not that of an interface.
    pub fn of(fd: OwnedFd) -> io::Result<Tun> {
        // SAFETY: all zeros is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one `ifreq`, which lives across the call.
        if unsafe { libc::ioctl(fd.as_raw_fd(), TUNGETIFF as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the request has written the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        Ok(Tun { fd, has_headers: flags & libc::IFF_VNET_HDR != 0 })
    }

    /// Returns whether the kernel takes packets that are not cut or summed.
    pub fn takes_deferred(&self) -> bool {
        self.has_headers
    }

    /// Takes the next packet that the kernel sends, and the header before it; `WouldBlock` if there is none. A packet
    /// longer than the buffer is cut.
    pub fn read(&self, header: &mut [u8; FRAME_HEADER_BYTES], packet: &mut [u8]) -> io::Result<usize> {
        if !self.has_headers {
            header.fill(0);
            return Ok(rustix::io::read(&self.fd, packet)?);
        }
        let length = rustix::io::readv(&self.fd, &mut [IoSliceMut::new(header), IoSliceMut::new(packet)])?;
        length.checked_sub(FRAME_HEADER_BYTES).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Hands the kernel a packet that arrived, with the header before it. Unless the kernel [`Tun::takes_deferred`], the
    /// header is ignored. `WouldBlock`: its queue is full; the packet is lost, as on a link.
    pub fn write(&self, header: &[u8; FRAME_HEADER_BYTES], packet: &[u8]) -> io::Result<usize> {
        if !self.has_headers {
            return Ok(rustix::io::write(&self.fd, packet)?);
        }
        Ok(rustix::io::writev(&self.fd, &[IoSlice::new(header), IoSlice::new(packet)])?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Longest frame of a [`Tap`] with its header: the kernel leaves segments of up to 64 KiB uncut, behind an Ethernet header
/// with a VLAN tag.
pub const FRAME_BYTES_MAX: usize = FRAME_HEADER_BYTES + 18 + (1 << 16);

/// An Ethernet interface. It exists as long as this descriptor. Each frame follows a `struct virtio_net_hdr`, with which
/// the kernel defers checksums and segmentation; another [`Tap`] takes it as it is.
#[derive(Debug)]
pub struct Tap(OwnedFd);

impl Tap {
    /// Makes an interface in the calling thread's network namespace, down and without addresses. With `defers`, frames may
    /// be longer than the MTU: segments that the kernel has not cut yet.
    ///
    /// # Errors
    /// As [`Tun::infiniband`].
    pub fn ethernet(name: &str, defers: bool) -> io::Result<Tap> {
        let file = open(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR)?;
        // An older kernel cuts datagrams itself.
        if defers && !offer(&file, OFFLOADS_OF_TCP | OFFLOADS_OF_UDP) && !offer(&file, OFFLOADS_OF_TCP) {
            return Err(io::Error::last_os_error());
        }
        Ok(Tap(file.into()))
    }

    /// An interface that another process made.
    pub fn of(descriptor: OwnedFd) -> Tap {
        Tap(descriptor)
    }

    /// Takes the next frame that the kernel sends; `WouldBlock` if there is none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }

    /// Hands the kernel a frame that arrived. After an error it is lost, as on a link.
    pub fn write(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, frame)?)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Offers the kernel to defer this work; returns whether it accepts.
fn offer(file: &File, offloads: libc::c_ulong) -> bool {
    // SAFETY: the request takes a number, and passes no pointer.
    unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, offloads) == 0 }
}

/// Makes an interface with these flags, whose descriptor never blocks.
fn open(name: &str, flags: libc::c_int) -> io::Result<File> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.bytes().any(|byte| byte == b'/' || byte <= b' ') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request reads and writes one `ifreq`, which lives across the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::io::ioctl_fionbio(&file, true)?;
    Ok(file)
}
