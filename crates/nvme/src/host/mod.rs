//! Host's end: a controller with its queues, and the queries of `weft nvme discover`.

mod action;
mod backlog;
mod breach;
mod config;
mod controller;
mod discovery;
mod identity;
mod queues;
mod record;
mod request;
mod setup;
mod slots;
#[cfg(test)]
mod tests;

pub use action::{
    CommandData, ConnectRefusal, Content, HostAction, HostEvent, LostReason, Outcome, Outgoing, RequestFailure,
    RequestKey, SlotKey,
};
pub use breach::Breach;
pub use config::{HostConfig, HostName};
pub use controller::HostController;
pub use discovery::{DiscoverySession, HostError, HostStep};
pub use identity::{ControllerInfo, NamespaceIds, NamespaceInfo};
pub use record::{DiscoveryLog, DiscoveryRecord};
