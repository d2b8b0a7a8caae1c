//! The daemon's status, page by page.

use serde::{Deserialize, Serialize};

/// State of UDP port 4791.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PortHealth {
    /// No process needed the port yet.
    Unused,
    /// Held by this daemon's pool.
    Held,
    /// Held by processes that outlived a daemon; the daemon waits for them.
    Recovering,
    /// Held by another program, as the text says.
    Taken(String),
}

/// A page of the daemon's status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the program.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// User ID of the daemon.
    pub uid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// UDP port 4791.
    pub port: PortHealth,
    /// Sockets of the pool.
    pub pool_slots: u32,
    /// Slots that belong to processes.
    pub slots_in_use: u32,
    /// Maximum number of slots per user.
    pub slots_per_user_max: u32,
    /// Devices.
    pub devices: u32,
    /// Packets for QP0, QP1 or nonexistent QPs that arrived without a listener and were dropped.
    pub slot0_packets: u64,
    /// The RDMA connection manager.
    pub cm: CmStatus,
    /// Connected processes in the order they connected, a page of them.
    pub processes: Vec<ProcessInfo>,
    /// Whether more follow.
    pub more: bool,
}

/// Objects of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CmStatus {
    /// Processes that use it.
    pub processes: u32,
    /// Event channels.
    pub channels: u32,
    /// Ids that listen.
    pub listeners: u32,
    /// Ids that connect or are connected.
    pub connections: u32,
    /// Other ids.
    pub idle_ids: u32,
    /// Multicast groups joined.
    pub groups: u32,
    /// Queue pair 1, while it is open.
    pub gsi: Option<GsiStatus>,
}

/// Counters of queue pair 1 since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GsiStatus {
    /// Management datagrams accepted.
    pub received: u64,
    /// Management datagrams sent.
    pub sent: u64,
    /// Packets dropped that are not RoCE.
    pub malformed: u64,
    /// Packets dropped for a wrong ICRC.
    pub icrc_errors: u64,
    /// Packets dropped that are not management datagrams for queue pair 1: opcode, number, Q_Key, length.
    pub not_gmp: u64,
    /// Management datagrams dropped because no device has their address, or for another partition.
    pub foreign: u64,
    /// Management datagrams that the kernel would not send.
    pub unsendable: u64,
}

/// A connected process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Process ID as the daemon sees it, 0 if it is in a PID namespace that the daemon cannot see.
    pub pid: u32,
    /// User ID.
    pub uid: u32,
    /// Name from its hello.
    pub program: String,
    /// Its slot, once it opened a device.
    pub slot: Option<u32>,
    /// Objects that it reports.
    pub usage: Usage,
    /// Faults that it requests, in the syntax of `WEFT_FAULT`; empty for none.
    pub fault: String,
}

/// Number of objects that a process holds, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of `rdma resource show`.
pub struct Usage {
    pub pd: u32,
    pub cq: u32,
    pub qp: u32,
    pub mr: u32,
    pub srq: u32,
}
