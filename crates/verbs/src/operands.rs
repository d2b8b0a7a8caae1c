//! Parameters of operations: memory at the peer, and binds of memory windows.

use crate::Access;

/// Memory at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RemoteTarget {
    /// Address.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

/// Parameters of a memory window bind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwBind {
    /// Current R_Key of the window (the window's handle on the data path).
    pub mw_rkey: u32,
    /// New R_Key (type 2: same index, the caller's tag; type 1: chosen at post time).
    pub new_rkey: u32,
    /// L_Key of the underlying region.
    pub mr_lkey: u32,
    /// First address of the range.
    pub addr: u64,
    /// Length in bytes; 0 unbinds (type 1).
    pub length: u64,
    /// Rights granted.
    pub access: Access,
}
