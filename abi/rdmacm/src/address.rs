//! Conversion of socket addresses between C and the daemon's form.

use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6};
use std::net::{Ipv4Addr, Ipv6Addr};
use weft_abi_types::{AF_IB, be16, rdma_cm_id, rdma_sockaddr, sockaddr_ib};
use weft_cm::rdma_cm::{SockAddr, SockAddrIb};

/// Reads an address; EINVAL for null and unknown families.
pub(crate) unsafe fn read(addr: *const sockaddr) -> Result<SockAddr, c_int> {
    if addr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller passes an address of its family's length, aligned or not.
    unsafe {
        match c_int::from((&raw const (*addr).sa_family).read_unaligned()) {
            AF_INET => {
                let sin: sockaddr_in = addr.cast::<sockaddr_in>().read_unaligned();
                let addr = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
                Ok(SockAddr::V4 { addr, port: u16::from_be(sin.sin_port) })
            }
            AF_INET6 => {
                let sin6: sockaddr_in6 = addr.cast::<sockaddr_in6>().read_unaligned();
                Ok(SockAddr::V6 {
                    addr: Ipv6Addr::from(sin6.sin6_addr.s6_addr),
                    port: u16::from_be(sin6.sin6_port),
                    flowinfo: u32::from_be(sin6.sin6_flowinfo),
                    scope_id: sin6.sin6_scope_id,
                })
            }
            AF_IB => {
                let sib: sockaddr_ib = addr.cast::<sockaddr_ib>().read_unaligned();
                Ok(SockAddr::Ib(SockAddrIb {
                    pkey: u16::from_be(sib.sib_pkey),
                    flowinfo: u32::from_be(sib.sib_flowinfo),
                    gid: sib.sib_addr,
                    sid: u64::from_be(sib.sib_sid),
                    sid_mask: u64::from_be(sib.sib_sid_mask),
                    scope_id: sib.sib_scope_id,
                }))
            }
            _ => Err(libc::EINVAL),
        }
    }
}

/// Reads an optional address: null means none.
pub(crate) unsafe fn read_optional(addr: *const sockaddr) -> Result<Option<SockAddr>, c_int> {
    if addr.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { read(addr).map(Some) }
}

/// Writes an address into an identifier, over the old one.
pub(crate) unsafe fn write(to: *mut rdma_sockaddr, addr: &SockAddr) {
    // SAFETY: the caller passes an address of an identifier, which has room for every family.
    unsafe {
        match *addr {
            SockAddr::V4 { addr, port } => {
                let sin = &raw mut (*to).sin;
                (*sin).sin_family = AF_INET as u16;
                (*sin).sin_port = port.to_be();
                (*sin).sin_addr.s_addr = u32::from(addr).to_be();
                (*sin).sin_zero = [0; 8];
            }
            SockAddr::V6 { addr, port, flowinfo, scope_id } => {
                let sin6 = &raw mut (*to).sin6;
                (*sin6).sin6_family = AF_INET6 as u16;
                (*sin6).sin6_port = port.to_be();
                (*sin6).sin6_flowinfo = flowinfo.to_be();
                (*sin6).sin6_addr.s6_addr = addr.octets();
                (*sin6).sin6_scope_id = scope_id;
            }
            SockAddr::Ib(ib) => (&raw mut (*to).sib).write(of_ib(&ib)),
        }
    }
}

/// Converts an InfiniBand address to its C form.
pub(crate) fn of_ib(ib: &SockAddrIb) -> sockaddr_ib {
    sockaddr_ib {
        sib_family: AF_IB as u16,
        sib_pkey: ib.pkey.to_be(),
        sib_flowinfo: ib.flowinfo.to_be(),
        sib_addr: ib.gid,
        sib_sid: ib.sid.to_be(),
        sib_sid_mask: ib.sid_mask.to_be(),
        sib_scope_id: ib.scope_id,
    }
}

/// Returns the port of an address, in network order; 0 if it has none.
pub(crate) unsafe fn port(addr: *const sockaddr) -> be16 {
    // SAFETY: as the caller promises.
    match unsafe { read(addr) } {
        Ok(SockAddr::Ib(ib)) => (ib.sid as u16).to_be(),
        Ok(addr) => addr.port().to_be(),
        Err(_) => 0,
    }
}

/// Returns the local port of an identifier, in network order.
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> be16 {
    if id.is_null() {
        return 0;
    }
    // SAFETY: an identifier of ours.
    unsafe { port((&raw const (*id).route.addr.src).cast()) }
}

/// Returns the peer's port of an identifier, in network order.
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> be16 {
    if id.is_null() {
        return 0;
    }
    // SAFETY: an identifier of ours.
    unsafe { port((&raw const (*id).route.addr.dst).cast()) }
}
