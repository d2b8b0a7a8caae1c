//! Messages about the InfiniBand fabric of this network namespace: bring it up, take it down, inspect it, inject
//! faults. A description is longer than a message, so it travels in parts, both ways; [`pack`] and [`unpack`] convert
//! its bytes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::FABRIC_BYTES_MAX;
use crate::stat::PortCounters;
use crate::{DecodeError, DeviceInfo};

/// A program's request about the fabric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FabricRequest {
    /// The next part of a description.
    Describe(Vec<u8>),
    /// Bring up the fabric described so far.
    Up {
        /// Total bytes of the parts.
        length: u32,
        /// Seed for packet loss: the same seed loses the same packets.
        seed: u64,
        /// Packet mode: every packet travels hop by hop. Otherwise verdict mode.
        packets: bool,
        /// The hosts' IPoIB interfaces start in connected mode. Otherwise in datagram mode.
        ipoib_connected: bool,
    },
    /// Take the fabric down.
    Down,
    /// Status of the fabric.
    Status,
    /// Hosts with programs, from this position in their list on.
    Hosts {
        /// How many to skip.
        offset: u32,
    },
    /// Snapshot of the fabric, from this byte on; offset 0 takes a new one.
    Picture {
        /// Bytes fetched so far.
        offset: u32,
    },
    /// Change a cable.
    Cable {
        /// One of its ends.
        a: PortName,
        /// The other end, if the request names it.
        b: Option<PortName>,
        /// The change.
        change: CableChange,
    },
    /// Change a node.
    Node {
        /// Its name.
        name: String,
        /// The change.
        change: NodeChange,
    },
    /// Drop a share of all management datagrams.
    Drop {
        /// Datagrams to drop per million.
        ppm: u32,
    },
    /// Stamp of the fabric's present state.
    Stamp,
    /// State of all nodes and cables, `LiveState`, from this byte on; offset 0 takes a new one.
    LiveState {
        /// Bytes fetched so far.
        offset: u32,
    },
    /// Counters of all cables' ports, a list of `CableTraffic`, from this byte on; offset 0 takes new ones.
    Traffic {
        /// Bytes fetched so far.
        offset: u32,
    },
    /// State and counters of ports, from this cursor on.
    Ports {
        /// Port to start with.
        from: PortCursor,
    },
}

/// Stamp of a fabric's state: as long as it stays the same, so do nodes, cables and links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FabricStamp {
    /// Number of the fabric: another one has another.
    pub fabric: u64,
    /// Changes of state so far: by managers, faults, links that trained.
    pub changes: u64,
}

/// Position in the list of all ports of a fabric, which is in the order of the description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct PortCursor {
    /// Place of the node in the description.
    pub node: u32,
    /// Number of the port.
    pub port: u8,
}

/// A port of a fabric that has a cable or has counted something.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FabricPort {
    /// Name of its node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
    /// The port at the other end of the cable, if one is plugged in.
    pub peer: Option<PortName>,
    /// Logical state, as PortInfo has it (IBA 14.2.5.6): 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// LID of the port, or of its switch.
    pub lid: u16,
    /// Data rate of the link in 0.1 Gb/s, 0 without a link.
    pub rate_tenths: u32,
    /// Counters.
    pub counters: PortCounters,
}

/// Name of a port, as in `leaf1:3`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortName {
    /// Name of the node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
}

/// A change to a cable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CableChange {
    /// Pull it.
    Cut,
    /// Plug it in again.
    Join,
    /// Pull it, and plug it in again after a while.
    Flap {
        /// How long it stays out.
        down_ms: u32,
    },
    /// Limit it: lanes, and the speed by its name. `None` leaves a value as it is.
    Degrade {
        /// Maximum number of lanes.
        lanes: Option<u8>,
        /// Maximum speed.
        speed: Option<String>,
    },
    /// Remove all limits: the cable carries whatever its ends support.
    Mend,
    /// Corrupt a share of the packets.
    Errors {
        /// Packets to corrupt per million.
        ppm: u32,
    },
    /// Drop a share of the management datagrams.
    Drop {
        /// Datagrams to drop per million.
        ppm: u32,
    },
}

/// A change to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodeChange {
    /// Power off.
    Off,
    /// Power on.
    On,
    /// Power off for a while.
    Reboot {
        /// How long it stays off.
        down_ms: u32,
    },
    /// Make its management agents answer wrongly, late or not at all; with every field unset they answer normally.
    Agent {
        /// Send no answers.
        silent: bool,
        /// Delay of an answer.
        delay_ms: u32,
        /// False NodeGUID for NodeInfo.
        guid: Option<u64>,
        /// False number of ports for NodeInfo.
        ports: Option<u8>,
    },
}

/// An adapter of one of the fabric's hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostAdapter {
    /// Name of the host.
    pub host: String,
    /// Number of the adapter within its host, from 0.
    pub number: u32,
    /// The adapter.
    pub device: DeviceInfo,
}

/// The daemon's reply to a fabric request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FabricReply {
    /// Done.
    Done,
    /// Status of the fabric; `None` if there is none.
    Status(Option<Box<FabricStatus>>),
    /// A page of hosts with programs.
    Hosts {
        /// The page.
        hosts: Vec<HostPrograms>,
        /// Whether more follow.
        more: bool,
    },
    /// Bytes of a snapshot.
    Part {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether more follow.
        more: bool,
    },
    /// Stamp of the fabric's state; `None` if there is no fabric.
    Stamp(Option<FabricStamp>),
    /// A page of ports.
    Ports {
        /// The page.
        ports: Vec<FabricPort>,
        /// Cursor of the next page.
        next: Option<PortCursor>,
    },
}

/// A host and the programs that run as it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostPrograms {
    /// Its name.
    pub host: String,
    /// How many programs are connected.
    pub programs: u32,
}

/// A port that claims to run a subnet manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SmPort {
    /// Name of its node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
    /// Its LID.
    pub lid: u16,
    /// How many ports have it as their master.
    pub followers: u32,
}

/// Status of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FabricStatus {
    /// Source of its topology.
    pub title: String,
    /// Seconds since it came up.
    pub uptime_s: u64,
    /// Hosts.
    pub hosts: u32,
    /// Their adapters.
    pub adapters: u32,
    /// Switches.
    pub switches: u32,
    /// Routers.
    pub routers: u32,
    /// Nodes without power.
    pub powered_off: u32,
    /// Links by state: active, armed, init, down, cut.
    pub links: [u32; 5],
    /// Subnet managers, the first few.
    pub managers: Vec<SmPort>,
    /// Hosts that have programs.
    pub hosts_with_programs: u32,
    /// Whether it runs in packet mode: every packet travels hop by hop.
    pub packets: bool,
}

/// Encodes a long value.
pub fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, DecodeError> {
    let bytes = postcard::to_stdvec(value).map_err(|_| DecodeError::Malformed)?;
    if bytes.len() > FABRIC_BYTES_MAX { Err(DecodeError::TooLong) } else { Ok(bytes) }
}

/// Decodes a long value.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > FABRIC_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Malformed),
    }
}
