//! Enhanced connection establishment: vendor options that two ends agree on. There are none, and nothing to agree on.

use libc::{EOPNOTSUPP, c_int};
use weft_abi_types::{ibv_ece, ibv_qp};

use crate::errors::fail;

/// No options can be set.
pub extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    fail(EOPNOTSUPP)
}

/// There are no options.
pub extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    fail(EOPNOTSUPP)
}
