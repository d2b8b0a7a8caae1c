//! Requests of rtnetlink(7) that change interfaces of a virtual host, and the kernel's answer to them.

use std::io;
use std::net::IpAddr;

use weft_sys::netlink::RouteSocket;

use crate::rtnl::{AF_INET, AF_INET6, HEADER_BYTES, NLM_F_REQUEST, NLMSG_ERROR, u16_at, u32_at};

pub(crate) const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const NLM_F_ACK: u16 = 4;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;

/// Longest answer of the kernel: the request comes back in it.
const ANSWER_BYTES_MAX: usize = 4096;

const IFF_UP: u32 = 1;
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Switches an interface on, with this MTU if there is one.
pub fn switch_on(ifindex: u32, mtu: Option<u32>) -> Vec<u8> {
    let fixed = [&[0; 4][..], &ifindex.to_ne_bytes(), &IFF_UP.to_ne_bytes(), &IFF_UP.to_ne_bytes()].concat();
    let mtu = mtu.map(u32::to_ne_bytes);
    let attributes: Vec<(u16, &[u8])> = mtu.iter().map(|mtu| (IFLA_MTU, &mtu[..])).collect();
    request(RTM_NEWLINK, 0, &fixed, &attributes)
}

/// Sets the MTU of an interface.
pub fn set_mtu(ifindex: u32, mtu: u32) -> Vec<u8> {
    let fixed = [&[0; 4][..], &ifindex.to_ne_bytes(), &[0; 8]].concat();
    request(RTM_NEWLINK, 0, &fixed, &[(IFLA_MTU, &mtu.to_ne_bytes())])
}

/// Adds an address, with the length of its prefix.
pub fn add_address(ifindex: u32, ip: IpAddr, prefix: u8) -> Vec<u8> {
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let fixed = [&[family, prefix, 0, 0][..], &ifindex.to_ne_bytes()].concat();
    let attributes: [(u16, &[u8]); 2] = [(IFA_LOCAL, &bytes), (IFA_ADDRESS, &bytes)];
    request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &fixed, &attributes)
}

/// A request that the kernel is to answer.
pub(crate) fn request(kind: u16, flags: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    out.extend(fixed);
    for (attribute, value) in attributes {
        out.extend((value.len() as u16 + 4).to_ne_bytes());
        out.extend(attribute.to_ne_bytes());
        out.extend(*value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_ne_bytes());
    out[4..6].copy_from_slice(&kind.to_ne_bytes());
    out[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    out
}

/// The kernel's answer to a change, if the datagram is one.
pub fn outcome(datagram: &[u8]) -> Option<io::Result<()>> {
    if u16_at(datagram, 4)? != NLMSG_ERROR {
        return None;
    }
    // Zero, or an errno value below zero.
    match u32_at(datagram, HEADER_BYTES)?.cast_signed() {
        0 => Some(Ok(())),
        error => Some(Err(io::Error::from_raw_os_error(-error))),
    }
}

/// Makes a change and waits for the kernel's answer, which is there at once.
pub fn change(routes: &RouteSocket, request: &[u8]) -> io::Result<()> {
    routes.send(request)?;
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let length = routes.recv(&mut buffer)?;
        if let Some(outcome) = outcome(buffer.get(..length).unwrap_or_default()) {
            return outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_lengths_and_ask_for_an_answer() {
        let address = add_address(2, "10.0.0.1".parse().unwrap(), 8);
        assert_eq!((address.len(), u32_at(&address, 0)), (40, Some(40)));
        assert_eq!(u16_at(&address, 6), Some(NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL));
        assert_eq!(address[16..24], [2, 8, 0, 0, 2, 0, 0, 0]);
        assert_eq!(add_address(2, "fd00::1".parse().unwrap(), 64).len(), 64);
        assert_eq!((switch_on(1, None).len(), switch_on(2, Some(2044)).len()), (32, 40));
    }

    #[test]
    fn an_answer_is_an_error_or_none() {
        let answer = |errno: i32| {
            let mut bytes = vec![0; HEADER_BYTES + 4];
            bytes[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            bytes[HEADER_BYTES..].copy_from_slice(&(-errno).to_ne_bytes());
            bytes
        };
        assert!(matches!(outcome(&answer(0)), Some(Ok(()))));
        assert!(matches!(outcome(&answer(17)), Some(Err(error)) if error.raw_os_error() == Some(17)));
        assert!(outcome(&[0; 20]).is_none() && outcome(&[0; 3]).is_none());
    }
}
