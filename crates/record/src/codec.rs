//! The words of an entry.

use weft_verbs::Gid;

use crate::event::{
    Address, Attributes, Capacity, CompletionInfo, Event, Fate, Framing, LinkTrouble, Operation, PacketInfo, PathKind,
    Reachability, Record, RequestInfo,
};
use crate::fields::Fields;
use crate::layout::RECORD_WORDS;

impl Record {
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
            Event::Address(address) => (4, address.encode(fields)),
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
            Event::Capacity(capacity) => (18, capacity.encode(fields)),
            Event::Request(request) => (19, request.encode(fields)),
        }
    }

    fn decode(kind: u8, mut fields: Fields) -> Option<Event> {
        let f = &mut fields;
        Some(match kind {
            1 => Event::Created { qp_type: f.u8(), device: f.u32() },
            2 => Event::State { from: f.u8(), to: f.u8(), path: PathKind::decode(f.u8())? },
            3 => Event::Attributes(Attributes::decode(f)),
            4 => Event::Address(Address::decode(f)),
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
            18 => Event::Capacity(Capacity::decode(f)),
            19 => Event::Request(RequestInfo::decode(f)),
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
            .put([self.max_rd_atomic, self.max_dest_rd_atomic])
            .put(self.access.to_le_bytes())
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
            max_rd_atomic: f.u8(),
            max_dest_rd_atomic: f.u8(),
            access: f.u32(),
        }
    }
}

impl Framing {
    fn decode(code: u8) -> Framing {
        let known = [Framing::InfiniBand, Framing::RoceV1, Framing::RoceV2];
        known.into_iter().find(|framing| *framing as u8 == code).unwrap_or_default()
    }
}

impl Address {
    fn encode(&self, fields: Fields) -> Fields {
        fields
            .put(self.sgid.0)
            .put(self.dgid.0)
            .put(self.dlid.to_le_bytes())
            .put([self.is_global.into(), self.framing as u8])
            .put(self.slid.to_le_bytes())
    }

    fn decode(f: &mut Fields) -> Address {
        Address {
            sgid: Gid(f.take()),
            dgid: Gid(f.take()),
            dlid: f.u16(),
            is_global: f.u8() != 0,
            framing: Framing::decode(f.u8()),
            slid: f.u16(),
        }
    }
}

impl Capacity {
    fn encode(&self, fields: Fields) -> Fields {
        fields
            .put(self.max_send_wr.to_le_bytes())
            .put(self.max_recv_wr.to_le_bytes())
            .put(self.max_send_sge.to_le_bytes())
            .put(self.max_recv_sge.to_le_bytes())
            .put(self.max_inline_data.to_le_bytes())
            .put([self.signals_all.into(), self.has_srq.into()])
    }

    fn decode(f: &mut Fields) -> Capacity {
        Capacity {
            max_send_wr: f.u32(),
            max_recv_wr: f.u32(),
            max_send_sge: f.u32(),
            max_recv_sge: f.u32(),
            max_inline_data: f.u32(),
            signals_all: f.u8() != 0,
            has_srq: f.u8() != 0,
        }
    }
}

impl RequestInfo {
    fn encode(&self, fields: Fields) -> Fields {
        fields
            .put(self.wr_id.to_le_bytes())
            .put([self.operation.0, self.flags, self.sges])
            .put(self.length.to_le_bytes())
            .put(self.imm.to_le_bytes())
            .put(self.remote_addr.to_le_bytes())
            .put(self.rkey.to_le_bytes())
    }

    fn decode(f: &mut Fields) -> RequestInfo {
        RequestInfo {
            wr_id: f.u64(),
            operation: Operation(f.u8()),
            flags: f.u8(),
            sges: f.u8(),
            length: f.u32(),
            imm: f.u32(),
            remote_addr: f.u64(),
            rkey: f.u32(),
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
            .put(self.imm.to_le_bytes())
            .put([self.flags])
    }

    fn decode(f: &mut Fields) -> CompletionInfo {
        CompletionInfo {
            wr_id: f.u64(),
            status: f.u8(),
            opcode: f.u8(),
            bytes: f.u32(),
            vendor_err: f.u32(),
            made_at: f.u64(),
            imm: f.u32(),
            flags: f.u8(),
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
        let attr = Attributes {
            dest_qpn: 5,
            mtu: 4096,
            pkey: 0xffff,
            timeout: 14,
            sq_psn: 9,
            access: 1 << 20,
            ..Attributes::default()
        };
        let gids = (Gid([1; 16]), Gid([2; 16]));
        let address =
            Address { sgid: gids.0, dgid: gids.1, dlid: 3, is_global: true, framing: Framing::RoceV1, slid: 0xbfff };
        let (wr_id, flags) = (u64::MAX, 2);
        let wc = CompletionInfo { wr_id, status: 12, opcode: 1, bytes: 2, vendor_err: 3, made_at: 4, imm: 5, flags };
        let capacity = Capacity { max_send_wr: 1, max_recv_wr: 1 << 31, has_srq: true, ..Capacity::default() };
        let operation = Operation::ATOMIC_WRITE;
        let (remote_addr, rkey) = (1 << 63, 7);
        let request = RequestInfo { wr_id, operation, flags, sges: 30, length: 1 << 31, imm: 6, remote_addr, rkey };
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
            Event::Capacity(capacity),
            Event::Request(request),
        ];
        for event in events {
            let record = Record { at: 1 << 60, qpn: 0x12_3456, event };
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0; RECORD_WORDS - 1]), None, "a record that was never written");
    }
}
