//! One entry of a record.

use weft_verbs::Gid;

use crate::fields::Fields;
use crate::layout::{RECORD_WORDS, Section};

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
    /// Work requests were posted.
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
            Event::Posted { .. } | Event::Sent(_) | Event::Received(_, Fate::Delivered) => Section::Traffic,
            Event::Completed(wc) if matches!(wc.status, SUCCESS | WR_FLUSH_ERR) => Section::Traffic,
            Event::Received(..) | Event::Counted { .. } | Event::Link(_) => Section::Trouble,
            _ => Section::Story,
        }
    }

    /// Returns the words after the sequence number.
    pub fn encode(&self) -> [u64; RECORD_WORDS - 1] {
        let (kind, fields) = self.event.encode();
        let mut words = [0; RECORD_WORDS - 1];
        words[0] = self.at;
        words[1] = u64::from(kind) << 32 | u64::from(self.qpn);
        words[2..].copy_from_slice(&fields.words());
        words
    }

    /// Reads the words after the sequence number; `None` for a kind of a later version.
    pub fn decode(words: [u64; RECORD_WORDS - 1]) -> Option<Record> {
        let [at, head, body @ ..] = words;
        let event = Event::decode((head >> 32) as u8, Fields::of(body))?;
        Some(Record { at, qpn: head as u32, event })
    }
}

impl Event {
    fn encode(&self) -> (u8, Fields) {
        let fields = Fields::new();
        match *self {
            Event::Created { qp_type, device } => (1, fields.put([qp_type]).put(device.to_le_bytes())),
            Event::State { from, to, path } => (2, fields.put([from, to, path as u8])),
            Event::Attributes(attr) => (3, attr.encode(fields)),
            Event::Address(Address { sgid, dgid, dlid, is_global }) => {
                (4, fields.put(sgid.0).put(dgid.0).put(dlid.to_le_bytes()).put([is_global.into()]))
            }
            Event::Destroyed => (5, fields),
            Event::Posted { sends, recvs } => (6, fields.put(sends.to_le_bytes()).put(recvs.to_le_bytes())),
            Event::Completed(wc) => (7, wc.encode(fields)),
            Event::Sent(packet) => (8, packet.encode(fields)),
            Event::Received(packet, fate) => (9, packet.encode(fields).put([fate as u8])),
            Event::Counted { counter, amount } => (10, fields.put([counter]).put(amount.to_le_bytes())),
            Event::Link(LinkTrouble { counter, amount, errno }) => {
                (11, fields.put([counter]).put(amount.to_le_bytes()).put(errno.to_le_bytes()))
            }
            Event::Async { event, port, device } => (12, fields.put([event, port]).put(device.to_le_bytes())),
            Event::FabricPath { open } => (13, fields.put([open.into()])),
            Event::PeerGone { slot, generation } => (14, fields.put(slot.to_le_bytes()).put(generation.to_le_bytes())),
            Event::Reachability(seen) => {
                let flags = [seen.source_is_local, seen.peer_is_local, seen.has_neighbour].map(u8::from);
                (15, fields.put(seen.route_errno.to_le_bytes()).put(flags))
            }
            Event::Connection { event, status } => (16, fields.put([event]).put(status.to_le_bytes())),
            Event::FabricLost => (17, fields),
        }
    }

    fn decode(kind: u8, mut fields: Fields) -> Option<Event> {
        let f = &mut fields;
        Some(match kind {
            1 => Event::Created { qp_type: f.u8(), device: f.u32() },
            2 => Event::State { from: f.u8(), to: f.u8(), path: PathKind::decode(f.u8())? },
            3 => Event::Attributes(Attributes::decode(f)),
            4 => Event::Address(Address {
                sgid: Gid(f.take()),
                dgid: Gid(f.take()),
                dlid: f.u16(),
                is_global: f.u8() != 0,
            }),
            5 => Event::Destroyed,
            6 => Event::Posted { sends: f.u32(), recvs: f.u32() },
            7 => Event::Completed(CompletionInfo::decode(f)),
            8 => Event::Sent(PacketInfo::decode(f)),
            9 => Event::Received(PacketInfo::decode(f), Fate::decode(f.u8())?),
            10 => Event::Counted { counter: f.u8(), amount: f.u64() },
            11 => Event::Link(LinkTrouble { counter: f.u8(), amount: f.u64(), errno: f.u32() }),
            12 => Event::Async { event: f.u8(), port: f.u8(), device: f.u32() },
            13 => Event::FabricPath { open: f.u8() != 0 },
            14 => Event::PeerGone { slot: f.u32(), generation: f.u64() },
            15 => Event::Reachability(Reachability {
                route_errno: f.u32(),
                source_is_local: f.u8() != 0,
                peer_is_local: f.u8() != 0,
                has_neighbour: f.u8() != 0,
            }),
            16 => Event::Connection { event: f.u8(), status: i32::from_le_bytes(f.take()) },
            17 => Event::FabricLost,
            _ => return None,
        })
    }
}

impl PathKind {
    fn decode(code: u8) -> Option<PathKind> {
        [PathKind::Wire, PathKind::SameHost, PathKind::Tcp].into_iter().find(|kind| *kind as u8 == code)
    }
}

impl Fate {
    fn decode(code: u8) -> Option<Fate> {
        [Fate::Delivered, Fate::UnknownQpn, Fate::BadPkey, Fate::BadAddress]
            .into_iter()
            .find(|fate| *fate as u8 == code)
    }
}

impl Attributes {
    fn encode(&self, fields: Fields) -> Fields {
        let codes = [self.timeout, self.retry_cnt, self.rnr_retry, self.min_rnr_timer, self.port];
        fields
            .put(self.dest_qpn.to_le_bytes())
            .put(self.mtu.to_le_bytes())
            .put(self.pkey.to_le_bytes())
            .put(codes)
            .put(self.rq_psn.to_le_bytes())
            .put(self.sq_psn.to_le_bytes())
    }

    fn decode(f: &mut Fields) -> Attributes {
        Attributes {
            dest_qpn: f.u32(),
            mtu: f.u16(),
            pkey: f.u16(),
            timeout: f.u8(),
            retry_cnt: f.u8(),
            rnr_retry: f.u8(),
            min_rnr_timer: f.u8(),
            port: f.u8(),
            rq_psn: f.u32(),
            sq_psn: f.u32(),
        }
    }
}

impl CompletionInfo {
    fn encode(&self, fields: Fields) -> Fields {
        fields
            .put(self.wr_id.to_le_bytes())
            .put([self.status, self.opcode])
            .put(self.bytes.to_le_bytes())
            .put(self.vendor_err.to_le_bytes())
            .put(self.made_at.to_le_bytes())
    }

    fn decode(f: &mut Fields) -> CompletionInfo {
        CompletionInfo {
            wr_id: f.u64(),
            status: f.u8(),
            opcode: f.u8(),
            bytes: f.u32(),
            vendor_err: f.u32(),
            made_at: f.u64(),
        }
    }
}

impl PacketInfo {
    fn encode(&self, fields: Fields) -> Fields {
        let flags = u8::from(self.ack_req) | u8::from(self.syndrome.is_some()) << 1;
        fields
            .put(self.peer.0)
            .put(self.dest_qpn.to_le_bytes())
            .put(self.psn.to_le_bytes())
            .put([self.opcode, self.syndrome.unwrap_or(0), flags])
            .put(self.pkey.to_le_bytes())
            .put(self.bytes.to_le_bytes())
    }

    fn decode(f: &mut Fields) -> PacketInfo {
        let (peer, dest_qpn, psn) = (Gid(f.take()), f.u32(), f.u32());
        let (opcode, syndrome, flags) = (f.u8(), f.u8(), f.u8());
        PacketInfo {
            peer,
            dest_qpn,
            psn,
            opcode,
            syndrome: (flags & 2 != 0).then_some(syndrome),
            ack_req: flags & 1 != 0,
            pkey: f.u16(),
            bytes: f.u32(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_its_record() {
        let packet = PacketInfo {
            peer: Gid([7; 16]),
            dest_qpn: 0xff_fffe,
            psn: 0xab_cdef,
            opcode: 0x11,
            syndrome: Some(0x62),
            ack_req: true,
            pkey: 0x8001,
            bytes: 4096,
        };
        let plain = PacketInfo { syndrome: None, ack_req: false, ..packet };
        let attr = Attributes { dest_qpn: 5, mtu: 4096, pkey: 0xffff, timeout: 14, sq_psn: 9, ..Attributes::default() };
        let address = Address { sgid: Gid([1; 16]), dgid: Gid([2; 16]), dlid: 3, is_global: true };
        let wc = CompletionInfo { wr_id: u64::MAX, status: 12, opcode: 1, bytes: 2, vendor_err: 3, made_at: 4 };
        let seen = Reachability { route_errno: 113, source_is_local: true, peer_is_local: false, has_neighbour: true };
        let events = [
            Event::Created { qp_type: 2, device: 3 },
            Event::State { from: 1, to: 2, path: PathKind::Tcp },
            Event::Attributes(attr),
            Event::Address(address),
            Event::Destroyed,
            Event::Posted { sends: 1, recvs: 2 },
            Event::Completed(wc),
            Event::Sent(packet),
            Event::Received(plain, Fate::BadPkey),
            Event::Counted { counter: 5, amount: 1 << 40 },
            Event::Link(LinkTrouble { counter: 1, amount: 2, errno: 111 }),
            Event::Async { event: 10, port: 1, device: 1 << 20 },
            Event::FabricPath { open: true },
            Event::PeerGone { slot: 1023, generation: 1 << 40 },
            Event::FabricLost,
            Event::Reachability(seen),
            Event::Connection { event: 7, status: -110 },
        ];
        for event in events {
            let record = Record { at: 1 << 60, qpn: 0x12_3456, event };
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0; RECORD_WORDS - 1]), None, "a record that was never written");
    }
}
