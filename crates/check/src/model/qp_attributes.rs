//! Arguments of ibv_modify_qp.

use super::objects::QpState;

/// An address vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressVector {
    /// Index in the port's GID table.
    pub gid_index: u8,
    /// Whether that entry is empty; `None` if the library cannot tell, or the vector has no global route.
    pub gid_is_empty: Option<bool>,
}

/// The arguments of `ibv_modify_qp`. Values that the mask leaves out are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttributes {
    /// `IBV_QP_*`.
    pub mask: u32,
    /// The queue pair's state before the call.
    pub from: QpState,
    /// The new state.
    pub state: Option<QpState>,
    /// The port.
    pub port: Option<u8>,
    /// Active MTU of the queue pair's port in bytes, if known.
    pub port_mtu_bytes: Option<u32>,
    /// Path MTU in bytes.
    pub path_mtu_bytes: Option<u32>,
    /// Local ACK timeout.
    pub timeout: Option<u8>,
    /// Retries.
    pub retry_count: Option<u8>,
    /// Outstanding READs and atomics as initiator.
    pub read_limit: Option<u8>,
    /// Remote access.
    pub access: Option<u32>,
    /// Primary path.
    pub address: Option<AddressVector>,
}

impl QpAttributes {
    /// A change of the state with this mask, whose values are not known.
    pub const fn change(mask: u32, from: QpState, to: QpState) -> QpAttributes {
        QpAttributes {
            mask,
            from,
            state: Some(to),
            port: None,
            port_mtu_bytes: None,
            path_mtu_bytes: None,
            timeout: None,
            retry_count: None,
            read_limit: None,
            access: None,
            address: None,
        }
    }
}
