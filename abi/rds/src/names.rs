//! Numbers of RDS sockets and their options (`<linux/rds.h>`).

use libc::c_int;

/// The family of RDS sockets.
pub const AF_RDS: c_int = 21;
/// Level of RDS's own options.
pub const SOL_RDS: c_int = 276;
/// Option: forget what was sent to an address.
pub const CANCEL_SENT_TO: c_int = 1;
/// Option: offer memory to peers.
pub const GET_MR: c_int = 2;
/// Option: end what GET_MR offers.
pub const FREE_MR: c_int = 3;
/// Option: report failed operations.
pub const RECVERR: c_int = 5;
/// Option: report ports that are no longer congested.
pub const CONG_MONITOR: c_int = 6;
/// Option: offer memory to a peer.
pub const GET_MR_FOR_DEST: c_int = 7;
/// Option: the transport.
pub const SO_RDS_TRANSPORT: c_int = 8;
/// The transport over RDMA.
pub const TRANS_IB: c_int = 0;
/// No transport yet.
pub const TRANS_NONE: c_int = !0;
/// First option of lists.
pub const INFO_FIRST: c_int = 10_000;
/// Last option of lists.
pub const INFO_LAST: c_int = 10_017;
