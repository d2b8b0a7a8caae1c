//! The GID table of a port.

use libc::c_int;
use weft_abi_types::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, ibv_context, ibv_gid, ibv_gid_entry,
};
use weft_verbs::{GID_TABLE_LEN, GidEntry, GidType, PortAttr};

use crate::context::Context;
use crate::errors::{code, fail_minus_one};
use crate::object::zeroed;
use crate::port::port_of;

fn entry_of(row: &GidEntry, port: u32, fabric: bool) -> ibv_gid_entry {
    let mut entry: ibv_gid_entry = zeroed();
    entry.gid = ibv_gid { raw: row.gid.0 };
    entry.gid_index = row.index;
    entry.port_num = port;
    entry.gid_type = match row.gid_type {
        GidType::RoceV2 => IBV_GID_TYPE_ROCE_V2,
        GidType::IbOrRoceV1 if fabric => IBV_GID_TYPE_IB,
        GidType::IbOrRoceV1 => IBV_GID_TYPE_ROCE_V1,
    };
    entry.ndev_ifindex = row.ifindex;
    entry
}

/// Returns the valid rows of a port's table.
fn rows_of(number: u32, port: &PortAttr) -> Vec<ibv_gid_entry> {
    port.gids.iter().map(|row| entry_of(row, number, port.infiniband.is_some())).collect()
}

/// Returns the valid rows of all ports' tables.
fn rows(context: *mut ibv_context) -> Result<Vec<ibv_gid_entry>, c_int> {
    if context.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a context of ours.
    let device = unsafe { Context::of(context) }.device_attr()?;
    Ok((1..).zip(&device.ports).flat_map(|(number, port)| rows_of(number, port)).collect())
}

/// Returns one row; ENODATA if it is empty.
fn row(context: *mut ibv_context, port_num: u32, index: u32) -> Result<ibv_gid_entry, c_int> {
    let port = port_of(context, port_num)?;
    if index >= GID_TABLE_LEN {
        return Err(libc::EINVAL);
    }
    rows_of(port_num, &port).into_iter().find(|row| row.gid_index == index).ok_or(libc::ENODATA)
}

/// Writes the part of an entry that the caller's version of the structure has.
///
/// # Safety
/// `to` has room for `size` bytes.
unsafe fn write_entry(to: *mut u8, size: usize, entry: &ibv_gid_entry) {
    let known = size_of::<ibv_gid_entry>().min(size);
    // SAFETY: by the contract.
    unsafe {
        to.write_bytes(0, size);
        to.copy_from_nonoverlapping(std::ptr::from_ref(entry).cast(), known);
    }
}

/// Returns the GID of a row; zero if it is empty.
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let (Ok(index), false) = (u32::try_from(index), gid.is_null()) else {
        return fail_minus_one(libc::EINVAL);
    };
    let found = match row(context, u32::from(port_num), index) {
        Ok(entry) => entry.gid,
        Err(libc::ENODATA) => ibv_gid { raw: [0; 16] },
        Err(errno) => return fail_minus_one(errno),
    };
    // SAFETY: the caller's place for the answer.
    unsafe { *gid = found };
    0
}

/// Returns a row with all its fields; ENODATA if it is empty.
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    if flags != 0 {
        return code(Err(libc::EOPNOTSUPP));
    }
    if entry.is_null() || entry_size < size_of::<ibv_gid_entry>() {
        return code(Err(libc::EINVAL));
    }
    match row(context, port_num, gid_index) {
        // SAFETY: the caller states the size of its entry.
        Ok(found) => unsafe { write_entry(entry.cast(), entry_size, &found) },
        Err(errno) => return code(Err(errno)),
    }
    0
}

/// Returns all valid rows: their number, or a negative errno value.
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    if flags != 0 {
        return -(libc::EOPNOTSUPP as isize);
    }
    if entries.is_null() || entry_size < size_of::<ibv_gid_entry>() {
        return -(libc::EINVAL as isize);
    }
    let rows = match rows(context) {
        Ok(rows) => rows,
        Err(errno) => return -(errno as isize),
    };
    if rows.len() > max_entries {
        return -(libc::EINVAL as isize);
    }
    for (i, row) in rows.iter().enumerate() {
        // SAFETY: the caller states that it has room for max_entries entries of this size.
        unsafe { write_entry(entries.cast::<u8>().add(i * entry_size), entry_size, row) };
    }
    rows.len() as isize
}

/// Returns the sysfs number of a row's type: 0 for InfiniBand and RoCE v1, 1 for RoCE v2.
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: u32,
    kind: *mut u32,
) -> c_int {
    let found = match row(context, u32::from(port_num), index) {
        Ok(entry) => u32::from(entry.gid_type == IBV_GID_TYPE_ROCE_V2),
        Err(libc::ENODATA) => 0,
        Err(errno) => return fail_minus_one(errno),
    };
    if kind.is_null() {
        return fail_minus_one(libc::EINVAL);
    }
    // SAFETY: the caller's place for the answer.
    unsafe { *kind = found };
    0
}
