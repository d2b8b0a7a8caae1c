//! IP over InfiniBand (RFC 4391, RFC 4392, RFC 4755), as values: an [`Interface`] takes IP packets, datagrams, answers of the
//! subnet administration and the time, and returns what to send, join, resolve, connect and deliver. Its driver owns the
//! queue pairs, the connection manager and the kernel's interface.
//!
//! ```text
//!   kernel ── IP packet ──▶ neighbours ── link-layer address ──▶ paths ── LID ──▶ datagram
//!                     │                                    └───▶ connections ───▶ message
//!                     └───▶ groups ──────────────────────────────────── MLID ──▶ datagram
//!   datagram ──▶ ARP, neighbour discovery ──▶ neighbours
//!          └───▶ IP packet ──▶ kernel
//! ```
#![forbid(unsafe_code)]

mod checksum;
mod connections;
mod discovery;
mod frame;
mod groups;
mod held;
mod interface;
mod ip_payload;
pub mod limits;
mod memberships;
mod neighbours;
mod offload;
mod output;
mod paths;
mod routes;
mod segment;
#[cfg(test)]
mod tests;
mod too_long;
mod vnet_header;

pub use frame::{Frame, PlainFrames, Run};
pub use interface::{ConnectionRequest, Interface, Mode, Port, Rejection, Sender};
pub use memberships::queries;
pub use neighbours::NeighbourState;
pub use output::{Connection, Destination, Output};
pub use routes::{NextHop, Route};
pub use vnet_header::VNET_HEADER_LEN;
