//! The RDMA connection manager, the layer that programs use: ids that bind, listen, resolve addresses and connect;
//! event channels; port spaces. It does what Linux's `cma.c` and `ucma.c` do, as a value without sockets and clocks, on
//! top of the InfiniBand connection manager in [`crate::ib`].
//!
//! ```text
//!   programs:  handle_command -> Reply          poll_event -> (channel, CmEvent)
//!                     |                                ^
//!                     v                                |
//!               +------------------------------------------+   poll_resolve ---> routing table
//!               |  Service: ids, ports, channels, groups   |   handle_resolved <-'
//!               +------------------------------------------+   poll_multicast --> IGMP, MLD
//!                     |                                ^       handle_multicast <-'
//!                     v                                |
//!               poll_transmit -> (address, MAD)   handle_gmp(address, MAD)
//! ```
//!
//! After every call that takes `&mut self`, the owner drains `poll_event`, `poll_transmit`, `poll_resolve` and
//! `poll_multicast`, and gets the time of the next call from `poll_timeout`.

mod address;
mod addressee;
mod bind;
mod channel;
mod client;
mod clients;
mod command;
mod connect;
mod datagram;
mod device;
mod devices;
pub mod errno;
mod event;
mod groups;
mod host;
mod id;
mod incoming;
mod lifecycle;
pub mod limits;
mod listener;
mod message;
mod multicast;
mod param;
mod ports;
mod qp_attr;
mod recall;
mod resolve;
mod rng;
mod route;
mod service;
mod streams;
#[cfg(test)]
mod tests;

pub use address::{Family, PortSpace, SockAddr, SockAddrIb, gid_of_ip, ip_of_gid};
pub use client::{ChannelId, ClientId, Credentials};
pub use command::{
    Command, DeviceRef, GroupNumber, IdNumber, IdOption, IdSummary, JoinKind, Reply, RoceMode, RouteInfo,
};
pub use device::{Device, DeviceGid, LocalAddress, PortKind};
pub use errno::Errno;
pub use event::{CmEvent, EventKind, EventParam};
pub use host::{
    MulticastRequest, MulticastResult, PathQuestion, PathResult, QuestionId, ResolveQuestion, ResolveRequest,
    ResolveResult, Resolved,
};
pub use id::State;
pub use param::{AhAttr, ConnParam, Ece, PathRecord, QpAttributes, UdParam};
pub use service::Service;
pub use weft_mad::{GmpAddress, MadBytes};
