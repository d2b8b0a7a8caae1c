//! A route netlink socket: dumps and notifications about links and addresses.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

/// A NETLINK_ROUTE socket of the current network namespace.
#[derive(Debug)]
pub struct RouteSocket(OwnedFd);

impl RouteSocket {
    /// Opens a non-blocking socket that joins the multicast groups (a mask of RTMGRP_*).
    pub fn open(groups: u32) -> io::Result<RouteSocket> {
        // SAFETY: the call passes no pointers.
        let raw = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                libc::NETLINK_ROUTE,
            )
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor to us, so we own it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: an all-zero `sockaddr_nl` is a valid value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = groups;
        // SAFETY: the pointer and length name `address`, which lives across the call.
        let rc = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_nl>() as libc::socklen_t)
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(RouteSocket(fd))
    }

    /// A socket that another process opened, in the network namespace of that process.
    pub fn of(descriptor: OwnedFd) -> RouteSocket {
        RouteSocket(descriptor)
    }

    /// Sends a request to the kernel.
    pub fn send(&self, request: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.0, request, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a waiting message and returns its length; `WouldBlock` if there is none, `ENOBUFS` if notifications
    /// were lost. Only the kernel can send to a socket of an unprivileged process, so the sender is not checked.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::net::recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => continue,
                result => return Ok(result?.0),
            }
        }
    }
}

impl AsFd for RouteSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
