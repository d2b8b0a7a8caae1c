//! Ways over the InfiniBand fabric: a program on a virtual host asks whether its packets would arrive, hears when that
//! changes, and tells what passed, so that the counters of the ports on the way are true.

use serde::{Deserialize, Serialize};

use crate::{Client, Request, RequestError, Response};

/// A way that packets of a program would go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PathRequest {
    /// Device of the program's host.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// P_Key.
    pub pkey: u16,
    /// Bytes of payload of the longest packet.
    pub mtu: u16,
    /// Slot of the process that they are for.
    pub slot: u32,
    /// Answers must come back too.
    pub there_and_back: bool,
}

/// What the daemon says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathReply {
    /// Number of the way; changes are told by it.
    pub path: u32,
    /// Whether packets arrive now.
    pub open: bool,
    /// Whether the process is on the host whose LID it is: it may be met.
    pub meets: bool,
}

/// What passed by a way since it was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathTraffic {
    /// Number of the way.
    pub path: u32,
    /// Packets there.
    pub packets: u64,
    /// Bytes of payload there.
    pub bytes: u64,
    /// Packets back, without acknowledgements.
    pub packets_back: u64,
    /// Bytes of payload back.
    pub bytes_back: u64,
}

/// A program listens to a group of the fabric at one of its host's ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct GroupMember {
    /// Device of the program's host.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// LID of the group.
    pub mlid: u16,
    /// Its GID.
    pub mgid: [u8; 16],
}

/// Where packets to a group arrive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupReply {
    /// Number of the way; changes are told by it.
    pub path: u32,
    /// Slots of the processes that listen where they arrive, the asking one among them if it does.
    pub slots: Vec<u32>,
}

impl Client {
    /// Asks whether packets arrive by a way, and has changes told from now on.
    pub fn path(&mut self, request: PathRequest) -> Result<PathReply, RequestError> {
        match self.request(Request::Path(request))? {
            Response::Path(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Tells what passed.
    pub fn path_traffic(&mut self, traffic: Vec<PathTraffic>) -> Result<(), RequestError> {
        match self.request(Request::PathTraffic(traffic))? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Asks which processes a way to a group leads to, and has changes told from now on. The way's slot is 0.
    pub fn group_path(&mut self, request: PathRequest) -> Result<GroupReply, RequestError> {
        match self.request(Request::GroupPath(request))? {
            Response::Group(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Says that the program listens to a group, or that it does no more.
    pub fn set_group_member(&mut self, member: GroupMember, listens: bool) -> Result<(), RequestError> {
        match self.request(Request::GroupMember { member, listens })? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }
}
