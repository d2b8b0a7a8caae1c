//! The messages of a session, after the hellos: a request carries a number, its reply carries the same, and events come
//! in between as they happen.

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_cm::rdma_cm::{Command, Reply};

use crate::DeviceInfo;
use crate::fabric::{FabricReply, FabricRequest, HostAdapter};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::losses::{KeyViolation, LostPackets};
use crate::paths::{GroupMember, GroupReply, PathReply, PathRequest, PathTraffic};
use crate::peers::{PeerGrant, Publication, PublishGrant};
use crate::stat::{QpCursor, QpPage, StatReport};
use crate::umad::{UmadRequest, UmadResponse};

/// What a program asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The devices from this place of the list on, a page of them.
    ListDevices {
        /// How many of the list to pass over.
        offset: u32,
    },
    /// Push changes of devices from now on.
    Subscribe,
    /// A place in the QP number space and the sockets that its packets come to.
    AllocateSlot,
    /// The slot that this process has from a daemon that died. With it come the slot's first socket as proof and, if
    /// the process has one, the anchor.
    Reattach {
        /// Number of the slot.
        slot: u32,
        /// Multicast groups that its sockets have joined.
        groups: Vec<McastGroup>,
    },
    /// Let packets to this group reach the slot's sockets.
    JoinMulticast(McastGroup),
    /// End that.
    LeaveMulticast(McastGroup),
    /// Make a device, as `rdma link add`.
    LinkAdd {
        /// Its name.
        name: String,
        /// Its type, `rxe`.
        kind: String,
        /// The interface it stands on.
        netdev: String,
    },
    /// Remove a device made by `LinkAdd`, as `rdma link delete`.
    LinkDel {
        /// Its name.
        name: String,
    },
    /// Name a device anew, as `rdma dev set ... name`.
    DevRename {
        /// The name it has.
        old: String,
        /// The name it shall have.
        new: String,
    },
    /// What the daemon does, and for whom: processes from this place of the list on.
    Status {
        /// How many processes to pass over.
        offset: u32,
    },
    /// What this process holds, for `weft status`; not trusted for anything. No reply is sent.
    ReportUsage(Usage),
    /// Let other processes meet this one.
    Publish(Publication),
    /// Meet the process that has this slot. With it comes the pair of lanes that a daemon which died had made, if there
    /// is one.
    MeetPeer {
        /// Number of the slot.
        slot: u32,
    },
    /// A ledger for what this process counts ([`crate::stat`]); its memory comes with the reply.
    OpenLedger,
    /// Let every process bring its ledger up to date, which takes it some milliseconds.
    RefreshLedgers,
    /// What all processes counted and hold: devices from this place of the list on.
    Stat {
        /// How many devices to pass over.
        offset: u32,
    },
    /// Queue pairs of all processes, from there on.
    ListQps(QpCursor),
    /// A command to the RDMA connection manager.
    Cm(Command),
    /// A channel for events of the connection manager; its descriptor comes with the reply.
    OpenCmChannel,
    /// Closes one; its ids are destroyed.
    CloseCmChannel {
        /// Number of the channel.
        channel: u32,
    },
    /// Whether packets arrive by a way over the fabric.
    Path(PathRequest),
    /// What passed by ways over the fabric, at most [`FABRIC_PATHS_PER_MESSAGE_MAX`] of them.
    ///
    /// [`FABRIC_PATHS_PER_MESSAGE_MAX`]: crate::FABRIC_PATHS_PER_MESSAGE_MAX
    PathTraffic(Vec<PathTraffic>),
    /// Management datagrams of a virtual host's ports.
    Umad(UmadRequest),
    /// The fabric.
    Fabric(FabricRequest),
    /// The program listens to a group of the fabric, or does no more.
    GroupMember {
        /// The group, and the port where it does.
        member: GroupMember,
        /// Whether it does.
        listens: bool,
    },
    /// Which processes a way to a group of the fabric leads to.
    GroupPath(PathRequest),
    /// What was sent by ways over the fabric that are closed, at most [`FABRIC_PATHS_PER_MESSAGE_MAX`] of them.
    ///
    /// [`FABRIC_PATHS_PER_MESSAGE_MAX`]: crate::FABRIC_PATHS_PER_MESSAGE_MAX
    LostPackets(Vec<LostPackets>),
    /// Packets over the fabric that queue pairs refused for their keys, at most [`KEY_VIOLATIONS_PER_MESSAGE_MAX`].
    ///
    /// [`KEY_VIOLATIONS_PER_MESSAGE_MAX`]: crate::KEY_VIOLATIONS_PER_MESSAGE_MAX
    KeyViolations(Vec<KeyViolation>),
    /// A cable to the fabric's switches, if packets go hop by hop there; its descriptors come with the reply.
    OpenCable,
    /// Adapters of the fabric's hosts that programs have open, or that counted something: from this place of the list on.
    ListAdapters {
        /// How many adapters to skip.
        offset: u32,
    },
}

/// A multicast group on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct McastGroup {
    /// Address of the group.
    pub group: IpAddr,
    /// Interface.
    pub ifindex: u32,
}

/// Objects of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of `rdma resource show`.
pub struct Usage {
    pub pd: u32,
    pub cq: u32,
    pub qp: u32,
    pub mr: u32,
    pub srq: u32,
}

/// What the daemon answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Response {
    /// Done, and there is nothing to tell.
    Done,
    /// A page of devices, in the order of enumeration.
    Devices {
        /// The page.
        devices: Vec<DeviceInfo>,
        /// Whether more follow.
        more: bool,
    },
    /// A page of adapters.
    Adapters {
        /// The page.
        adapters: Vec<HostAdapter>,
        /// Whether more follow.
        more: bool,
    },
    /// A slot; its descriptors come with the message.
    Slot(SlotGrant),
    /// A page of the status.
    Status(StatusReport),
    /// A ledger; its memory comes with the message.
    Ledger,
    /// What to be met with; the descriptors come with the message.
    Published(PublishGrant),
    /// A process that was met, or that it cannot be.
    Peer(Option<PeerGrant>),
    /// Counters.
    Stat(StatReport),
    /// Queue pairs.
    Qps(QpPage),
    /// The connection manager's answer.
    Cm(Reply),
    /// A channel for events; the end to read [`CmEvent`]s from comes with the message, one in each packet.
    ///
    /// [`CmEvent`]: weft_cm::rdma_cm::CmEvent
    CmChannel {
        /// Number of the channel, never 0.
        channel: u32,
    },
    /// What is known of a way over the fabric.
    Path(PathReply),
    /// About management datagrams.
    Umad(UmadResponse),
    /// The fabric.
    Fabric(FabricReply),
    /// Where packets to a group of the fabric arrive.
    Group(GroupReply),
    /// About a cable.
    Cable {
        /// Whether packets go hop by hop; then its descriptors come with the message.
        packets: bool,
    },
}

/// A slot, and which descriptors came with it, in this order: IPv4 socket, IPv6 socket, anchor. For a reattached slot
/// only the anchor comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotGrant {
    /// Number: the top ten bits of every QP number of the process.
    pub slot: u32,
    /// Whether the sockets came.
    pub has_v4: bool,
    /// Whether the machine has IPv6.
    pub has_v6: bool,
    /// Whether an anchor came: only users that the daemon trusts with all sockets get one.
    pub has_anchor: bool,
}

/// How it stands with UDP port 4791.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PortHealth {
    /// No process needed it yet.
    Unused,
    /// Held by this daemon's pool.
    Held,
    /// Held by processes that outlived a daemon; waiting for them.
    Recovering,
    /// Held by somebody else, as the text says.
    Taken(String),
}

/// A page of what the daemon does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the program.
    pub version: String,
    /// Process of the daemon.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// UDP port 4791.
    pub port: PortHealth,
    /// Sockets of the pool.
    pub pool_slots: u32,
    /// Slots that belong to processes.
    pub slots_in_use: u32,
    /// Slots that one user may have.
    pub slots_per_user_max: u32,
    /// Devices.
    pub devices: u32,
    /// Packets for QP0 and QP1, or for no QP at all, that came while nobody listened and were dropped.
    pub slot0_packets: u64,
    /// The RDMA connection manager.
    pub cm: CmStatus,
    /// Processes connected, in the order they came, a page of them.
    pub processes: Vec<ProcessInfo>,
    /// Whether more follow.
    pub more: bool,
}

/// What the connection manager holds.
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

/// What queue pair 1 counted since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GsiStatus {
    /// Management datagrams taken.
    pub received: u64,
    /// Management datagrams sent.
    pub sent: u64,
    /// Packets dropped that are no RoCE.
    pub malformed: u64,
    /// Packets dropped for a wrong ICRC.
    pub icrc_errors: u64,
    /// Packets dropped that are no management datagrams for queue pair 1: opcode, number, Q_Key, length.
    pub not_gmp: u64,
    /// Management datagrams dropped that are for an address of no device, or for another partition.
    pub foreign: u64,
    /// Management datagrams that the kernel would not send.
    pub unsendable: u64,
}

/// A process that is connected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its number as the daemon sees it, 0 if it is in a PID namespace that the daemon cannot see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The name it gave.
    pub program: String,
    /// Its slot, once it opened a device.
    pub slot: Option<u32>,
    /// What it says it holds.
    pub usage: Usage,
    /// Faults that it asked for, as `WEFT_FAULT` says them; empty for none.
    pub fault: String,
}

/// What the daemon tells unasked; `Disconnected` and `Overrun` are made by the client itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A device is new or changed; this is all about it.
    DeviceChanged(DeviceInfo),
    /// A device is gone.
    DeviceRemoved {
        /// Its identity.
        index: u32,
    },
    /// Somebody asks for what this process counts and holds: bring the ledger up to date.
    RefreshLedger,
    /// A process has met this one: meet it.
    PeerCame {
        /// Its slot.
        slot: u32,
        /// What it gave as its generation.
        generation: u64,
    },
    /// A process that this one has met is gone.
    PeerGone {
        /// Its slot.
        slot: u32,
        /// What it gave as its generation.
        generation: u64,
    },
    /// Packets arrive by a way over the fabric, or no longer.
    PathChanged {
        /// Number of the way.
        path: u32,
        /// Whether they do.
        open: bool,
    },
    /// Packets to a group of the fabric arrive at others than before: ask again.
    GroupChanged {
        /// Number of the way.
        path: u32,
    },
    /// The daemon is gone; `Client::reconnect` brings another.
    Disconnected,
    /// Events were lost because nobody fetched them: ask for the list of devices again.
    Overrun,
}

/// A request that was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// What a system call would have set.
    pub errno: i32,
    /// Explanation for a person: what, why, what to do.
    pub text: String,
}

/// One message of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientFrame {
    /// Number that the reply shall carry.
    pub id: u32,
    /// The request.
    pub request: Request,
}

/// One message of the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DaemonFrame {
    /// The answer to a request.
    Reply {
        /// Number of the request.
        id: u32,
        /// The answer.
        result: Result<Response, Refusal>,
    },
    /// Something happened.
    Event(Event),
}

/// A message that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("the message is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    /// Not a value of the type that was expected here, or followed by more.
    #[error("the message is malformed")]
    Malformed,
}

/// Bytes of a message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, DecodeError> {
    let bytes = postcard::to_stdvec(message).map_err(|_| DecodeError::Malformed)?;
    if bytes.len() > MESSAGE_BYTES_MAX { Err(DecodeError::TooLong) } else { Ok(bytes) }
}

/// A message from its bytes. A length inside it never reserves more memory than the bytes that are there can fill: the
/// decoder takes no hint beyond what remains.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(DecodeError::Malformed),
    }
}
