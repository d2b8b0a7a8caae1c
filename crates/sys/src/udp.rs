//! Batched datagrams: gather lists that the kernel splits into segments (UDP_SEGMENT), receives that return many
//! segments at once (UDP_GRO), with the addresses, traffic class and hop limit of each. An [`Outbox`] and an [`Inbox`]
//! keep the C structures of sendmmsg and recvmmsg, so that no packet needs an allocation.

mod calls;
mod flow_socket;
mod inbox;
mod outbox;
mod peer;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::roce_port::Family;
use crate::sockopt::set_int;

/// Maximum number of segments in one send, for every kernel with UDP_SEGMENT (newer ones take 128).
pub const SEGMENTS_MAX: usize = 64;
/// Bytes of one send, all segments together: the largest IPv4 datagram's payload.
pub const SEND_BYTES_MAX: usize = 65_507;
/// Pieces of one gather list (UIO_MAXIOV).
pub const PIECES_MAX: usize = 1024;
/// Bytes of one receive buffer: the largest datagram, and the most that UDP_GRO merges.
pub const RECEIVE_BYTES_MAX: usize = 65_536;
/// Bytes of an outbox's own stage.
pub const STAGE_BYTES: usize = 128 << 10;
/// Maximum number of messages in an outbox.
pub const MESSAGES_MAX: usize = 64;
/// First source port: the range of RoCE v2 senders (Linux's ephemeral range ends inside it).
pub const SOURCE_PORT_MIN: u16 = 49_152;
/// Default hop limit of sockets.
pub const HOP_LIMIT_DEFAULT: u8 = 64;

pub use flow_socket::{Incoming, attach, describe_flow_socket, detach, flow_socket};
pub use inbox::{Inbox, PEEK_BYTES_MAX, Received};
pub use outbox::{Handed, Outbox};
pub use peer::{connected, cut, identification};

/// Path of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Source address; must belong to this host.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Outgoing interface; 0 leaves the choice to the routing table.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// Creates an unconnected sending socket that never fragments (so that IPv4's identification is 0, or the segment's
/// number), bound to a source port of RoCE's range. Returns the port too. `entropy` selects the first port to try.
pub fn sender(family: Family, entropy: u32) -> io::Result<(OwnedFd, u16)> {
    let fd = open_sender(family, HOP_LIMIT_DEFAULT)?;
    let port = bind_any(&fd, family, entropy)?;
    Ok((fd, port))
}

/// Binds a socket to a free port of RoCE's range at the unspecified address; returns the port. `entropy` selects the
/// first port to try.
///
/// # Errors
/// No port is free.
pub fn bind_any(fd: &OwnedFd, family: Family, entropy: u32) -> io::Result<u16> {
    bind_source_port(fd, entropy, |port| unspecified(family, port))
}

/// Returns the unspecified address of a family, with a port.
fn unspecified(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

fn open_sender(family: Family, hop_limit: u8) -> io::Result<OwnedFd> {
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None)?;
    match family {
        Family::V4 => {
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_TTL, hop_limit.into())?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, hop_limit.into())?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1)?;
        }
        Family::V6 => {
            rustix::net::sockopt::set_ipv6_v6only(&fd, true)?;
            let level = libc::IPPROTO_IPV6;
            set_int(&fd, level, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
            set_int(&fd, level, libc::IPV6_UNICAST_HOPS, hop_limit.into())?;
            set_int(&fd, level, libc::IPV6_MULTICAST_HOPS, hop_limit.into())?;
            set_int(&fd, level, libc::IPV6_MULTICAST_LOOP, 1)?;
        }
    }
    Ok(fd)
}

/// Binds to a free port of RoCE's range.
fn bind_source_port(fd: &OwnedFd, entropy: u32, address: impl Fn(u16) -> SocketAddr) -> io::Result<u16> {
    const ATTEMPTS: u32 = 512;
    let ports = u32::from(u16::MAX - SOURCE_PORT_MIN) + 1;
    for attempt in 0..ATTEMPTS {
        let port = SOURCE_PORT_MIN + (entropy.wrapping_add(attempt.wrapping_mul(7919)) % ports) as u16;
        match rustix::net::bind(fd, &address(port)) {
            Ok(()) => return Ok(port),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP_GRO: i32 = 104;

    fn pair() -> (OwnedFd, OwnedFd, u16) {
        let (tx, _) = sender(Family::V4, crate::random::u64() as u32).unwrap();
        let (rx, port) = sender(Family::V4, crate::random::u64() as u32).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_PKTINFO, 1).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_RECVTOS, 1).unwrap();
        set_int(&rx, libc::IPPROTO_IP, libc::IP_RECVTTL, 1).unwrap();
        set_int(&rx, libc::IPPROTO_UDP, UDP_GRO, 1).unwrap();
        (tx, rx, port)
    }

    fn path(port: u16) -> Path {
        Path {
            src: Ipv4Addr::LOCALHOST.into(),
            dst: Ipv4Addr::LOCALHOST.into(),
            port,
            ifindex: 0,
            traffic_class: 0x28,
            hop_limit: 9,
        }
    }

    #[test]
    fn segments_leave_in_one_call_and_arrive_with_all_that_was_said() {
        let (tx, rx, port) = pair();
        let payload: Vec<u8> = (0..=255).collect();
        let mut out = Outbox::new();
        for i in 0..3u8 {
            out.stage(4).fill(i);
            out.host(payload.as_ptr() as u64, 96);
        }
        out.end(&path(port), 100);
        assert!(out.hand_over(&tx).error.is_none());
        let mut inbox = Inbox::new(4);
        let mut seen = Vec::new();
        while seen.len() < 300 {
            let n = inbox.receive(&rx, 4).unwrap();
            for i in 0..n {
                let m = inbox.message(i).unwrap();
                assert_eq!(m.segment, 100);
                assert_eq!((m.traffic_class, m.hop_limit), (0x28, 9));
                assert_eq!(m.dst, IpAddr::from(Ipv4Addr::LOCALHOST));
                seen.extend_from_slice(m.bytes);
            }
        }
        assert_eq!(seen[100], 1);
        assert_eq!(seen[104..200], payload[..96]);
        assert_eq!(inbox.receive(&rx, 1).unwrap(), 0);
    }

    #[test]
    fn memory_that_is_not_mapped_is_an_error_and_no_crash() {
        let (tx, _rx, port) = pair();
        let mut out = Outbox::new();
        out.stage(4).fill(1);
        out.host(4096, 96);
        out.end(&path(port), 0);
        let handed = out.hand_over(&tx);
        assert_eq!(handed.messages, 0);
        assert_eq!(handed.error.unwrap().raw_os_error(), Some(libc::EFAULT));
    }
}
