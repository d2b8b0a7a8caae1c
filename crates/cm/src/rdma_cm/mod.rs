//! The RDMA connection manager: what programs see of connections. Ids that are bound, that listen, resolve addresses
//! and connect; event channels; port spaces. It does what Linux's `cma.c` and `ucma.c` do, as a value without sockets
//! and clocks, on top of the InfiniBand connection manager in [`crate::ib`].

mod address;
mod client;
mod command;
mod device;
pub mod errno;
mod event;
mod host;
pub mod limits;
mod param;
mod service;

pub use address::{Family, PortSpace, SockAddr, SockAddrIb, gid_of_ip, ip_of_gid};
pub use client::{ChannelId, ClientId, Credentials};
pub use command::{
    Command, DeviceRef, GroupNumber, IdNumber, IdOption, IdSummary, JoinKind, Reply, RoceMode, RouteInfo,
};
pub use device::{Device, DeviceGid, LocalAddress};
pub use event::{CmEvent, EventKind, EventParam};
pub use host::{MulticastRequest, QuestionId, ResolveQuestion, ResolveRequest, ResolveResult, Resolved};
pub use param::{AhAttr, ConnParam, Ece, PathRecord, QpAttributes, UdParam};
pub use service::Service;
