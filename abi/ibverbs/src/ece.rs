//! Enhanced connection establishment: vendor options that two ends agree on. Weft has none.

use libc::{EOPNOTSUPP, c_int};
use weft_abi_types::{ibv_ece, ibv_qp};

use crate::errors::fail;

/// Fails: no options can be set.
pub extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    fail(EOPNOTSUPP)
}

/// Fails: there are no options.
pub extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    fail(EOPNOTSUPP)
}
