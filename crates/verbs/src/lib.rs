//! The data types of verbs, free of any transport and any C layout: queue pairs, work requests, completions and
//! addresses. Every layer above the wire uses them; `abi/ibverbs` translates them to rdma-core's structs. Numeric
//! values are those of `infiniband/verbs.h`, so the translation is a cast wherever that is possible.
#![forbid(unsafe_code)]

mod access;
mod address;
mod attr;
mod error;
mod event;
pub mod injection;
mod limits;
pub mod op;
mod operands;
mod qp;
pub mod qp_state;
mod time;
pub mod units;
mod wc;
mod wr;

pub use access::Access;
pub use address::{AddressVector, Gid, GidEntry, GidType, Mtu};
pub use attr::{
    CqInit, DeviceAttr, IbPortAttr, PortAttr, PortState, QpAttr, QpAttrMask, QpCap, QpInit, SrqAttr, SrqInit,
};
pub use error::{Errno, VerbsError};
pub use event::{AsyncEvent, AsyncSubject, Event};
pub use ids::*;
pub use limits::*;
pub use op::{Op, OpInfo, SendOp, WcOpcode};
pub use operands::{MwBind, RemoteTarget};
pub use qp::{QpState, QpType};
pub use time::{Duration, Instant};
pub use wc::{VENDOR_ERR_INJECTED, Wc, WcFlags, WcStatus};
pub use wr::{RecvWr, SendFlags, SendWr, Sge, UdTarget};

mod ids;
