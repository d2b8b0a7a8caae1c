//! Ethernet frames of one type: a packet(7) socket over all interfaces of the network namespace, for RoCE v1. It needs
//! CAP_NET_RAW. The kernel writes and strips the Ethernet header; a frame is the bytes after it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use crate::sockopt;

/// Whether this process may open packet sockets; checked once.
pub fn are_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| unbound().is_ok())
}

/// Creates a socket that receives nothing: it has no protocol until it is bound.
fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: the call passes no pointers.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor to us, so we own it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Source or destination of a frame on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkAddress {
    /// Interface.
    pub ifindex: u32,
    /// Hardware address of the other side.
    pub mac: [u8; 6],
}

/// A packet socket that receives the frames of one slot.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ethertype: u16,
}

impl PacketSocket {
    /// Opens a socket for frames of `ethertype` that carry a BTH, after `offset` bytes, to a queue pair of `slot` or to
    /// a group. The filter is in force before the first frame can arrive.
    ///
    /// # Errors
    /// The process lacks CAP_NET_RAW (EPERM).
    pub fn open(ethertype: u16, offset: u32, slot: u32) -> io::Result<PacketSocket> {
        let fd = unbound()?;
        crate::bpf::accept_slot(&fd, offset, slot)?;
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER_BYTES);
        let socket = PacketSocket { fd, ethertype };
        let any = socket.name(&LinkAddress::default());
        // SAFETY: the pointer and length name `any`, which lives across the call.
        let rc =
            unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const any).cast(), size_of_val(&any) as libc::socklen_t) };
        if rc == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
    }

    fn name(&self, to: &LinkAddress) -> libc::sockaddr_ll {
        // SAFETY: an all-zero `sockaddr_ll` is a valid value.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        name.sll_protocol = self.ethertype.to_be();
        name.sll_ifindex = to.ifindex as i32;
        name.sll_halen = to.mac.len() as u8;
        name.sll_addr[..6].copy_from_slice(&to.mac);
        name
    }

    /// Sends a frame.
    pub fn send(&self, to: &LinkAddress, frame: &[u8]) -> io::Result<()> {
        let name = self.name(to);
        // SAFETY: the pointers and lengths name `frame` and `name`, which live across the call.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                (&raw const name).cast(),
                size_of_val(&name) as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a waiting frame: returns its length and its source.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, LinkAddress)>> {
        // SAFETY: an all-zero `sockaddr_ll` is a valid value.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: `buffer` and `name` are valid for writing as long as the lengths say, across the call.
        let got = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
                (&raw mut name).cast(),
                &raw mut len,
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        let mut mac = [0; 6];
        mac.copy_from_slice(&name.sll_addr[..6]);
        Ok(Some((got as usize, LinkAddress { ifindex: name.sll_ifindex as u32, mac })))
    }

    /// Joins or leaves a group's hardware address on an interface.
    pub fn membership(&self, join: bool, group: &LinkAddress) -> io::Result<()> {
        // SAFETY: an all-zero `packet_mreq` is a valid value.
        let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
        request.mr_ifindex = group.ifindex as i32;
        request.mr_type = libc::PACKET_MR_MULTICAST as u16;
        request.mr_alen = group.mac.len() as u16;
        request.mr_address[..6].copy_from_slice(&group.mac);
        let option = if join { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        sockopt::set(&self.fd, libc::SOL_PACKET, option, &request)
    }
}

/// Receive buffer for frames that arrive between polls.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
