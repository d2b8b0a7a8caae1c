//! Hardware addresses of neighbours on a link: queries for one entry of the kernel's neighbour table by rtnetlink(7).
//! Any user may make them.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::netlink::RouteSocket;

const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// NUD_REACHABLE, STALE, DELAY, PROBE, NOARP, PERMANENT: the hardware address is good.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Length of nlmsghdr and ndmsg.
const HEADER_BYTES: usize = 16;
const NDMSG_BYTES: usize = 12;
/// UDP's discard port.
const DISCARD: u16 = 9;

/// Whether an address belongs to this host.
///
/// # Errors
/// The kernel does not answer: no descriptors are left, the interface is gone.
pub fn is_local(ip: IpAddr, ifindex: u32) -> io::Result<bool> {
    match UdpSocket::bind(scoped(ip, 0, ifindex)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the error number with which the kernel refuses a route to an address; `None` if there is a route.
///
/// # Errors
/// The kernel does not answer: no descriptors are left, the interface is gone.
pub fn route_error(ip: IpAddr, ifindex: u32) -> io::Result<Option<u32>> {
    let any: SocketAddr = if ip.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    match UdpSocket::bind(any)?.connect(scoped(ip, DISCARD, ifindex)) {
        Ok(()) => Ok(None),
        Err(error) => match error.raw_os_error() {
            Some(number @ (libc::ENETUNREACH | libc::EHOSTUNREACH)) => Ok(Some(number.unsigned_abs())),
            _ => Err(error),
        },
    }
}

/// Makes the kernel resolve a neighbour by sending it a datagram to the discard port.
pub fn look_for(ip: IpAddr, ifindex: u32) {
    let any: SocketAddr = if ip.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    if let Ok(socket) = UdpSocket::bind(any) {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to(&[], scoped(ip, DISCARD, ifindex));
    }
}

/// Whether packets to an address pass no router: there is a route without a gateway.
pub fn is_on_link(ip: IpAddr, ifindex: u32) -> bool {
    let any: SocketAddr = if ip.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let Ok(socket) = UdpSocket::bind(any) else { return false };
    let direct = crate::sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1);
    direct.is_ok() && socket.connect(scoped(ip, DISCARD, ifindex)).is_ok()
}

fn scoped(ip: IpAddr, port: u16, ifindex: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => {
            let scope = if ip.is_unicast_link_local() { ifindex } else { 0 };
            std::net::SocketAddrV6::new(ip, port, 0, scope).into()
        }
    }
}

/// Returns the hardware address of a neighbour on an interface, if the kernel knows it.
///
/// # Errors
/// The query cannot be sent.
pub fn hardware_address(ip: IpAddr, ifindex: u32) -> io::Result<Option<[u8; 6]>> {
    let socket = RouteSocket::open(0)?;
    socket.send(&request(ip, ifindex))?;
    let mut buffer = [0u8; 1024];
    // The kernel answers before the request's system call returns.
    let len = socket.recv(&mut buffer)?;
    Ok(answer(buffer.get(..len).unwrap_or_default()))
}

fn request(ip: IpAddr, ifindex: u32) -> Vec<u8> {
    let (family, octets) = match ip {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let len = HEADER_BYTES + NDMSG_BYTES + 4 + octets.len();
    let mut out = Vec::with_capacity(len);
    out.extend((len as u32).to_ne_bytes());
    out.extend(RTM_GETNEIGH.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend([0; 8]);
    out.extend([family as u8, 0, 0, 0]);
    out.extend(ifindex.to_ne_bytes());
    out.extend([0; 4]);
    out.extend((4 + octets.len() as u16).to_ne_bytes());
    out.extend(NDA_DST.to_ne_bytes());
    out.extend(octets);
    out
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn answer(message: &[u8]) -> Option<[u8; 6]> {
    match u16_at(message, 4)? {
        RTM_NEWNEIGH => {}
        // ENOENT: the kernel has no entry yet.
        NLMSG_ERROR => return None,
        _ => return None,
    }
    if u16_at(message, HEADER_BYTES + 8)? & NUD_VALID == 0 {
        return None;
    }
    let mut rest = message.get(HEADER_BYTES + NDMSG_BYTES..)?;
    loop {
        let (len, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        if kind == NDA_LLADDR {
            return rest.get(4..len)?.try_into().ok();
        }
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_local_and_has_no_neighbour_of_that_address() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(is_local(here, 0).unwrap());
        assert!(!is_local(IpAddr::from([192, 0, 2, 77]), 0).unwrap());
        assert_eq!(route_error(here, 0).unwrap(), None);
        assert_eq!(hardware_address(IpAddr::from([192, 0, 2, 77]), 1).unwrap(), None);
    }

    #[test]
    fn a_question_that_fails_is_no_answer() {
        let link_local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]);
        assert!(is_local(link_local, 0).is_err(), "it needs an interface");
        assert!(route_error(link_local, 0).is_err(), "it needs an interface");
    }

    #[test]
    fn an_entry_is_read_and_a_cut_one_is_none() {
        let mut entry = vec![0; HEADER_BYTES + NDMSG_BYTES];
        entry[4..6].copy_from_slice(&RTM_NEWNEIGH.to_ne_bytes());
        entry[24..26].copy_from_slice(&2u16.to_ne_bytes());
        for (kind, bytes) in [(NDA_DST, vec![10, 0, 0, 9]), (NDA_LLADDR, vec![2, 0, 0, 0, 0, 7])] {
            entry.extend((4 + bytes.len() as u16).to_ne_bytes());
            entry.extend(kind.to_ne_bytes());
            entry.extend(&bytes);
            entry.resize(entry.len().next_multiple_of(4), 0);
        }
        assert_eq!(answer(&entry), Some([2, 0, 0, 0, 0, 7]));
        for len in 0..entry.len() - 2 {
            assert_eq!(answer(&entry[..len]), None);
        }
    }
}
