//! One entry of a record.

use weft_verbs::Gid;

use crate::layout::Section;

/// `IBV_WC_SUCCESS`.
const SUCCESS: u8 = 0;
/// `IBV_WC_WR_FLUSH_ERR`: a queue pair that fails may have thousands.
const WR_FLUSH_ERR: u8 = 5;

/// An event of a queue pair, or of the process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// Nanoseconds by CLOCK_MONOTONIC.
    pub at: u64,
    /// Number of the queue pair; 0 if the event is not about one.
    pub qpn: u32,
    /// The event.
    pub event: Event,
}

/// The event of a record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The queue pair was created; its type as `enum ibv_qp_type`.
    Created {
        /// `IBV_QPT_*`.
        qp_type: u8,
        /// Index of its device in the process.
        device: u32,
    },
    /// The queue pair changed its state.
    State {
        /// `IBV_QPS_*` before.
        from: u8,
        /// `IBV_QPS_*` now.
        to: u8,
        /// Path of its packets.
        path: PathKind,
    },
    /// Its attributes, after a change.
    Attributes(Attributes),
    /// The addresses of its path, after a change.
    Address(Address),
    /// The queue pair was destroyed.
    Destroyed,
    /// Work requests were posted: an earlier version's, which does not say which.
    Posted {
        /// To the send queue.
        sends: u32,
        /// To the receive queue.
        recvs: u32,
    },
    /// The program polled a completion.
    Completed(CompletionInfo),
    /// A packet left.
    Sent(PacketInfo),
    /// A packet arrived.
    Received(PacketInfo, Fate),
    /// A counter of the queue pair grew, by its place in [`crate::counters::QUEUE_PAIR`].
    Counted {
        /// Which counter.
        counter: u8,
        /// By how much.
        amount: u64,
    },
    /// The link lost packets.
    Link(LinkTrouble),
    /// An asynchronous event.
    Async {
        /// `IBV_EVENT_*`.
        event: u8,
        /// The port, if it is about one.
        port: u8,
        /// Index of its device in the process.
        device: u32,
    },
    /// The fabric's path of the queue pair opened or closed.
    FabricPath {
        /// Whether packets arrive.
        open: bool,
    },
    /// A process of this host ended that this one exchanged data with: the high bits of its queue pair numbers.
    PeerGone {
        /// Its slot.
        slot: u32,
        /// How many processes had the slot before.
        generation: u64,
    },
    /// The daemon ended, and with it what this process knew of the fabric's paths.
    FabricLost,
    /// The peer's address as the kernel saw it when the retries were used up.
    Reachability(Reachability),
    /// An event of the connection manager.
    Connection {
        /// `RDMA_CM_EVENT_*`.
        event: u8,
        /// Its status.
        status: i32,
    },
    /// The capacity of the queue pair, when it was created.
    Capacity(Capacity),
    /// A work request was posted.
    Request(RequestInfo),
}

/// Path of a queue pair's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathKind {
    /// Packets.
    Wire,
    /// Memory shared with a process of this host.
    SameHost,
    /// A TCP connection (iWARP).
    Tcp,
}

/// Attributes of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// The peer's number.
    pub dest_qpn: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// Value of the P_Key.
    pub pkey: u16,
    /// Code of the ACK timeout.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK.
    pub rnr_retry: u8,
    /// RNR timer that its own NAKs carry.
    pub min_rnr_timer: u8,
    /// Port.
    pub port: u8,
    /// First PSN that it receives.
    pub rq_psn: u32,
    /// First PSN that it sends.
    pub sq_psn: u32,
    /// READs and atomics that it may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that it answers at a time.
    pub max_dest_rd_atomic: u8,
    /// `IBV_ACCESS_*`: the peer's rights.
    pub access: u32,
}

/// Addresses of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
    /// Destination LID; 0 on RoCE.
    pub dlid: u16,
    /// Whether packets carry the GIDs.
    pub is_global: bool,
    /// Framing of its packets.
    pub framing: Framing,
    /// Source LID; 0 on RoCE.
    pub slid: u16,
}

/// Framing of a path's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// An earlier version did not record it.
    #[default]
    Unknown,
    /// LRH, and BTH or GRH.
    InfiniBand,
    /// Ethernet and GRH.
    RoceV1,
    /// Ethernet, IP and UDP.
    RoceV2,
}

/// Capacity of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Sends that may be outstanding.
    pub max_send_wr: u32,
    /// Receives that may be outstanding.
    pub max_recv_wr: u32,
    /// Elements of a send's list.
    pub max_send_sge: u32,
    /// Elements of a receive's list.
    pub max_recv_sge: u32,
    /// Bytes of an inline request.
    pub max_inline_data: u32,
    /// Whether every send makes a completion.
    pub signals_all: bool,
    /// Whether a shared receive queue is in place of its own.
    pub has_srq: bool,
}

/// A work request, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestInfo {
    /// The program's ID.
    pub wr_id: u64,
    /// The operation.
    pub operation: Operation,
    /// `IBV_SEND_*`.
    pub flags: u8,
    /// Elements of its list.
    pub sges: u8,
    /// Bytes of its list.
    pub length: u32,
    /// Immediate data in host order, or the key to invalidate.
    pub imm: u32,
    /// The peer's memory.
    pub remote_addr: u64,
    /// Its key.
    pub rkey: u32,
}

/// The operation of a work request: `IBV_WR_*`, or [`Operation::RECEIVE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation(pub u8);

#[allow(missing_docs)] // The names are verbs.h's.
impl Operation {
    pub const RDMA_WRITE: Operation = Operation(0);
    pub const RDMA_WRITE_WITH_IMM: Operation = Operation(1);
    pub const SEND: Operation = Operation(2);
    pub const SEND_WITH_IMM: Operation = Operation(3);
    pub const RDMA_READ: Operation = Operation(4);
    pub const ATOMIC_CMP_AND_SWP: Operation = Operation(5);
    pub const ATOMIC_FETCH_AND_ADD: Operation = Operation(6);
    pub const LOCAL_INV: Operation = Operation(7);
    pub const BIND_MW: Operation = Operation(8);
    pub const SEND_WITH_INV: Operation = Operation(9);
    pub const FLUSH: Operation = Operation(14);
    pub const ATOMIC_WRITE: Operation = Operation(15);
    /// A receive, which has no number in verbs.h.
    pub const RECEIVE: Operation = Operation(0x80);
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletionInfo {
    /// The program's ID of the work request.
    pub wr_id: u64,
    /// `IBV_WC_*` status.
    pub status: u8,
    /// The operation.
    pub opcode: u8,
    /// Byte count.
    pub bytes: u32,
    /// Detail.
    pub vendor_err: u32,
    /// When the completion was made, which may be earlier than its poll.
    pub made_at: u64,
    /// Immediate data in host order, or the key that was invalidated.
    pub imm: u32,
    /// `IBV_WC_*` flags.
    pub flags: u8,
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// The other side: its GID, or its LID in the lowest bytes where packets have no GID.
    pub peer: Gid,
    /// Destination queue pair.
    pub dest_qpn: u32,
    /// PSN.
    pub psn: u32,
    /// Opcode.
    pub opcode: u8,
    /// Syndrome of its AETH.
    pub syndrome: Option<u8>,
    /// Whether it asks for an acknowledgement.
    pub ack_req: bool,
    /// P_Key.
    pub pkey: u16,
    /// Bytes of payload.
    pub bytes: u32,
}

/// How the adapter treated a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The queue pair got it.
    Delivered,
    /// No queue pair has the number.
    UnknownQpn,
    /// The P_Key is of another partition.
    BadPkey,
    /// It did not come from the queue pair's peer, or not to the queue pair's address.
    BadAddress,
}

/// Packets that the link lost, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTrouble {
    /// Which counter, by its place in [`crate::counters::LINK`].
    pub counter: u8,
    /// How many packets.
    pub amount: u64,
    /// The kernel's last error number; 0 if none.
    pub errno: u32,
}

/// The peer's address as the kernel sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reachability {
    /// Error of a route to it; 0 if there is one.
    pub route_errno: u32,
    /// Whether the source address is this host's.
    pub source_is_local: bool,
    /// Whether the destination is this host's.
    pub peer_is_local: bool,
    /// Whether a neighbour answered for the destination.
    pub has_neighbour: bool,
}

impl Record {
    /// Returns the section that it belongs to.
    pub fn section(&self) -> Section {
        match &self.event {
            Event::Posted { .. } | Event::Request(_) | Event::Sent(_) | Event::Received(_, Fate::Delivered) => {
                Section::Traffic
            }
            Event::Completed(wc) if matches!(wc.status, SUCCESS | WR_FLUSH_ERR) => Section::Traffic,
            Event::Received(..) | Event::Counted { .. } | Event::Link(_) => Section::Trouble,
            _ => Section::Story,
        }
    }
}
