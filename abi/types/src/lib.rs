//! The C structures and constants of `<infiniband/verbs.h>`, `<rdma/rdma_cma.h>` and `<infiniband/umad.h>`, as rdma-core
//! 65 lays them out.
//!
//! Programs compiled against any rdma-core access these structures directly, so their layout is frozen, or grows only
//! where a size or a mask tells how much of it the other side knows. Names are those of the C header, and their meaning
//! is that of rdma-core's manual pages. `tests/layout.rs` has the C compiler compare every size and offset with the
//! installed headers.
//!
//! [`inlines`] are the inline calls of the header, for Rust programs that load a `libibverbs`; [`api`] loads one.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(missing_docs, reason = "the names and meanings are those of the verbs, rdma_cm and umad manual pages")]

mod ah;
pub mod api;
mod context;
mod counters;
mod cq;
mod device;
mod dm;
mod event;
mod flow;
mod flow_action;
mod gid;
mod handles;
pub mod inlines;
mod mr;
mod mr_init;
mod object;
mod pd;
mod port;
mod qp;
mod qp_ex;
mod qp_init;
mod rdma_cm;
mod sa;
mod srq;
mod umad;
mod wc;
mod wq;
mod wr;
mod xrc;

pub use ah::*;
pub use context::*;
pub use counters::*;
pub use cq::*;
pub use device::*;
pub use dm::*;
pub use event::*;
pub use flow::*;
pub use flow_action::*;
pub use gid::*;
pub use handles::*;
pub use mr::*;
pub use mr_init::*;
pub use object::*;
pub use pd::*;
pub use port::*;
pub use qp::*;
pub use qp_ex::*;
pub use qp_init::*;
pub use rdma_cm::*;
pub use sa::*;
pub use srq::*;
pub use umad::*;
pub use wc::*;
pub use wq::*;
pub use wr::*;
pub use xrc::*;

/// Two bytes in network order.
pub type be16 = u16;
/// Four bytes in network order.
pub type be32 = u32;
/// Eight bytes in network order.
pub type be64 = u64;
