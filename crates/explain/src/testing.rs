//! Records for tests.

use weft_verbs::Gid;

use crate::recording::Recording;
use weft_record::counters;
use weft_record::layout::{self, RECORD_WORDS, WORD_BYTES, header};
use weft_record::{Address, Attributes, CompletionInfo, Event, Fate, Framing, PacketInfo, PathKind, Record};

/// GIDs of the two sides.
pub const HERE: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
pub const THERE: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]);
/// Their queue pairs.
pub const OWN: u32 = 0x11;
pub const OTHER: u32 = 0x4011;
/// A millisecond.
pub const MS: u64 = 1_000_000;

const SEND_ONLY: u8 = 0x04;
const ACKNOWLEDGE: u8 = 0x11;

/// A SEND to [`OTHER`].
pub fn packet(psn: u32) -> PacketInfo {
    PacketInfo {
        peer: THERE,
        dest_qpn: OTHER,
        psn,
        opcode: SEND_ONLY,
        syndrome: None,
        ack_req: true,
        pkey: 0xffff,
        bytes: 1024,
    }
}

/// The same as the peer receives it.
pub fn arrived(psn: u32) -> PacketInfo {
    PacketInfo { peer: HERE, ..packet(psn) }
}

/// An acknowledgement of [`OTHER`] with a syndrome.
pub fn answer(psn: u32, syndrome: u8) -> PacketInfo {
    PacketInfo { dest_qpn: OWN, opcode: ACKNOWLEDGE, syndrome: Some(syndrome), bytes: 0, ..packet(psn) }
}

/// A process with these records.
pub fn recording(pid: u32, records: &[Record]) -> Recording {
    Recording {
        pid,
        boot: 7,
        host: "host".to_owned(),
        records: records.to_vec(),
        ended: Some(u64::MAX),
        records_end: true,
        ..Recording::default()
    }
}

/// The attributes of [`OWN`].
pub fn attributes() -> Attributes {
    Attributes {
        dest_qpn: OTHER,
        mtu: 1024,
        pkey: 0xffff,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 12,
        port: 1,
        rq_psn: 0,
        sq_psn: 0,
        ..Attributes::default()
    }
}

/// Addresses of RoCE v2.
pub fn roce_v2(sgid: Gid, dgid: Gid) -> Address {
    Address { sgid, dgid, dlid: 0, is_global: true, framing: Framing::RoceV2, slid: 0 }
}

/// A queue pair that was brought to RTS.
pub fn connected(qpn: u32, attributes: Attributes, sgid: Gid, dgid: Gid) -> Vec<Record> {
    let record = |event| Record { at: 1, qpn, event };
    let to = |from, to| record(Event::State { from, to, path: PathKind::Wire });
    vec![
        record(Event::Created { qp_type: 2, device: 3 }),
        to(0, 1),
        to(1, 2),
        record(Event::Attributes(attributes)),
        record(Event::Address(roce_v2(sgid, dgid))),
        to(2, 3),
    ]
}

/// This side, with what it did.
pub fn own(events: &[(u64, Event)]) -> Vec<Record> {
    let mut records = connected(OWN, attributes(), HERE, THERE);
    records.extend(events.iter().map(|&(at, event)| Record { at, qpn: OWN, event }));
    records
}

/// The peer, with what it did.
pub fn other(events: &[(u64, Event)]) -> Vec<Record> {
    let mut records = connected(OTHER, Attributes { dest_qpn: OWN, ..attributes() }, THERE, HERE);
    records.extend(events.iter().map(|&(at, event)| Record { at, qpn: OTHER, event }));
    records
}

/// A completion with this status.
pub fn completion(at: u64, status: u8) -> (u64, Event) {
    let wc = CompletionInfo { wr_id: 1, status, opcode: 0, bytes: 0, vendor_err: 0, made_at: at, imm: 0, flags: 0 };
    (at, Event::Completed(wc))
}

/// A request that is sent eight times without an answer, and the completion that follows.
pub fn unanswered(psn: u32) -> Vec<(u64, Event)> {
    let mut events: Vec<_> = (0..8).map(|nth| (10 * MS + nth * 67 * MS, Event::Sent(packet(psn)))).collect();
    let timeouts = counters::of_queue_pair("timeouts").unwrap_or_default();
    events.push((500 * MS, Event::Counted { counter: timeouts, amount: 7 }));
    events.push(completion(550 * MS, 12));
    events
}

/// Arrivals of these at the peer.
pub fn arrivals(psn: u32, fate: Fate) -> Vec<(u64, Event)> {
    (0..8).map(|nth| (11 * MS + nth * 67 * MS, Event::Received(arrived(psn), fate))).collect()
}

/// A ring file with these records.
pub fn ring_file(pid: u32, records: &[Record]) -> Vec<u8> {
    const CAPACITIES: [usize; 3] = [256; 3];
    let mut words = vec![0_u64; layout::file_bytes(&CAPACITIES) / WORD_BYTES];
    words[header::MAGIC] = layout::MAGIC;
    words[header::PID] = pid.into();
    words[header::CAPACITIES..header::CAPACITIES + 3].fill(256);
    for record in records {
        let section = record.section();
        let nth = words[header::HEADS + section.index()];
        let place = section.start(&CAPACITIES) + nth as usize * RECORD_WORDS;
        words[place] = nth + 1;
        words[place + 1..place + RECORD_WORDS].copy_from_slice(&record.encode());
        words[header::HEADS + section.index()] += 1;
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
