//! Following rtnetlink: a dump at the start (and whenever notifications were lost), then notifications.

use libc::ENOBUFS;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use weft_sys::epoll::wait_readable;
use weft_sys::ethtool;
use weft_sys::netlink::RouteSocket;

use crate::netdev::Netdevs;
use crate::rtnl::{self, RouteMessage};

/// Longest datagram; the kernel builds dumps in pieces of at most half of this.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// Datagrams read before clients get a turn.
const DATAGRAMS_PER_TURN: usize = 64;

/// How long the kernel may take for a dump.
const DUMP_TIMEOUT: Duration = Duration::from_secs(5);

/// The socket that receives notifications.
#[derive(Debug)]
pub struct Routes {
    socket: RouteSocket,
    buffer: Vec<u8>,
}

impl Routes {
    /// Opens the socket: it misses nothing from here on.
    pub fn open() -> io::Result<Routes> {
        Ok(Routes { socket: RouteSocket::open(rtnl::GROUPS)?, buffer: vec![0; DATAGRAM_BYTES_MAX] })
    }

    /// Updates the interfaces from the waiting notifications.
    pub fn follow(&mut self, netdevs: &mut Netdevs) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_TURN {
            let length = match self.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Some were lost, so no known state is certain.
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                    *netdevs = dump()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            apply(netdevs, self.buffer.get(..length).unwrap_or_default());
        }
        Ok(())
    }
}

impl AsFd for Routes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the range of ports that the kernel assigns automatically (`net.ipv4.ip_local_port_range` of this network
/// namespace).
pub fn local_ports() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    match (words.next()?, words.next()?) {
        (Ok(low), Ok(high)) if low <= high => Some((low, high)),
        _ => None,
    }
}

/// Returns all current interfaces and addresses.
pub fn dump() -> io::Result<Netdevs> {
    let socket = RouteSocket::open(0)?;
    let mut netdevs = Netdevs::default();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    for request in [rtnl::dump_links(1), rtnl::dump_addresses(2)] {
        socket.send(&request)?;
        while !dump_part(&socket, &mut buffer, &mut netdevs)? {}
    }
    Ok(netdevs)
}

fn dump_part(socket: &RouteSocket, buffer: &mut [u8], netdevs: &mut Netdevs) -> io::Result<bool> {
    if !wait_readable(socket, DUMP_TIMEOUT)? {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    let length = match socket.recv(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        result => result?,
    };
    let messages = apply(netdevs, buffer.get(..length).unwrap_or_default());
    Ok(messages.iter().any(|message| matches!(message, RouteMessage::Done | RouteMessage::Failed)))
}

fn apply(netdevs: &mut Netdevs, datagram: &[u8]) -> Vec<RouteMessage> {
    let messages = rtnl::parse(datagram);
    for message in &messages {
        if let Some(ifindex) = netdevs.apply(message)
            && let Some(name) = netdevs.by_index(ifindex).map(|netdev| netdev.name.clone())
        {
            netdevs.set_speed(ifindex, ethtool::link_speed_mbps(&name));
        }
    }
    messages
}
