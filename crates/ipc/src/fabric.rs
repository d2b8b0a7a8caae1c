//! Messages about the InfiniBand fabric of this network namespace: bring one up, take it down, look at it, do it harm.
//! A description is longer than a message, so it goes in parts, both ways; [`pack`] and [`unpack`] make its bytes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::{FABRIC_BYTES_MAX, FABRIC_PART_BYTES_MAX, HOST_NAME_BYTES_MAX};
use crate::printable::printable;
use crate::{Client, DecodeError, DeviceInfo, Request, RequestError, Response};

/// What a program asks about the fabric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FabricRequest {
    /// The next part of a description.
    Describe(Vec<u8>),
    /// Bring up what was described, so many bytes in all.
    Up {
        /// Bytes of the parts together.
        length: u32,
        /// The same seed loses the same packets.
        seed: u64,
        /// Everything goes hop by hop, instead of by verdicts.
        packets: bool,
    },
    /// Take it down.
    Down,
    /// How it is.
    Status,
    /// Hosts with programs, from this place of their list on.
    Hosts {
        /// How many to pass over.
        offset: u32,
    },
    /// A picture of it, from this byte on; at 0 it is taken.
    Picture {
        /// Bytes that were got before.
        offset: u32,
    },
    /// Do something to a cable.
    Cable {
        /// One of its ends.
        a: PortName,
        /// The other, if it was named.
        b: Option<PortName>,
        /// What.
        change: CableChange,
    },
    /// Do something to a node.
    Node {
        /// Its name.
        name: String,
        /// What.
        change: NodeChange,
    },
    /// Lose management datagrams, of a million so many.
    Drop {
        /// How many.
        ppm: u32,
    },
}

/// `leaf1:3`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortName {
    /// Name of the node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
}

/// What can happen to a cable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CableChange {
    /// Pull it.
    Cut,
    /// Plug it in again.
    Join,
    /// Pull it, and plug it in again after a while.
    Flap {
        /// How long it is out.
        down_ms: u32,
    },
    /// Let it carry less: lanes, and the speed by its name. What is not said stays.
    Degrade {
        /// Lanes at most.
        lanes: Option<u8>,
        /// Speed at most.
        speed: Option<String>,
    },
    /// Let it carry whatever its ends can.
    Mend,
    /// Damage packets, of a million so many.
    Errors {
        /// How many.
        ppm: u32,
    },
    /// Lose management datagrams, of a million so many.
    Drop {
        /// How many.
        ppm: u32,
    },
}

/// What can happen to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodeChange {
    /// No power.
    Off,
    /// Power.
    On,
    /// No power for a while.
    Reboot {
        /// How long.
        down_ms: u32,
    },
    /// Management agents that answer wrongly, late or not at all; all of it unset: as they should.
    Agent {
        /// No answers.
        silent: bool,
        /// How long an answer takes.
        delay_ms: u32,
        /// The NodeGUID that NodeInfo claims.
        guid: Option<u64>,
        /// The number of ports that NodeInfo claims.
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

/// What the daemon answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FabricReply {
    /// It was done.
    Done,
    /// How the fabric is; `None`: there is none.
    Status(Option<Box<FabricStatus>>),
    /// A page of hosts with programs.
    Hosts {
        /// The page.
        hosts: Vec<HostPrograms>,
        /// Whether more follow.
        more: bool,
    },
    /// Bytes of a picture.
    Part {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether more follow.
        more: bool,
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

/// A port that says a subnet manager runs there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SmPort {
    /// Name of its node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
    /// Its LID.
    pub lid: u16,
    /// How many ports take it for their master.
    pub followers: u32,
}

/// How a fabric is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FabricStatus {
    /// What it was made from.
    pub title: String,
    /// Seconds since it was brought up.
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
    /// Whether everything goes hop by hop.
    pub packets: bool,
}

/// Bytes of a long value.
pub fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, DecodeError> {
    let bytes = postcard::to_stdvec(value).map_err(|_| DecodeError::Malformed)?;
    if bytes.len() > FABRIC_BYTES_MAX { Err(DecodeError::TooLong) } else { Ok(bytes) }
}

/// A long value from its bytes.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > FABRIC_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Malformed),
    }
}

impl Client {
    /// Asks about the fabric.
    pub fn fabric(&mut self, request: FabricRequest) -> Result<FabricReply, RequestError> {
        match self.request(Request::Fabric(request))? {
            Response::Fabric(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Brings up what these bytes describe; `packets`: everything goes hop by hop.
    pub fn fabric_up(&mut self, description: &[u8], seed: u64, packets: bool) -> Result<(), RequestError> {
        for part in description.chunks(FABRIC_PART_BYTES_MAX) {
            self.fabric(FabricRequest::Describe(part.to_vec()))?;
        }
        let length = u32::try_from(description.len()).map_err(|_| RequestError::Protocol)?;
        self.fabric(FabricRequest::Up { length, seed, packets }).map(drop)
    }

    /// How the fabric is, if there is one.
    pub fn fabric_status(&mut self) -> Result<Option<FabricStatus>, RequestError> {
        let FabricReply::Status(status) = self.fabric(FabricRequest::Status)? else {
            return Err(RequestError::Protocol);
        };
        Ok(status.map(|mut status| {
            status.title = printable(&status.title);
            status.managers.iter_mut().for_each(|manager| manager.node = printable(&manager.node));
            *status
        }))
    }

    /// Hosts that have programs.
    pub fn fabric_hosts(&mut self) -> Result<Vec<HostPrograms>, RequestError> {
        let mut all: Vec<HostPrograms> = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let FabricReply::Hosts { hosts, more } = self.fabric(FabricRequest::Hosts { offset })? else {
                return Err(RequestError::Protocol);
            };
            let last = !more || hosts.is_empty();
            let sane = hosts.into_iter().filter(|entry| entry.host.len() <= HOST_NAME_BYTES_MAX);
            all.extend(sane.map(|entry| HostPrograms { host: printable(&entry.host), ..entry }));
            if last || all.len() > crate::limits::FABRIC_HOSTS_MAX {
                return Ok(all);
            }
        }
    }

    /// The bytes of a picture of the fabric.
    pub fn fabric_picture(&mut self) -> Result<Vec<u8>, RequestError> {
        let mut all = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let FabricReply::Part { bytes, more } = self.fabric(FabricRequest::Picture { offset })? else {
                return Err(RequestError::Protocol);
            };
            let last = !more || bytes.is_empty();
            all.extend(bytes);
            if all.len() > FABRIC_BYTES_MAX {
                return Err(RequestError::Protocol);
            }
            if last {
                return Ok(all);
            }
        }
    }
}
