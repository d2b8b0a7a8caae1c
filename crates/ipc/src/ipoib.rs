//! IPoIB interfaces of a program's host, as the daemon and the host's tools describe them to each other.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Bytes of a link-layer address (RFC 4391 §9.1.1).
pub const LINK_ADDRESS_BYTES: usize = 20;

/// An IPoIB interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IpoibInterface {
    /// Name in the host's network.
    pub name: String,
    /// Index there.
    pub ifindex: u32,
    /// Adapter, such as `weft0`.
    pub device: String,
    /// Port of the adapter, counted from 1.
    pub port: u8,
    /// P_Key, with its full-member bit.
    pub pkey: u16,
    /// Index of the interface that this one is a child of.
    pub parent: Option<u32>,
    /// Link-layer address.
    pub address: [u8; LINK_ADDRESS_BYTES],
    /// Link-layer address of the broadcast group.
    pub broadcast: [u8; LINK_ADDRESS_BYTES],
}

impl IpoibInterface {
    /// Whether it is in connected mode, which its link-layer address shows.
    pub fn is_connected(&self) -> bool {
        self.address[0] & 0x80 != 0
    }
}

/// State of a neighbour, as `ip neigh` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IpoibNeighbourState {
    /// Confirmed lately.
    Reachable,
    /// Confirmed a while ago.
    Stale,
    /// A request for its known address is under way.
    Probe,
    /// Its address is not known yet.
    Incomplete,
}

/// A neighbour of an IPoIB interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IpoibNeighbour {
    /// Its IP address.
    pub ip: IpAddr,
    /// Its link-layer address, if that is known.
    pub address: Option<[u8; LINK_ADDRESS_BYTES]>,
    /// Its state.
    pub state: IpoibNeighbourState,
}
