//! Messages of a session, after the hellos. A request carries a number and its reply carries the same; events may
//! arrive in between.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weft_cm::rdma_cm::{Command, Reply};

use crate::DeviceInfo;
use crate::ethernet::{EthernetSpec, EthernetStatus};
use crate::fabric::{FabricReply, FabricRequest, HostAdapter};
use crate::faults::{FaultReply, FaultRequest};
use crate::host_files::HostFile;
use crate::ipoib::{IpoibInterface, IpoibNeighbour};
use crate::losses::{KeyViolation, LostPackets};
use crate::paths::{GroupMember, GroupReply, PathReply, PathRequest, PathTraffic};
use crate::peers::{PeerGrant, Publication, PublishGrant};
use crate::stat::{QpCursor, QpPage, StatReport};
use crate::status::{StatusReport, Usage};
use crate::streams::StreamGrant;
use crate::umad::{UmadRequest, UmadResponse};

/// A program's request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// A page of devices, from this position in the list on.
    ListDevices {
        /// How many to skip.
        offset: u32,
    },
    /// Subscribe to changes of devices.
    Subscribe,
    /// A slot in the QP number space and the sockets on which its packets arrive.
    AllocateSlot,
    /// Reclaim the slot that this process has from a dead daemon. The slot's first socket comes along as proof and, if
    /// the process has one, the anchor.
    Reattach {
        /// Number of the slot.
        slot: u32,
        /// Multicast groups that its sockets have joined.
        groups: Vec<McastGroup>,
    },
    /// Let packets to this group reach the slot's sockets.
    JoinMulticast(McastGroup),
    /// Undo `JoinMulticast`.
    LeaveMulticast(McastGroup),
    /// Add a device, as `rdma link add`.
    LinkAdd {
        /// Device name.
        name: String,
        /// Device type, `rxe`.
        kind: String,
        /// Network interface under the device.
        netdev: String,
    },
    /// Remove a device made by `LinkAdd`, as `rdma link delete`.
    LinkDel {
        /// Device name.
        name: String,
    },
    /// Rename a device, as `rdma dev set ... name`.
    DevRename {
        /// Current name.
        old: String,
        /// New name.
        new: String,
    },
    /// Status of the daemon, and its processes from this position in the list on.
    Status {
        /// How many processes to skip.
        offset: u32,
    },
    /// Objects that this process holds, for `weft status`; not trusted for anything. No reply.
    ReportUsage(Usage),
    /// Let other processes connect to this one.
    Publish(Publication),
    /// Connect to the process that has this slot. If a dead daemon had made a pair of rings for the two, the pair comes
    /// along.
    MeetPeer {
        /// Number of the slot.
        slot: u32,
    },
    /// A ledger for this process's counters ([`crate::stat`]); its memory comes with the reply.
    OpenLedger,
    /// Ask every process to bring its ledger up to date, which takes some milliseconds.
    RefreshLedgers,
    /// Counters and objects of all processes, for devices from this position in the list on.
    Stat {
        /// How many devices to skip.
        offset: u32,
    },
    /// Queue pairs of all processes, from this cursor on.
    ListQps(QpCursor),
    /// A command to the RDMA connection manager.
    Cm(Command),
    /// Open a channel for events of the connection manager; its descriptor comes with the reply.
    OpenCmChannel,
    /// Close an event channel and destroy its ids.
    CloseCmChannel {
        /// Number of the channel.
        channel: u32,
    },
    /// Whether packets arrive over a path of the fabric.
    Path(PathRequest),
    /// Traffic over paths of the fabric, at most [`FABRIC_PATHS_PER_MESSAGE_MAX`] of them.
    ///
    /// [`FABRIC_PATHS_PER_MESSAGE_MAX`]: crate::FABRIC_PATHS_PER_MESSAGE_MAX
    PathTraffic(Vec<PathTraffic>),
    /// A request about management datagrams of a virtual host's ports.
    Umad(UmadRequest),
    /// A request about the fabric.
    Fabric(FabricRequest),
    /// The program starts or stops listening to a multicast group of the fabric.
    GroupMember {
        /// The group, and the port that listens.
        member: GroupMember,
        /// Whether the program listens.
        listens: bool,
    },
    /// Processes that a path to a multicast group of the fabric leads to.
    GroupPath(PathRequest),
    /// Packets sent over closed paths of the fabric, at most [`FABRIC_PATHS_PER_MESSAGE_MAX`] of them.
    ///
    /// [`FABRIC_PATHS_PER_MESSAGE_MAX`]: crate::FABRIC_PATHS_PER_MESSAGE_MAX
    LostPackets(Vec<LostPackets>),
    /// Packets from the fabric that queue pairs rejected for their keys, at most [`KEY_VIOLATIONS_PER_MESSAGE_MAX`].
    ///
    /// [`KEY_VIOLATIONS_PER_MESSAGE_MAX`]: crate::KEY_VIOLATIONS_PER_MESSAGE_MAX
    KeyViolations(Vec<KeyViolation>),
    /// Open a packet channel to the fabric's switches, in packet mode only; its descriptors come with the reply.
    OpenPacketChannel,
    /// Make the namespaces of the program's host, unless they are there.
    HostNetwork,
    /// Bring up an Ethernet network of virtual hosts. A request to take the fabric down ends it.
    EthernetUp(EthernetSpec),
    /// The Ethernet network that is up.
    EthernetStatus,
    /// Make a Unix socket in the daemon's network namespace: the program may be in that of a virtual host.
    MachineSocket,
    /// The IPoIB interfaces of the program's host.
    IpoibInterfaces,
    /// Neighbours of such an interface, a page of them in the order of their addresses.
    IpoibNeighbours {
        /// Index of the interface.
        ifindex: u32,
        /// Last address of the page before.
        after: Option<IpAddr>,
    },
    /// Make an IPoIB interface for another partition of an interface's port.
    AddIpoibChild {
        /// Name of the interface.
        parent: String,
        /// P_Key; the full-member bit is set in any case, as Linux does.
        pkey: u16,
        /// Name of the new interface, such as `ib0.8002` unless it is given.
        name: Option<String>,
    },
    /// Remove such an interface.
    DeleteIpoibChild {
        /// Name of the interface that it was made from.
        parent: String,
        /// Its P_Key.
        pkey: u16,
    },
    /// Set the mode of an IPoIB interface of the program's host, as a write to `/sys/class/net/ib0/mode` does.
    SetIpoibMode {
        /// Name that the interface got when it was made, such as `ib0`.
        interface: String,
        /// Connected mode; otherwise datagram mode.
        connected: bool,
    },
    /// Adapters of the fabric's hosts that programs have open or that have counters, from this position in the list on.
    ListAdapters {
        /// How many adapters to skip.
        offset: u32,
    },
    /// Capture packets of the fabric's hosts, until the client closes the descriptor that comes with the reply. A session
    /// has one capture.
    Capture {
        /// Names of the hosts, at most [`CAPTURE_HOSTS_MAX`]; none for all.
        ///
        /// [`CAPTURE_HOSTS_MAX`]: crate::CAPTURE_HOSTS_MAX
        hosts: Vec<String>,
    },
    /// The kernel modules that `modprobe` loaded in the client's host, or on the machine.
    Modules,
    /// Load or remove a kernel module there. Without `ib_ipoib`, a host has no IPoIB interfaces.
    SetModule {
        /// Name of the module, with underscores.
        name: String,
        /// Whether to load it.
        loaded: bool,
    },
    /// A page of the files that the daemon keeps for the program's host ([`HostFile`]), in the order of their names.
    HostFiles {
        /// Last name of the page before.
        after: Option<String>,
    },
    /// Write or remove such a file.
    SetHostFile {
        /// Its name.
        name: String,
        /// Its content; `None` removes it.
        content: Option<String>,
    },
    /// A request about faults of running programs.
    Fault(FaultRequest),
    /// The stream of a queue pair ended, or the queue pair could not take it. No reply.
    StreamEnded {
        /// Number of the queue pair.
        qp_num: u32,
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

/// The daemon's reply to a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Response {
    /// Done, without a result.
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
    /// Published; the descriptors come with the message.
    Published(PublishGrant),
    /// A peer process, or `None` if it cannot be connected.
    Peer(Option<PeerGrant>),
    /// Counters.
    Stat(StatReport),
    /// Queue pairs.
    Qps(Box<QpPage>),
    /// The connection manager's answer.
    Cm(Reply),
    /// An event channel. The end to read [`CmEvent`]s from comes with the message; each packet there holds one.
    ///
    /// [`CmEvent`]: weft_cm::rdma_cm::CmEvent
    CmChannel {
        /// Number of the channel, never 0.
        channel: u32,
    },
    /// State of a path over the fabric.
    Path(PathReply),
    /// Reply about management datagrams.
    Umad(UmadResponse),
    /// Reply about the fabric.
    Fabric(FabricReply),
    /// Destinations of packets to a multicast group of the fabric.
    Group(GroupReply),
    /// Reply about a packet channel.
    PacketChannel {
        /// Whether the fabric is in packet mode; then the packet channel's descriptors come with the message.
        packets: bool,
    },
    /// Descriptors of a host come with the message: the file of all hosts' names, the user namespace if there is one, the
    /// network and the UTS namespace.
    HostNetwork {
        /// Whether a user namespace owns the others.
        has_user: bool,
    },
    /// The Ethernet network; `None` if there is none.
    Ethernet(Option<EthernetStatus>),
    /// The IPoIB interfaces of a host.
    IpoibInterfaces(Vec<IpoibInterface>),
    /// A page of neighbours; an empty one is behind the last.
    IpoibNeighbours(Vec<IpoibNeighbour>),
    /// The end to read [`Captured`] messages from comes with the message; each packet there holds one.
    ///
    /// [`Captured`]: crate::Captured
    Capture,
    /// Names of the kernel modules that `modprobe` loaded; devices and interfaces need others besides.
    Modules(Vec<String>),
    /// A page of a host's files; an empty one is behind the last.
    HostFiles(Vec<HostFile>),
    /// Reply about faults of running programs.
    Fault(FaultReply),
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
    /// Whether an anchor came: the daemon gives one only to users that it trusts with all sockets.
    pub has_anchor: bool,
}

/// An unsolicited message of the daemon; the client itself makes `Disconnected` and `Overrun`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A device is new or changed; this is its complete description.
    DeviceChanged(DeviceInfo),
    /// A device is gone.
    DeviceRemoved {
        /// Its identity.
        index: u32,
    },
    /// A program wants this process's counters and objects: bring the ledger up to date.
    RefreshLedger,
    /// A process has connected to this one: connect back.
    PeerCame {
        /// Slot of the peer.
        slot: u32,
        /// Generation that the peer published.
        generation: u64,
    },
    /// A connected peer process is gone.
    PeerGone {
        /// Slot of the peer.
        slot: u32,
        /// Generation that the peer published.
        generation: u64,
    },
    /// A path over the fabric opened or closed.
    PathChanged {
        /// Number of the path.
        path: u32,
        /// Whether packets arrive over it.
        open: bool,
    },
    /// Packets to a multicast group of the fabric now reach other destinations: ask again.
    GroupChanged {
        /// Number of the path.
        path: u32,
    },
    /// A queue pair's connection is negotiated: its socket comes with the message ([`Client::take_stream`]).
    ///
    /// [`Client::take_stream`]: crate::Client::take_stream
    StreamOpened(StreamGrant),
    /// The connection manager closes the connection of a queue pair.
    CloseStream {
        /// Number of the queue pair.
        qp_num: u32,
    },
    /// A user adds a fault to this process.
    FaultAdded {
        /// Its number.
        number: u32,
        /// Its specification.
        spec: String,
    },
    /// A user removes a fault.
    FaultRemoved {
        /// Its number.
        number: u32,
    },
    /// The daemon is gone; `Client::reconnect` reaches another.
    Disconnected,
    /// The queue of unfetched events overflowed: ask for the list of devices again.
    Overrun,
}

/// A refused request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The errno value that a system call would have set.
    pub errno: i32,
    /// Explanation for a person: failure, reason, remedy.
    pub text: String,
}

/// One message from a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientFrame {
    /// Number that the reply must carry.
    pub id: u32,
    /// The request.
    pub request: Request,
}

/// One message from the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DaemonFrame {
    /// The answer to a request.
    Reply {
        /// Number of the request.
        id: u32,
        /// The answer.
        result: Result<Response, Refusal>,
    },
    /// An event.
    Event(Event),
}
