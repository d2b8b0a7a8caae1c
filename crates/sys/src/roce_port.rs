//! Sockets of UDP port 4791, the port of RoCE v2. They are members of one SO_REUSEPORT group, so that many processes
//! share the port. A receive reports the addresses and, on request, the traffic class and hop limit for the GRH.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::sockopt::set_int;

/// UDP destination port of RoCE v2 (IBA annex A17).
pub const ROCE_V2_UDP_PORT: u16 = 4791;

/// Receive buffer of a socket in use. At 10 Gbit/s it holds the packets of more than ten milliseconds without CPU time.
pub const RECEIVE_BUFFER_BYTES: usize = 16 << 20;

/// UDP_GRO, which the kernel's udp.h names and libc may not.
const UDP_GRO: i32 = 104;
/// UDP_NO_CHECK6_RX, likewise.
const UDP_NO_CHECK6_RX: i32 = 102;
const IPV6_MULTICAST_ALL: i32 = 29;
const IP_MULTICAST_ALL: i32 = 49;

/// IP version of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    fn any(self) -> SocketAddr {
        match self {
            Family::V4 => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, ROCE_V2_UDP_PORT).into(),
            Family::V6 => SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, ROCE_V2_UDP_PORT, 0, 0).into(),
        }
    }
}

fn udp_socket(family: Family) -> io::Result<OwnedFd> {
    let domain = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None)?;
    if family == Family::V6 {
        rustix::net::sockopt::set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}

/// Creates a socket without a port: no packets reach it, but it can join multicast groups.
pub fn portless(family: Family) -> io::Result<OwnedFd> {
    udp_socket(family)
}

/// Whether the port is unused: tries an exclusive bind and undoes it.
pub fn port_is_free(family: Family) -> io::Result<bool> {
    let fd = udp_socket(family)?;
    match rustix::net::bind(&fd, &family.any()) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::ADDRINUSE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether this machine supports the address family.
pub fn family_exists(family: Family) -> bool {
    port_is_free(family).is_ok()
}

/// Adds a socket to the end of the group; it drops all packets until [`open`]. The first socket creates the group and
/// its steering program.
pub fn join_group(family: Family, first: bool) -> io::Result<OwnedFd> {
    let fd = udp_socket(family)?;
    rustix::net::sockopt::set_socket_reuseport(&fd, true)?;
    if first {
        // Only on the first socket: a socket with its own program cannot join a group.
        crate::bpf::steer_by_qpn(&fd)?;
    }
    seal(&fd)?;
    describe_packets(&fd, family)?;
    rustix::net::bind(&fd, &family.any())?;
    Ok(fd)
}

/// Enables reports of traffic class and hop limit, which the GRH of a received datagram and a capture contain;
/// connected traffic is spared the work.
pub fn describe_network_header(fd: impl AsFd, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => {
            set_int(&fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            set_int(&fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)
        }
        Family::V6 => {
            set_int(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            set_int(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)
        }
    }
}

/// Enables reports of all packet properties that the transport always needs beside the bytes.
fn describe_packets(fd: &OwnedFd, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => {
            set_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            // A group that one process joined must not reach the other processes.
            set_int(fd, libc::IPPROTO_IP, IP_MULTICAST_ALL, 0)?;
            set_int(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        }
        Family::V6 => {
            set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            // Linux 4.20. Older kernels deliver only groups that a process on this host joined, and the demultiplexer
            // drops the packets.
            let _ = set_int(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
            set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            // Linux's rxe sends no UDP checksum over IPv6 either; the ICRC protects the same bytes.
            set_int(fd, libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)?;
        }
    }
    // Linux 5.0. Without it packets arrive one by one, which is slower but correct.
    let _ = set_int(fd, libc::IPPROTO_UDP, UDP_GRO, 1);
    Ok(())
}

/// Prepares a socket for an owner: empties it, admits packets, enlarges its buffer.
pub fn open(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    drain(fd);
    enlarge_receive_buffer(fd, RECEIVE_BUFFER_BYTES);
    crate::bpf::accept_all(fd)
}

/// Takes a socket out of use: from now on it holds no packets and no memory, but keeps its place in the group.
pub fn seal(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    crate::bpf::drop_all(fd)?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(fd, 0);
    drain(fd);
    Ok(())
}

/// Discards at most `DRAIN_PACKETS_MAX` waiting packets; returns their number.
pub fn drain(fd: impl AsFd) -> usize {
    const DRAIN_PACKETS_MAX: usize = 1 << 16;
    let fd = fd.as_fd();
    let mut byte = [0u8; 1];
    let mut count = 0;
    while count < DRAIN_PACKETS_MAX && rustix::net::recv(fd, &mut byte, RecvFlags::DONTWAIT | RecvFlags::TRUNC).is_ok()
    {
        count += 1;
    }
    count
}

/// Returns the number of packets that a socket dropped because it was sealed or its buffer was full. The count wraps.
pub fn dropped_packets(fd: impl AsFd) -> io::Result<u32> {
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0u32; SK_MEMINFO_DROPS + 1];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `len` are valid for writing, `len` is the size of `info`.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.get(SK_MEMINFO_DROPS).copied().unwrap_or(0))
}

/// Sets the receive buffer, past the system's limit if permitted.
pub fn enlarge_receive_buffer(fd: impl AsFd, bytes: usize) {
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, bytes).is_err() {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&fd, bytes);
    }
}

/// Sets the send buffer, past the system's limit if permitted.
pub fn enlarge_send_buffer(fd: impl AsFd, bytes: usize) {
    if rustix::net::sockopt::set_socket_send_buffer_size_force(&fd, bytes).is_err() {
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&fd, bytes);
    }
}

/// Returns the family if a descriptor is a RoCE port socket; `None` if it is not UDP, has another port, or is not
/// shared.
pub fn recognise(fd: impl AsFd) -> Option<Family> {
    let fd = fd.as_fd();
    let kind = rustix::net::sockopt::socket_type(fd).ok()?;
    let shared = rustix::net::sockopt::socket_reuseport(fd).ok()?;
    if kind != SocketType::DGRAM || !shared {
        return None;
    }
    let address: SocketAddr = rustix::net::getsockname(fd).ok()?.try_into().ok()?;
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    (address.ip().is_unspecified() && address.port() == ROCE_V2_UDP_PORT).then_some(family)
}

/// Joins a multicast group on an interface.
pub fn join_multicast(fd: impl AsFd, group: IpAddr, ifindex: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => {
            Ok(rustix::net::sockopt::set_ip_add_membership_with_ifindex(fd, &group, &Ipv4Addr::UNSPECIFIED, ifindex)?)
        }
        IpAddr::V6(group) => Ok(rustix::net::sockopt::set_ipv6_add_membership(fd, &group, ifindex)?),
    }
}

/// Leaves a multicast group on an interface.
pub fn leave_multicast(fd: impl AsFd, group: IpAddr, ifindex: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => {
            Ok(rustix::net::sockopt::set_ip_drop_membership_with_ifindex(fd, &group, &Ipv4Addr::UNSPECIFIED, ifindex)?)
        }
        IpAddr::V6(group) => Ok(rustix::net::sockopt::set_ipv6_drop_membership(fd, &group, ifindex)?),
    }
}

/// A socket bound to the port, from `/proc/net/udp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// User that created the socket.
    pub uid: u32,
    /// Inode of the socket.
    pub inode: u64,
}

/// Returns the sockets of this network namespace that are bound to the port.
pub fn holders() -> Vec<Holder> {
    let mut all = Vec::new();
    for path in ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"] {
        all.extend(holders_in(&std::fs::read_to_string(path).unwrap_or_default()));
    }
    all
}

/// Returns the sockets bound to the port in a table in the format of `/proc/net/udp`.
pub fn holders_in(table: &str) -> Vec<Holder> {
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let mut columns = line.split_ascii_whitespace();
        let port = columns.nth(1).and_then(|local| local.rsplit(':').next());
        if port.and_then(|port| u16::from_str_radix(port, 16).ok()) != Some(ROCE_V2_UDP_PORT) {
            continue;
        }
        // The columns remote address, state, queues, timer and retransmits lie in between.
        if let (Some(Ok(uid)), Some(Ok(inode))) = (columns.nth(5).map(str::parse), columns.nth(1).map(str::parse)) {
            found.push(Holder { uid, inode });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_udp_sockets_is_understood() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0\n\
            2: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0 0\n\
            3: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0 0\n garbage\n";
        assert_eq!(holders_in(table), [Holder { uid: 1000, inode: 4711 }, Holder { uid: 0, inode: 0 }]);
    }
}
