//! Sockets that take one flow out of the traffic to RoCE's port. The kernel finds a connected socket directly, without
//! steering or a route lookup, and the receiver knows the addresses without a control message for each packet. Together
//! that saves a sixth of a short packet's processing time.
//!
//! The socket must not take other packets, not even between bind and connect. So it supports both IPv4 and IPv6 and is
//! bound to no address: an IPv4-only socket is a better match for an IPv4 packet, and of equal matches the kernel takes
//! the first in its list, which is the one bound first (SO_REUSEPORT and IPv6 sockets are at the end of the list). It
//! is not in the steered groups, whose sockets support one family only. Connecting sets its own address and its peer's
//! atomically. From then on, connecting it again directs it to another flow.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::roce_port::{Family, RECEIVE_BUFFER_BYTES, describe_network_header, enlarge_receive_buffer};
use crate::sockopt::set_int;

const UDP_GRO: i32 = 104;
const UDP_NO_CHECK6_RX: i32 = 102;

/// Packets of one sender to one of our addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Incoming interface, 0 if unknown.
    pub ifindex: u32,
}

/// Creates a socket that takes this flow's packets to `port` and no others.
///
/// # Errors
/// Another process has the port, the host would answer from another address, IPv6 is missing or the kernel is too old.
pub fn flow_socket(port: u16, flow: &Incoming) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None)?;
    rustix::net::sockopt::set_ipv6_v6only(&fd, false)?;
    rustix::net::sockopt::set_socket_reuseport(&fd, true)?;
    set_int(&fd, libc::IPPROTO_UDP, UDP_GRO, 1)?;
    set_int(&fd, libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)?;
    enlarge_receive_buffer(&fd, RECEIVE_BUFFER_BYTES);
    rustix::net::bind(&fd, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
    attach(&fd, flow)?;
    let here = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
    if here.ip().to_canonical() != flow.dst || here.port() != port {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    Ok(fd)
}

/// Directs a flow socket to another flow to the same address. Packets received before stay in its queue.
///
/// # Errors
/// There is no route to the other end.
pub fn attach(fd: impl AsFd, flow: &Incoming) -> io::Result<()> {
    Ok(rustix::net::connect(fd, &mapped(flow.src, flow.sport))?)
}

/// Makes a flow socket take nothing: its other end is the port itself, from which no process sends.
///
/// # Errors
/// The address no longer belongs to the host.
pub fn detach(fd: impl AsFd, port: u16, here: IpAddr) -> io::Result<()> {
    Ok(rustix::net::connect(fd, &mapped(here, port))?)
}

/// As [`describe_network_header`], for a flow socket.
///
/// # Errors
/// As the kernel reports them.
pub fn describe_flow_socket(fd: impl AsFd) -> io::Result<()> {
    describe_network_header(fd.as_fd(), Family::V4)?;
    describe_network_header(fd.as_fd(), Family::V6)
}

fn mapped(ip: IpAddr, port: u16) -> SocketAddrV6 {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddrV6::new(ip, port, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Inbox, Path};
    use std::net::UdpSocket;

    /// Opens a port as the daemon does: shared, with IPv4 and IPv6 separate.
    fn port() -> ([OwnedFd; 2], u16) {
        let socket = |family, v6only: bool| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None).unwrap();
            rustix::net::sockopt::set_socket_reuseport(&fd, true).unwrap();
            if v6only {
                rustix::net::sockopt::set_ipv6_v6only(&fd, true).unwrap();
            }
            fd
        };
        let v4 = socket(AddressFamily::INET, false);
        rustix::net::bind(&v4, &SocketAddr::from(([0; 4], 0))).unwrap();
        let port = SocketAddr::try_from(rustix::net::getsockname(&v4).unwrap()).unwrap().port();
        let v6 = socket(AddressFamily::INET6, true);
        rustix::net::bind(&v6, &SocketAddr::from(([0u16; 8], port))).unwrap();
        ([v4, v6], port)
    }

    fn waiting(fd: &OwnedFd) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), [0; 64]);
        while let Ok((len, _)) = rustix::net::recv(fd, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
            all.extend_from_slice(&bytes[..len]);
        }
        all
    }

    #[test]
    fn a_flow_socket_takes_its_flow_and_leaves_the_rest() {
        for here in [IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let (shared, port) = port();
            let senders = [0, 1].map(|_| UdpSocket::bind((here, 0)).unwrap());
            let flow = |nth: usize| Incoming {
                src: here,
                sport: senders[nth].local_addr().unwrap().port(),
                dst: here,
                ifindex: 0,
            };
            let say = |nth: usize, byte: u8| assert_eq!(senders[nth].send_to(&[byte], (here, port)).unwrap(), 1);
            let at_shared = || shared.iter().flat_map(waiting).collect::<Vec<u8>>();
            let flow_socket = flow_socket(port, &flow(0)).unwrap();
            say(0, 1);
            say(1, 2);
            assert_eq!((waiting(&flow_socket), at_shared()), (vec![1], vec![2]));
            say(0, 3);
            attach(&flow_socket, &flow(1)).unwrap();
            say(0, 4);
            say(1, 5);
            assert_eq!((waiting(&flow_socket), at_shared()), (vec![3, 5], vec![4]), "what had come waits");
            detach(&flow_socket, port, here).unwrap();
            say(0, 6);
            say(1, 7);
            assert_eq!((waiting(&flow_socket), at_shared()), (vec![], vec![6, 7]));
        }
    }

    #[test]
    fn one_that_is_not_connected_yet_takes_nothing() {
        for here in [IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let (shared, port) = port();
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = rustix::net::socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None).unwrap();
            rustix::net::sockopt::set_ipv6_v6only(&fd, false).unwrap();
            rustix::net::sockopt::set_socket_reuseport(&fd, true).unwrap();
            rustix::net::bind(&fd, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0)).unwrap();
            let sender = UdpSocket::bind((here, 0)).unwrap();
            sender.send_to(&[9], (here, port)).unwrap();
            assert!(waiting(&fd).is_empty());
            assert_eq!(shared.iter().flat_map(waiting).collect::<Vec<u8>>(), [9]);
        }
    }

    #[test]
    fn what_comes_through_it_is_told_with_the_flow_that_it_is_aimed_at() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let (_shared, port) = port();
        let (tx, sport) = crate::udp::sender(Family::V4, crate::random::u64() as u32).unwrap();
        let flow = Incoming { src: here, sport, dst: here, ifindex: 7 };
        let fd = flow_socket(port, &flow).unwrap();
        describe_flow_socket(&fd).unwrap();
        let mut out = crate::udp::Outbox::new();
        out.stage(200).fill(3);
        out.end(&Path { src: here, dst: here, port, ifindex: 0, traffic_class: 0x28, hop_limit: 9 }, 80);
        assert!(out.hand_over(&tx).error.is_none());
        let mut inbox = Inbox::new(2);
        assert_eq!(inbox.receive_flow(&fd, 1).unwrap(), 1);
        let message = inbox.message_of(0, &flow).unwrap();
        assert_eq!((message.bytes, message.segment), (&[3; 200][..], 80));
        assert_eq!((message.src, message.sport, message.dst, message.ifindex), (here, sport, here, 7));
        assert_eq!((message.traffic_class, message.hop_limit), (0x28, 9));
        assert_eq!(inbox.receive_flow(&fd, 2).unwrap(), 0);
    }
}
