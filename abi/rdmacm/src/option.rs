//! Options of identifiers.

use libc::{c_int, c_void};
use weft_abi_types::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, RDMA_OPTION_ID_AFONLY,
    RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, ibv_path_data, rdma_cm_id,
};
use weft_cm::rdma_cm::{Command, IdOption, limits};

use crate::errors::code;
use crate::id::Id;
use crate::paths;

/// Sets an option of an identifier.
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: the program's identifier, and its value of the stated length.
    code(unsafe { set(id, level, optname, optval, optlen) })
}

/// As [`rdma_set_option`].
pub(crate) unsafe fn set(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe {
        let this = Id::of_argument(id)?;
        if value.is_null() {
            return Err(libc::EINVAL);
        }
        let option = match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => IdOption::Tos(number::<u8>(value, len)?),
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => IdOption::ReuseAddr(number::<c_int>(value, len)? != 0),
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => IdOption::AfOnly(number::<c_int>(value, len)? != 0),
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => IdOption::AckTimeout(number::<u8>(value, len)?),
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => IdOption::IbPath(paths(value, len)?),
            _ => return Err(libc::ENOSYS),
        };
        this.order(Command::SetOption { id: this.number, option })
    }
}

/// Reads a value of exactly its type's length.
unsafe fn number<T>(value: *const c_void, len: usize) -> Result<T, c_int> {
    if len != size_of::<T>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: `value` has the checked length, as the caller promises; any bytes are a number.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// Reads paths, one after another.
unsafe fn paths(value: *const c_void, len: usize) -> Result<Vec<weft_cm::rdma_cm::PathRecord>, c_int> {
    let count = len / size_of::<ibv_path_data>();
    if count == 0 || !len.is_multiple_of(size_of::<ibv_path_data>()) || count > limits::PATHS_MAX {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller states the length; any bytes are numbers.
    Ok((0..count).map(|i| paths::path(&unsafe { value.cast::<ibv_path_data>().add(i).read_unaligned() })).collect())
}
