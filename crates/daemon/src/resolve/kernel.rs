//! The kernel's routing and neighbour tables, queried over rtnetlink, which needs no privilege.

use libc::{EIO, ENOENT};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use weft_sys::netlink::RouteSocket;

use super::message::{self, Answer, Route};

/// Longest answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// Datagrams searched for an answer: there is one, unless an earlier request's was left.
const DATAGRAMS_MAX: usize = 16;

/// The discard service (RFC 863): a datagram there makes the kernel look for a neighbour and means nothing to the
/// neighbour.
const PORT_DISCARD: u16 = 9;

/// Operations of the resolver on a kernel.
pub trait Kernel {
    /// Returns the route to an address; the errno if there is none.
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, ifindex: u32, tos: u8) -> Result<Route, i32>;

    /// Returns the state (NUD_*) of a neighbour, 0 if it is unknown.
    fn neighbour(&mut self, ifindex: u32, neighbour: IpAddr) -> Result<u16, i32>;

    /// Makes the kernel look for a neighbour.
    fn probe(&mut self, ifindex: u32, neighbour: IpAddr, src: IpAddr);
}

/// The running kernel.
#[derive(Debug)]
pub struct Linux {
    socket: RouteSocket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Linux {
    /// Opens the socket.
    pub fn open() -> io::Result<Linux> {
        Ok(Linux { socket: RouteSocket::open(0)?, sequence: 0, buffer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Sends a request and reads the answer; the kernel has answered by the time the request is sent.
    fn ask(&mut self, request: impl FnOnce(u32) -> Vec<u8>) -> Result<Answer, i32> {
        self.sequence = self.sequence.wrapping_add(1);
        let errno = |error: io::Error| error.raw_os_error().unwrap_or(EIO);
        self.socket.send(&request(self.sequence)).map_err(errno)?;
        for _ in 0..DATAGRAMS_MAX {
            let length = self.socket.recv(&mut self.buffer).map_err(errno)?;
            if let Some(answer) = message::parse(self.buffer.get(..length).unwrap_or_default(), self.sequence) {
                return Ok(answer);
            }
        }
        Err(EIO)
    }
}

impl Kernel for Linux {
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, ifindex: u32, tos: u8) -> Result<Route, i32> {
        match self.ask(|sequence| message::get_route(sequence, dst, src, ifindex, tos))? {
            Answer::Route(route) => Ok(route),
            Answer::Failed(errno) => Err(errno),
            Answer::Neighbour(_) => Err(EIO),
        }
    }

    fn neighbour(&mut self, ifindex: u32, neighbour: IpAddr) -> Result<u16, i32> {
        match self.ask(|sequence| message::get_neighbour(sequence, ifindex, neighbour))? {
            Answer::Neighbour(state) => Ok(state),
            Answer::Failed(ENOENT) => Ok(0),
            Answer::Failed(errno) => Err(errno),
            Answer::Route(_) => Err(EIO),
        }
    }

    fn probe(&mut self, ifindex: u32, neighbour: IpAddr, src: IpAddr) {
        let to: SocketAddr = match neighbour {
            IpAddr::V4(ip) => (ip, PORT_DISCARD).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, PORT_DISCARD, 0, scope(neighbour, ifindex)).into(),
        };
        let from: SocketAddr = match src {
            IpAddr::V4(ip) => (ip, 0).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, 0, 0, scope(src, ifindex)).into(),
        };
        // It fails if the neighbour is unreachable, and then the neighbour's state says so.
        if let Ok(socket) = UdpSocket::bind(from) {
            let _ = socket.set_nonblocking(true);
            let _ = socket.send_to(&[], to);
        }
    }
}

/// Returns the scope of an address: a link-local address means nothing without its interface.
fn scope(ip: IpAddr, ifindex: u32) -> u32 {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => ifindex,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::RouteKind;
    use super::*;

    #[test]
    fn the_loopback_is_local() {
        let localhost: IpAddr = "127.0.0.1".parse().unwrap();
        let route = Linux::open().unwrap().route(localhost, None, 0, 0).unwrap();
        assert_eq!((route.kind, route.src, route.gateway), (RouteKind::Local, Some(localhost), None));
    }
}
