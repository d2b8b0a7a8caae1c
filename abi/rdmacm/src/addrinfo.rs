//! Name resolution: `getaddrinfo(3)` in the terms of the connection manager.

use libc::{
    AI_NUMERICHOST, AI_PASSIVE, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, addrinfo, c_char, c_int, sockaddr,
    sockaddr_in6, socklen_t,
};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use weft_abi_types::{
    AF_IB, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, RAI_DNS, RAI_FAMILY,
    RAI_NUMERICHOST, RAI_PASSIVE, RAI_SA, RDMA_IB_IP_PORT_MASK, RDMA_IB_IP_PS_MASK, RDMA_PS_IB, RDMA_PS_IPOIB,
    RDMA_PS_TCP, RDMA_PS_UDP, ibv_qp_type, rdma_addrinfo, rdma_port_space, sockaddr_ib,
};
use weft_cm::rdma_cm::SockAddrIb;

use crate::address;
use crate::device;
use crate::errors::{fail, made};

/// P_Key of the default partition, with full membership.
const PKEY_DEFAULT: u16 = 0xFFFF;

/// The program's hints.
#[derive(Clone, Copy)]
struct Hints {
    flags: c_int,
    family: c_int,
    qp_type: ibv_qp_type,
    port_space: rdma_port_space,
    src: *const sockaddr,
    src_len: socklen_t,
    dst: *const sockaddr,
    dst_len: socklen_t,
}

impl Hints {
    unsafe fn of(hints: *const rdma_addrinfo) -> Option<Hints> {
        // SAFETY: the caller's hints, or null.
        let hints = unsafe { hints.as_ref()? };
        Some(Hints {
            flags: hints.ai_flags,
            family: hints.ai_family,
            qp_type: hints.ai_qp_type as ibv_qp_type,
            port_space: hints.ai_port_space as rdma_port_space,
            src: hints.ai_src_addr,
            src_len: hints.ai_src_len,
            dst: hints.ai_dst_addr,
            dst_len: hints.ai_dst_len,
        })
    }

    /// Converts to hints for `getaddrinfo(3)`.
    fn for_host(&self) -> addrinfo {
        // SAFETY: a structure of integers and pointers, all of which may be zero.
        let mut ai: addrinfo = unsafe { std::mem::zeroed() };
        if self.flags & RAI_PASSIVE != 0 {
            ai.ai_flags |= AI_PASSIVE;
        }
        if self.flags & RAI_NUMERICHOST != 0 {
            ai.ai_flags |= AI_NUMERICHOST;
        }
        if self.family != AF_IB {
            ai.ai_family = self.family;
        }
        ai.ai_socktype = match self.qp_type {
            IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => SOCK_STREAM,
            IBV_QPT_UD => SOCK_DGRAM,
            _ => 0,
        };
        ai.ai_protocol = match (self.port_space, ai.ai_socktype) {
            (RDMA_PS_TCP, _) | (RDMA_PS_IB, SOCK_STREAM) => IPPROTO_TCP,
            (RDMA_PS_IPOIB | RDMA_PS_UDP, _) | (RDMA_PS_IB, SOCK_DGRAM) => IPPROTO_UDP,
            _ => 0,
        };
        ai
    }

    /// Whether the answer must be an InfiniBand address.
    fn wants_ib(&self) -> bool {
        self.flags & RAI_FAMILY != 0 && self.family == AF_IB && self.flags & RAI_NUMERICHOST != 0
    }
}

/// Resolves a node and a service, or copies the addresses in the hints. Returns 0, -1 with errno, or an error of
/// `getaddrinfo(3)`. The answer never contains routes: no `ibacm` provides them.
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    if (node.is_null() && service.is_null() && hints.is_null()) || res.is_null() {
        return fail(libc::EINVAL);
    }
    if let Err(errno) = device::present() {
        return fail(errno);
    }
    // SAFETY: the caller's names and hints, or null, and a place for the answer.
    unsafe {
        let hints = Hints::of(hints);
        if hints.is_some_and(|hints| hints.flags & RAI_SA != 0) {
            // Only subnet administrators have service records, and RoCE has no administrator.
            let wrong = !node.is_null() || hints.is_some_and(|hints| hints.flags & RAI_DNS != 0);
            return fail(if wrong { libc::EOPNOTSUPP } else { libc::ENOENT });
        }
        let new: *mut rdma_addrinfo = match made(libc::calloc(1, size_of::<rdma_addrinfo>())) {
            Ok(new) => new.cast(),
            Err(errno) => return fail(errno),
        };
        let filled =
            if node.is_null() && service.is_null() { copy(new, hints) } else { ask(new, node, service, hints) };
        match filled.and_then(|()| take_source(new, hints)) {
            Ok(()) => {
                *res = new;
                0
            }
            Err(failure) => {
                rdma_freeaddrinfo(new);
                failure.code()
            }
        }
    }
}

/// Reason for a failed resolution.
enum Failure {
    Errno(c_int),
    /// Error of `getaddrinfo(3)`.
    Host(c_int),
}

impl From<c_int> for Failure {
    fn from(errno: c_int) -> Failure {
        Failure::Errno(errno)
    }
}

impl Failure {
    fn code(self) -> c_int {
        match self {
            Failure::Errno(errno) => fail(errno),
            Failure::Host(code) => code,
        }
    }
}

/// Without names, copies the answer from the hints.
unsafe fn copy(to: *mut rdma_addrinfo, hints: Option<Hints>) -> Result<(), Failure> {
    let Some(hints) = hints else { return Ok(()) };
    // SAFETY: the caller's structure, and the program's addresses.
    unsafe {
        (*to).ai_flags = hints.flags;
        (*to).ai_family = hints.family;
        (*to).ai_qp_type = hints.qp_type as c_int;
        (*to).ai_port_space = hints.port_space as c_int;
        if hints.dst_len > 0 {
            ((*to).ai_dst_addr, (*to).ai_dst_len) = duplicate(hints.dst, hints.dst_len)?;
        }
    }
    Ok(())
}

/// Copies the connection's source address from the hints.
unsafe fn take_source(to: *mut rdma_addrinfo, hints: Option<Hints>) -> Result<(), Failure> {
    // SAFETY: as in `copy`.
    unsafe {
        if let Some(hints) = hints
            && (*to).ai_src_len == 0
            && hints.src_len > 0
        {
            ((*to).ai_src_addr, (*to).ai_src_len) = duplicate(hints.src, hints.src_len)?;
        }
    }
    Ok(())
}

/// Queries the host's resolver.
unsafe fn ask(
    to: *mut rdma_addrinfo,
    node: *const c_char,
    service: *const c_char,
    hints: Option<Hints>,
) -> Result<(), Failure> {
    let mut found = MaybeUninit::<*mut addrinfo>::uninit();
    // SAFETY: the program's names; an answer exists if the call succeeds, and is freed once.
    unsafe {
        let for_host = hints.map(|hints| hints.for_host());
        let for_host = for_host.as_ref().map_or(null(), |hints| hints as *const addrinfo);
        match libc::getaddrinfo(node, service, for_host, found.as_mut_ptr()) {
            0 => {}
            code => return Err(Failure::Host(code)),
        }
        let found = found.assume_init();
        let taken = take(to, hints, &*found);
        libc::freeaddrinfo(found);
        Ok(taken?)
    }
}

/// Takes the host's first answer.
unsafe fn take(to: *mut rdma_addrinfo, hints: Option<Hints>, from: &addrinfo) -> Result<(), c_int> {
    let (mut qp_type, mut port_space) = hints.map_or((0, 0), |hints| (hints.qp_type, hints.port_space));
    if qp_type == 0 {
        qp_type = match from.ai_socktype {
            SOCK_STREAM => IBV_QPT_RC,
            SOCK_DGRAM => IBV_QPT_UD,
            _ => 0,
        };
    }
    if port_space == 0 {
        port_space = match from.ai_protocol {
            IPPROTO_TCP => RDMA_PS_TCP,
            IPPROTO_UDP => RDMA_PS_UDP,
            _ => 0,
        };
    }
    let wants_ib = hints.is_some_and(|hints| hints.wants_ib());
    // SAFETY: the caller's structure and the host's answer.
    unsafe {
        (*to).ai_qp_type = qp_type as c_int;
        (*to).ai_port_space = port_space as c_int;
        (*to).ai_family = if wants_ib { AF_IB } else { from.ai_family };
        let (addr, len) = match wants_ib {
            true => infiniband(port_space, from)?,
            false => duplicate(from.ai_addr, from.ai_addrlen)?,
        };
        let name = if from.ai_canonname.is_null() { null_mut() } else { libc::strdup(from.ai_canonname) };
        if from.ai_flags & AI_PASSIVE != 0 {
            (*to).ai_flags = RAI_PASSIVE;
            ((*to).ai_src_addr, (*to).ai_src_len, (*to).ai_src_canonname) = (addr, len, name);
        } else {
            ((*to).ai_dst_addr, (*to).ai_dst_len, (*to).ai_dst_canonname) = (addr, len, name);
        }
    }
    Ok(())
}

/// Copies an address into memory from malloc.
unsafe fn duplicate(addr: *const sockaddr, len: socklen_t) -> Result<(*mut sockaddr, socklen_t), c_int> {
    if addr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: an address of that length, as the caller promises.
    unsafe {
        let copy = made(libc::malloc(len as usize))?;
        std::ptr::copy_nonoverlapping(addr.cast::<u8>(), copy.cast::<u8>(), len as usize);
        Ok((copy.cast(), len))
    }
}

/// Converts an IPv6 address and its port to an InfiniBand address.
unsafe fn infiniband(ps: rdma_port_space, from: &addrinfo) -> Result<(*mut sockaddr, socklen_t), c_int> {
    if (from.ai_addrlen as usize) < size_of::<sockaddr_in6>() {
        return Err(libc::EAFNOSUPPORT);
    }
    // SAFETY: long enough, as just checked; the copy is memory from malloc, and any bytes are a valid address.
    unsafe {
        let sin6: sockaddr_in6 = from.ai_addr.cast::<sockaddr_in6>().read_unaligned();
        let port = u16::from_be(sin6.sin6_port);
        let mut ib = SockAddrIb {
            pkey: PKEY_DEFAULT,
            flowinfo: u32::from_be(sin6.sin6_flowinfo),
            gid: sin6.sin6_addr.s6_addr,
            sid: (u64::from(ps) << 16) + u64::from(port),
            sid_mask: 0,
            scope_id: sin6.sin6_scope_id.into(),
        };
        if ps != 0 {
            ib.sid_mask |= RDMA_IB_IP_PS_MASK;
        }
        if port != 0 {
            ib.sid_mask |= RDMA_IB_IP_PORT_MASK;
        }
        let sib = address::of_ib(&ib);
        duplicate((&raw const sib).cast(), size_of::<sockaddr_ib>() as socklen_t)
    }
}

/// Frees a list of addresses.
pub unsafe extern "C" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    let mut next = res;
    // SAFETY: allocated here; every pointer in it is memory from malloc, or null.
    unsafe {
        while !next.is_null() {
            let this = next;
            next = (*this).ai_next;
            libc::free((*this).ai_connect);
            libc::free((*this).ai_route);
            libc::free((*this).ai_src_canonname.cast());
            libc::free((*this).ai_dst_canonname.cast());
            libc::free((*this).ai_src_addr.cast());
            libc::free((*this).ai_dst_addr.cast());
            libc::free(this.cast());
        }
    }
}
