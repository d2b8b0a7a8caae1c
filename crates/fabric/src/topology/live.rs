//! The part of a running fabric's state that changes: what an instrument asks for again and again, in short form.

use serde::{Deserialize, Serialize};

use super::{End, LinkState};

/// State of a fabric's nodes and cables at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveState {
    /// State of each node, in the order of the description.
    pub nodes: Vec<LiveNode>,
    /// Every cable, the cut ones included.
    pub cables: Vec<LiveCable>,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveNode {
    /// Whether it has power.
    pub powered: bool,
    /// Whether its management agents have a fault.
    pub agent_fault: bool,
    /// LID of its port: a switch's port 0, another node's port 1. 0 before a manager assigned one.
    pub lid: u16,
}

/// A cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCable {
    /// Its two ends.
    pub ends: [End; 2],
    /// State of its link.
    pub state: LinkState,
    /// Data rate of the link in 0.1 Gb/s, 0 without a link.
    pub rate_tenths: u32,
    /// Whether its limits keep the link below what its ports support.
    pub limited: bool,
    /// Packets damaged, per million.
    pub errors_ppm: u32,
    /// Management datagrams dropped, per million.
    pub drop_ppm: u32,
}

/// Counters of the two ports of a cable that is plugged in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CableTraffic {
    /// Index of the cable in [`LiveState::cables`].
    pub cable: u32,
    /// Bytes sent by each end, LRH to VCRC.
    pub bytes: [u64; 2],
    /// Packets sent by each end.
    pub packets: [u64; 2],
    /// Packets that each end found damaged or could not forward or send.
    pub errors: [u64; 2],
    /// Times that the link went down, as each end counts.
    pub downed: [u64; 2],
}

impl LiveState {
    /// Returns whether a daemon's state fits a description of this many nodes.
    pub fn fits(&self, nodes: usize) -> bool {
        self.nodes.len() == nodes
            && self.cables.iter().flat_map(|cable| cable.ends).all(|end| (end.node as usize) < nodes)
    }
}
