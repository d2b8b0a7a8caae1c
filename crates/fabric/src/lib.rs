//! A virtual InfiniBand fabric: hosts with adapters, switches, routers and the cables between them. Management
//! datagrams cross it packet by packet along the forwarding tables that a subnet manager wrote; connected traffic asks
//! for a verdict on its path. Sans-I/O: the owner passes in the time and does the socket work.
#![forbid(unsafe_code)]

pub mod fuzzing;
pub mod limits;
pub mod state;
pub mod topology;

mod addresses;
mod agent;
mod cable;
mod counters;
mod datagram;
mod directed;
mod ethernet;
mod event;
mod fabric;
mod fault;
mod fec;
mod flight;
mod head;
mod hops;
mod multicast;
mod node;
mod over_ethernet;
mod packet;
mod pending_traps;
mod place;
mod pma;
mod port;
mod rng;
mod sma;
mod tables;
mod tap;
mod tapping;
#[cfg(test)]
mod tests;
mod training;
mod traps;
mod verdict;
mod view;
mod violation;
mod walk;

pub use addresses::Addresses;
pub use agent::unmatched;
#[cfg(test)]
use counters::Counters;
pub use counters::{Counter, Traffic};
pub use datagram::{Delivery, GlobalRoute, MadAddress, MadOut, SendError};
pub use ethernet::{EthernetGid, EthernetPorts};
pub use event::{Changes, Event};
pub use fabric::Fabric;
pub use fault::{CableView, FaultError};
pub use hops::{Transit, lane_of};
pub use multicast::{Arrival, PacketInfo};
pub use node::AgentFault;
pub use place::PortRef;
pub use tables::{PKEY_DEFAULT, PKEY_FULL, pkeys_match};
pub use tap::{Direction, Tapped};
pub use verdict::{Path, PathQuery, Spread, Verdict};
pub use violation::BadQkey;
pub use walk::{Refusal, Why};
