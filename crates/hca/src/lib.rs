//! One process's slice of all its adapters: the object tables (protection domains, regions, windows, queues, queue
//! pairs), the dispatch of packets to queue pairs, timers, and the order of sending. [`Hca`] is driven from outside
//! under one lock: it has no thread, no clock and no socket, and it names memory by address without touching it.
//!
//! `objects` has the objects and their tables. [`Hca`] and its `context` hold them, and a file for each kind (`cq`, `qp`,
//! `mr`, ...) has the operations on them.
//!
//! Receiving: `demux` finds the queue pair, checks partition and sender, and hands the packet over; `context` provides
//! the adapter's services to the queue pair (keys, completion queues, shared receive queues). Sending: `schedule` lets
//! the queue pairs that want to send take turns at the batch.
#![forbid(unsafe_code)]

mod acks;
mod address;
mod admission;
mod config;
mod context;
mod counters;
mod cq;
mod datagrams;
mod demux;
mod device;
mod events;
mod hca;
mod hops;
mod host;
mod inject;
mod local_datagrams;
mod mcast;
mod modify;
mod mr;
mod mw;
mod objects;
mod owed_acks;
pub mod paths;
mod pd;
mod peer_quotas;
mod posted;
mod published;
mod qp;
mod rings;
mod rng;
mod schedule;
mod srq;
mod streams;
mod strict;
mod table;
mod timers;
mod usage;
mod violation;
mod xrcd;

pub use address::AhRequest;
pub use config::HcaConfig;
pub use counters::{HwCounters, PortCounters};
pub use demux::Screening;
pub use hca::Hca;
pub use host::{HostInterface, HostParts, PacketsOnly};
pub use inject::InjectedFailure;
pub use mr::MrKeys;
pub use mw::MwKeys;
pub use objects::EVENTS_MAX;
pub use posted::PostedRequest;
pub use qp::QpSummary;
pub use usage::HcaUsage;
pub use violation::{KeyViolation, RefusedKey};
