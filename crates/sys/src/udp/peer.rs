//! Sending sockets connected to one destination. The kernel looks up the route once instead of on each send, and the
//! caller passes no addresses, which saves about a fifth of a short send.
//!
//! The price is IPv4's identification, which RoCE's ICRC covers. A connected socket starts it at a random value and
//! increments it with each message (segments of a message count on from it), and no call reports it. But the kernel
//! returns a packet with a requested transmit time stamp, headers included, on the socket's error queue:
//! [`identification`] sends one to this host itself and reads it there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Path, bind_source_port, open_sender};
use crate::roce_port::Family;
use crate::sockopt::set_int;

/// Creates a socket that sends along `path` and nowhere else; returns its source port too. `entropy` selects the first
/// port to try.
///
/// # Errors
/// The addresses are of different families, the source does not belong to this host, or there is no route to the
/// destination.
pub fn connected(path: &Path, entropy: u32) -> io::Result<(OwnedFd, u16)> {
    let (family, level, class) = match (path.src, path.dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (Family::V4, libc::IPPROTO_IP, libc::IP_TOS),
        (IpAddr::V6(_), IpAddr::V6(_)) => (Family::V6, libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let fd = open_sender(family, path.hop_limit.max(1))?;
    set_int(&fd, level, class, path.traffic_class.into())?;
    let port = bind_source_port(&fd, entropy, |port| address(path.src, port, path.ifindex))?;
    rustix::net::connect(&fd, &address(path.dst, path.port, path.ifindex))?;
    Ok((fd, port))
}

/// Makes the kernel split sends into segments of this many bytes, unless a message says otherwise.
///
/// # Errors
/// The kernel is too old.
pub fn cut(fd: impl AsFd, segment: u16) -> io::Result<()> {
    const UDP_SEGMENT: i32 = 103;
    set_int(fd, libc::IPPROTO_UDP, UDP_SEGMENT, segment.into())
}

fn address(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// Returns the identification of the next message of a socket from [`connected`] (of its first segment).
///
/// # Errors
/// The kernel does not return packets (an administrator forbade it, or it is too old), or the host cannot send to
/// itself.
pub fn identification(fd: impl AsFd, src: Ipv4Addr) -> io::Result<u16> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // The datagram needs a receiver, or the host would send itself an ICMP error.
    let sink = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    rustix::net::bind(&sink, &SocketAddrV4::new(src, 0))?;
    let to = match SocketAddr::try_from(rustix::net::getsockname(&sink)?) {
        Ok(SocketAddr::V4(to)) => to,
        _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    while returned(fd.as_fd())?.is_some() {}
    send_stamped(fd.as_fd(), to)?;
    let packet = returned(fd.as_fd())?.ok_or(io::ErrorKind::NotFound)?;
    identification_of(&packet, to).map(|id| id.wrapping_add(1)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends one byte with a request for a software transmit time stamp.
fn send_stamped(fd: impl AsFd, to: SocketAddrV4) -> io::Result<()> {
    const SOF_TIMESTAMPING_TX_SCHED: u32 = 1 << 8;
    #[repr(C)]
    struct Control {
        header: libc::cmsghdr,
        flags: u32,
        pad: u32,
    }
    let mut control = Control {
        // SAFETY: cmsghdr is plain data; zero is a valid value for each field.
        header: unsafe { std::mem::zeroed() },
        flags: SOF_TIMESTAMPING_TX_SCHED,
        pad: 0,
    };
    control.header.cmsg_level = libc::SOL_SOCKET;
    control.header.cmsg_type = libc::SO_TIMESTAMPING;
    control.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u32>()) as _;
    let mut name = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*to.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let mut byte = [0u8; 1];
    let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // SAFETY: msghdr is plain data; zero is a valid value for each field.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of_val(&name) as u32;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the name, the piece and the control block live across the call and are as long as the header says.
    let sent = unsafe { libc::sendmsg(fd.as_fd().as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a packet off the error queue, if there is one.
fn returned(fd: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    const PACKET_BYTES_MAX: usize = 256;
    let mut packet = vec![0u8; PACKET_BYTES_MAX];
    let mut piece = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
    // SAFETY: msghdr is plain data; zero is a valid value for each field.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the piece names `packet`, which lives across the call.
    let len = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut message, flags) };
    if len < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    packet.truncate(len as usize);
    Ok(Some(packet))
}

/// Finds the IPv4 header after a link-layer header of any length, and returns its identification.
fn identification_of(packet: &[u8], to: SocketAddrV4) -> Option<u16> {
    const IP_LEN: usize = 20;
    const UDP: u8 = 17;
    packet.windows(IP_LEN + 4).find_map(|at| {
        let fits = at[0] == 0x45
            && at[9] == UDP
            && at[16..20] == to.ip().octets()
            && at[IP_LEN + 2..IP_LEN + 4] == to.port().to_be_bytes();
        fits.then(|| u16::from_be_bytes([at[4], at[5]]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Outbox;

    #[test]
    fn identifications_count_on_from_one_that_is_told() {
        let here = Ipv4Addr::LOCALHOST;
        let sink = std::net::UdpSocket::bind((here, 0)).unwrap();
        let path = Path {
            src: here.into(),
            dst: here.into(),
            port: sink.local_addr().unwrap().port(),
            ifindex: 0,
            traffic_class: 0x28,
            hop_limit: 9,
        };
        let (fd, _) = connected(&path, crate::random::u64() as u32).unwrap();
        let first = identification(&fd, here).unwrap();
        let mut out = Outbox::new();
        // One message of three segments, and two of one: three identifications.
        out.stage(250).fill(1);
        out.end_to_peer(Some(100));
        for _ in 0..2 {
            out.stage(4).fill(2);
            out.end_to_peer(None);
        }
        let handed = out.hand_over(&fd);
        assert!(handed.error.is_none() && handed.messages == 3, "{handed:?}");
        // The query itself took one.
        assert_eq!(identification(&fd, here).unwrap(), first.wrapping_add(3 + 1));
        let mut bytes = [0; 300];
        assert_eq!(sink.recv(&mut bytes).unwrap(), 100);
    }

    #[test]
    fn a_socket_that_was_told_how_to_cut_can_be_told_otherwise() {
        let here = Ipv4Addr::LOCALHOST;
        let sink = std::net::UdpSocket::bind((here, 0)).unwrap();
        let port = sink.local_addr().unwrap().port();
        let path = Path { src: here.into(), dst: here.into(), port, ifindex: 0, traffic_class: 0, hop_limit: 64 };
        let (fd, _) = connected(&path, crate::random::u64() as u32).unwrap();
        cut(&fd, 24).unwrap();
        let mut out = Outbox::new();
        for (len, segment) in [(44, None), (24, None), (44, Some(0)), (44, Some(40))] {
            out.stage(len).fill(1);
            out.end_to_peer(segment);
            let handed = out.hand_over(&fd);
            assert!(handed.error.is_none() && handed.messages == 1, "{handed:?}");
        }
        let mut bytes = [0; 300];
        assert_eq!([(); 6].map(|()| sink.recv(&mut bytes).unwrap()), [24, 20, 24, 44, 40, 4]);
    }
}
