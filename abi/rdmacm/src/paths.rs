//! Paths as programs see them and pass them.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::{IBV_PATH_RECORD_REVERSIBLE, ibv_gid, ibv_path_data, ibv_sa_path_rec, rdma_cm_id};
use weft_cm::rdma_cm::PathRecord;

use crate::errors::made;

/// Gives an identifier these paths.
pub(crate) unsafe fn put(id: *mut rdma_cm_id, paths: &[PathRecord]) -> Result<(), c_int> {
    if paths.is_empty() {
        return Ok(());
    }
    // SAFETY: records are plain numbers, in memory from malloc like rdma-core's; the program owns the identifier, and
    // does not touch its route during a call.
    unsafe {
        let records: *mut ibv_sa_path_rec = made(libc::calloc(paths.len(), size_of::<ibv_sa_path_rec>()))?.cast();
        for (i, path) in paths.iter().enumerate() {
            records.add(i).write(record(path));
        }
        clear(id);
        (*id).route.path_rec = records;
        (*id).route.num_paths = paths.len() as c_int;
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
