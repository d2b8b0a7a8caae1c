//! Local and remote end of an identifier: binding, resolving the peer's address and the route, listening.

use libc::{c_int, sockaddr};
use std::ptr::null_mut;
use weft_abi_types::{IBV_PATH_RECORD_REVERSIBLE, ibv_gid, ibv_path_data, ibv_sa_path_rec, rdma_cm_id};
use weft_cm::rdma_cm::{Command, PathRecord, Reply, RouteInfo};

use crate::address;
use crate::errors::{code, made};
use crate::id::{Id, complete};

/// Binds to a local address; port 0 selects a free one.
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe { bind(id, addr) })
}

/// As [`rdma_bind_addr`].
pub(crate) unsafe fn bind(id: *mut rdma_cm_id, addr: *const sockaddr) -> Result<(), c_int> {
    // SAFETY: the program's identifier and address.
    let (this, addr) = unsafe { (Id::of_argument(id)?, address::read(addr)?) };
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
        this.order(Command::ResolveAddr { id: this.number, src, dst, timeout_ms })?;
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
        this.order(Command::ResolveRoute { id: this.number, timeout_ms: timeout_ms as u32 })?;
        complete(id)
    }
}

/// Listens for connection requests on the identifier's address; at most `backlog` requests may wait.
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: the program's identifier.
    code(
        unsafe { Id::of_argument(id) }
            .and_then(|this| this.show(&routed(this.ask(Command::Listen { id: this.number, backlog })?)?)),
    )
}

/// Extracts addresses and route from a reply.
fn routed(reply: Reply) -> Result<RouteInfo, c_int> {
    match reply {
        Reply::Route(info) => Ok(*info),
        _ => Err(libc::EPROTO),
    }
}

/// Queries an identifier's route, and shows its paths.
pub(crate) fn show_paths(id: &Id) -> Result<(), c_int> {
    put_paths(id, &id.query()?)
}

/// Queries everything about an identifier, and shows it.
pub(crate) fn show_all(id: &Id) -> Result<(), c_int> {
    let info = id.query()?;
    id.show(&info)?;
    put_paths(id, &info)
}

fn put_paths(id: &Id, info: &RouteInfo) -> Result<(), c_int> {
    if info.paths.is_empty() {
        return Ok(());
    }
    // SAFETY: records are plain numbers, in memory from malloc like rdma-core's; the program owns the identifier, and
    // does not touch its route during a call.
    unsafe {
        let records: *mut ibv_sa_path_rec = made(libc::calloc(info.paths.len(), size_of::<ibv_sa_path_rec>()))?.cast();
        for (i, path) in info.paths.iter().enumerate() {
            records.add(i).write(record(path));
        }
        let id = id.public();
        clear(id);
        (*id).route.path_rec = records;
        (*id).route.num_paths = info.paths.len() as c_int;
    }
    Ok(())
}

/// Frees an identifier's paths.
pub(crate) unsafe fn clear(id: *mut rdma_cm_id) {
    // SAFETY: the caller's identifier; the paths are memory from malloc, or null.
    unsafe {
        libc::free((*id).route.path_rec.cast());
        (*id).route.path_rec = null_mut();
        (*id).route.num_paths = 0;
    }
}

/// Converts a path to the form that programs see.
fn record(path: &PathRecord) -> ibv_sa_path_rec {
    ibv_sa_path_rec {
        dgid: ibv_gid { raw: path.dgid },
        sgid: ibv_gid { raw: path.sgid },
        dlid: path.dlid.to_be(),
        slid: path.slid.to_be(),
        raw_traffic: path.raw_traffic.into(),
        flow_label: path.flow_label.to_be(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: path.reversible.into(),
        numb_path: path.numb_path,
        pkey: path.pkey.to_be(),
        sl: path.sl,
        mtu_selector: path.mtu_selector,
        mtu: path.mtu,
        rate_selector: path.rate_selector,
        rate: path.rate,
        packet_life_time_selector: path.packet_life_time_selector,
        packet_life_time: path.packet_life_time,
        preference: path.preference,
    }
}

/// Width of a value; its selector is in the bits above.
const VALUE_BITS: u8 = 6;

/// Converts a path from the form that programs pass.
pub(crate) fn path(data: &ibv_path_data) -> PathRecord {
    let path = &data.path;
    let flow_hop = u32::from_be(path.flowlabel_hoplimit);
    let qos_sl = u16::from_be(path.qosclass_sl);
    let value = |byte: u8| byte & ((1 << VALUE_BITS) - 1);
    // SAFETY: every form of a GID is sixteen bytes.
    let (dgid, sgid) = unsafe { (path.dgid.raw, path.sgid.raw) };
    PathRecord {
        service_id: u64::from_be(path.service_id),
        dgid,
        sgid,
        dlid: u16::from_be(path.dlid),
        slid: u16::from_be(path.slid),
        raw_traffic: flow_hop >> 31 != 0,
        flow_label: (flow_hop >> 8) & 0xF_FFFF,
        hop_limit: flow_hop as u8,
        traffic_class: path.tclass,
        reversible: path.reversible_numpath & IBV_PATH_RECORD_REVERSIBLE != 0,
        numb_path: path.reversible_numpath & !IBV_PATH_RECORD_REVERSIBLE,
        pkey: u16::from_be(path.pkey),
        qos_class: qos_sl >> 4,
        sl: (qos_sl & 0xF) as u8,
        mtu_selector: path.mtu >> VALUE_BITS,
        mtu: value(path.mtu),
        rate_selector: path.rate >> VALUE_BITS,
        rate: value(path.rate),
        packet_life_time_selector: path.packetlifetime >> VALUE_BITS,
        packet_life_time: value(path.packetlifetime),
        preference: path.preference,
    }
}
