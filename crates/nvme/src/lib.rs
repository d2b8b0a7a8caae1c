//! NVMe over RDMA (NVM Express over Fabrics 1.1, RDMA Transport 1.0). Values in, values out: the owner of the queue pairs
//! feeds received capsules and completed work, and carries out the actions that come out. Time is passed in.
//!
//! - [`wire`]: commands, completions, data descriptors, RDMA CM's private data;
//! - `page`: data structures of Identify and Get Log Page;
//! - [`Target`]: the target's end, with all controllers and queues;
//! - [`HostController`]: a host's end of one controller, with its queues and requests;
//! - [`DiscoverySession`]: a host's query of a discovery controller.
//!
//! Names and numbers are those of the NVM Express Base Specification 1.4.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod fuzzing;
mod host;
pub mod limits;
mod operation;
mod page;
mod status;
mod target;
pub mod wire;

pub use host::{
    Breach, CommandData, ConnectRefusal, Content, ControllerInfo, DiscoveryLog, DiscoveryRecord, DiscoverySession,
    HostAction, HostConfig, HostController, HostError, HostEvent, HostName, HostStep, LostReason, NamespaceIds,
    NamespaceInfo, Outcome, Outgoing, RequestFailure, RequestKey, SlotKey,
};
pub use operation::Operation;
pub use status::Status;
pub use target::{
    Action, Admitted, CloseReason, CommandKey, ControllerEvent, IoData, LocalAddress, Namespace, Port, QueueKey,
    Referral, Response, Subsystem, Target, TargetConfig,
};
