//! Local and remote end of an identifier: binding, resolving the peer's address and the route, listening.

use libc::{c_int, sockaddr};
use weft_abi_types::rdma_cm_id;
use weft_cm::rdma_cm::{Command, Reply, RouteInfo};
use weft_verbs::injection::Call;

use crate::complete::complete;
use crate::errors::code;
use crate::id::Id;
use crate::{address, failure};

/// Binds to a local address; port 0 selects a free one.
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { bind(id, addr) })
}

/// As [`rdma_bind_addr`].
pub(crate) unsafe fn bind(id: *mut rdma_cm_id, addr: *const sockaddr) -> Result<(), c_int> {
    // SAFETY: the program's identifier and address.
    let (this, addr) = unsafe { (Id::of_argument(id)?, address::read(addr)?) };
    failure::of_call(Some(this), Call::CmBindAddr)?;
    this.show(&routed(this.ask(Command::Bind { id: this.number, addr })?)?)
}

/// Finds the device and the peer's GID for an address; ADDR_RESOLVED or ADDR_ERROR follows.
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { resolve_addr(id, src_addr, dst_addr, timeout_ms) })
}

/// As [`rdma_resolve_addr`].
pub(crate) unsafe fn resolve_addr(
    id: *mut rdma_cm_id,
    src: *const sockaddr,
    dst: *const sockaddr,
    timeout_ms: c_int,
) -> Result<(), c_int> {
    // SAFETY: the program's identifier and addresses.
    unsafe {
        let this = Id::of_argument(id)?;
        let (dst, src) = (address::read(dst)?, address::read_optional(src)?);
        let timeout_ms = timeout_ms as u32;
        if !failure::of_work(this, Call::CmResolveAddr)? {
            this.order(Command::ResolveAddr { id: this.number, src, dst, timeout_ms })?;
        }
        address::write(&raw mut (*id).route.addr.dst, &dst);
        complete(id)
    }
}

/// Finds the route to the resolved address; ROUTE_RESOLVED or ROUTE_ERROR follows.
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { resolve_route(id, timeout_ms) })
}

/// As [`rdma_resolve_route`].
pub(crate) unsafe fn resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> Result<(), c_int> {
    // SAFETY: the program's identifier.
    unsafe {
        let this = Id::of_argument(id)?;
        if !failure::of_work(this, Call::CmResolveRoute)? {
            this.order(Command::ResolveRoute { id: this.number, timeout_ms: timeout_ms as u32 })?;
        }
        complete(id)
    }
}

/// Listens for connection requests on the identifier's address; at most `backlog` requests may wait.
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: the program's identifier.
    code(unsafe { Id::of_argument(id) }.and_then(|this| {
        failure::of_call(Some(this), Call::CmListen)?;
        this.show(&routed(this.ask(Command::Listen { id: this.number, backlog })?)?)
    }))
}

/// Extracts addresses and route from a reply.
fn routed(reply: Reply) -> Result<RouteInfo, c_int> {
    match reply {
        Reply::Route(info) => Ok(*info),
        _ => Err(libc::EPROTO),
    }
}
