//! Comparison with captures of Linux's rxe: the requester sends the same packets and ends like rxe's client when it
//! gets rxe's answers; the responder answers rxe's requests with the same packets.

use weft_verbs::*;
use weft_wire::aeth::CREDITS_INVALID;
use weft_wire::opcode::Place;
use weft_wire::{Aeth, Bth, Headers, Kind, Packet, Syndrome, pcapng, roce};

use crate::testing::*;

/// One line of a manifest and the packets of its case.
struct Case {
    name: String,
    text: String,
    requests: Vec<Vec<u8>>,
    responses: Vec<Vec<u8>>,
}

impl Case {
    fn field(&self, key: &str) -> Option<&str> {
        let at = self.text.find(&format!(" {key}="))? + key.len() + 2;
        let rest = &self.text[at..];
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(' ').next(),
        }
    }

    fn hex(&self, key: &str) -> u64 {
        let text = self.field(key).unwrap_or("0");
        u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
    }
}

/// A capture and its manifest, compiled in.
macro_rules! vector {
    ($name:literal) => {
        (
            &include_bytes!(concat!("../../../../wire/tests/vectors/", $name, ".pcap"))[..],
            include_str!(concat!("../../../../wire/tests/vectors/", $name, ".manifest.txt")),
        )
    };
}

fn cases(capture: &str) -> Vec<Case> {
    let (file, manifest) = match capture {
        "rxe-6.1-v4-mtu256" => vector!("rxe-6.1-v4-mtu256"),
        "rxe-6.1-v4-mtu1024" => vector!("rxe-6.1-v4-mtu1024"),
        "rxe-6.1-v4-mtu4096" => vector!("rxe-6.1-v4-mtu4096"),
        _ => vector!("rxe-6.1-v6-mtu1024"),
    };
    let mut cases: Vec<Case> = Vec::new();
    for line in manifest.lines() {
        let mut case = Case { name: String::new(), text: line.into(), requests: Vec::new(), responses: Vec::new() };
        case.name = case.field("name").unwrap().into();
        cases.push(case);
    }
    for (_, ib) in pcapng::frames(file).filter_map(roce::parse_v2_frame) {
        let packet = Packet::parse(ib).unwrap();
        // Both ends of a case have the same queue pair number.
        let qpn = u64::from(packet.bth.dest_qp());
        let Some(case) = cases.iter_mut().find(|c| c.hex("sqpn") == qpn) else { continue };
        if packet.info.kind.is_response() {
            case.responses.push(ib.to_vec());
        } else {
            case.requests.push(ib.to_vec());
        }
    }
    cases
}

/// Returns the part of a packet that must be equal: all but the MigReq bit (which rxe leaves clear), and the payload
/// only if `payload`.
fn face(bytes: &[u8], payload: bool) -> (Bth, Headers, usize, Vec<u8>) {
    let packet = Packet::parse(bytes).unwrap();
    let mut bth = packet.bth;
    bth.set_mig_req(false);
    let data = if payload { packet.payload.to_vec() } else { Vec::new() };
    let mut ext = packet.ext;
    // rxe reports no credits; Weft reports the number of receives.
    if let Some(aeth) = ext.aeth
        && let Syndrome::Ack(_) = aeth.syndrome()
    {
        ext.aeth = Some(Aeth::new(Syndrome::Ack(CREDITS_INVALID), aeth.msn()));
    }
    (bth, ext, packet.payload.len(), data)
}

const CAPTURES: [(&str, Mtu); 4] = [
    ("rxe-6.1-v4-mtu256", Mtu::Mtu256),
    ("rxe-6.1-v4-mtu1024", Mtu::Mtu1024),
    ("rxe-6.1-v4-mtu4096", Mtu::Mtu4096),
    ("rxe-6.1-v6-mtu1024", Mtu::Mtu1024),
];

/// Creates a pair whose side 0 acts as rxe's client and side 1 as its server.
fn pair(case: &Case, mtu: Mtu) -> Pair {
    let kind = match &case.name[..2] {
        "uc" => QpType::Uc,
        "ud" => QpType::Ud,
        _ => QpType::Rc,
    };
    let mut p = Pair::with([init(kind), init(kind)], |side, a| {
        a.path_mtu = mtu;
        a.dest_qpn = case.hex(if side == 0 { "sqpn" } else { "cqpn" }) as u32;
        a.sq_psn = case.hex("cpsn") as u32;
        a.rq_psn = case.hex("cpsn") as u32;
    });
    p.fate = Box::new(|_, _| Fate::Lose);
    p
}

/// Posts the work requests that made these packets, after it puts their payload into memory.
fn post_what_was_sent(p: &mut Pair, requests: &[Vec<u8>]) -> u64 {
    let (mut count, mut start, mut at) = (0, 0u64, 0u64);
    let mut first = None;
    for bytes in requests {
        let packet = Packet::parse(bytes).unwrap();
        if matches!(packet.info.place, Place::First | Place::Only) {
            start = at;
            first = Some(packet.ext);
        }
        p.worlds[0].memory.0[at as usize..][..packet.payload.len()].copy_from_slice(packet.payload);
        at += packet.payload.len() as u64;
        if matches!(packet.info.place, Place::First | Place::Middle) {
            continue;
        }
        let ext = first.unwrap();
        let to = ext.reth.map(|r| RemoteTarget { addr: r.va(), rkey: r.rkey() }).unwrap_or_default();
        let imm = packet.ext.imm.map(|i| i.value().to_be());
        let mut len = (at - start) as u32;
        let op = match packet.info.kind {
            Kind::ReadRequest => {
                len = ext.reth.unwrap().dma_len();
                SendOp::Read(to)
            }
            Kind::CompareSwap | Kind::FetchAdd => {
                let a = ext.atomic.unwrap();
                let target = RemoteTarget { addr: a.va(), rkey: a.rkey() };
                len = 8;
                if packet.info.kind == Kind::CompareSwap {
                    SendOp::CompareSwap { target, compare: a.compare(), swap: a.swap_add() }
                } else {
                    SendOp::FetchAdd { target, add: a.swap_add() }
                }
            }
            kind if kind.is_write() => imm.map_or(SendOp::Write(to), |imm| SendOp::WriteImm(to, imm)),
            _ => match (imm, packet.ext.ieth) {
                (Some(imm), _) => SendOp::SendImm(imm),
                (_, Some(key)) => SendOp::SendInv(key.value()),
                _ => SendOp::Send,
            },
        };
        let mut flags = SendFlags::SIGNALED;
        flags.set(SendFlags::SOLICITED, packet.bth.solicited());
        // Results go after the sent data.
        let offset = if packet.info.payload { start } else { 0x10_0000 + u64::from(count as u32) * 0x1_0000 };
        let ud =
            packet.ext.deth.map(|d| UdTarget { av: av(0), remote_qpn: packet.bth.dest_qp(), remote_qkey: d.qkey() });
        let list = [sge(offset, len)];
        let wr = SendWr { wr_id: count, flags, op, sges: &list, ud, xrc_srqn: None };
        p.qps[0].post_send(p.now, &wr, &mut p.worlds[0]).unwrap();
        count += 1;
    }
    count
}

#[test]
fn our_requests_are_those_of_rxe_and_end_alike() {
    let mut seen = 0;
    for (capture, mtu) in CAPTURES {
        for case in cases(capture) {
            // Retransmissions differ on purpose; requests of the last two never reached the wire.
            let again = ["loss_", "err_rnr", "err_psn", "err_no_such", "err_atomic_una", "ext_"];
            if again.iter().any(|a| case.name.starts_with(a)) {
                continue;
            }
            let mut p = pair(&case, mtu);
            let count = post_what_was_sent(&mut p, &case.requests);
            p.transmit();
            let own_number = |bytes: &[u8]| {
                let mut f = face(bytes, true);
                // Datagrams carry their sender's number, which differs here.
                f.1.deth = f.1.deth.map(|d| weft_wire::ext::Deth::new(d.qkey(), 0));
                f
            };
            let ours: Vec<_> = p.sent.iter().map(|(_, b)| own_number(b)).collect();
            let theirs: Vec<_> = case.requests.iter().map(|b| own_number(b)).collect();
            assert_eq!(ours, theirs, "{capture} {}", case.name);
            for bytes in &case.responses {
                p.deliver(0, bytes);
            }
            let ends = p.worlds[0].take(SEND_CQ);
            let want = match case.field("client").unwrap() {
                "success" => WcStatus::Success,
                "remote access error" => WcStatus::RemAccessErr,
                "remote operation error" => WcStatus::RemOpErr,
                other => panic!("{other}"),
            };
            assert_eq!(ends.len() as u64, count, "{capture} {}", case.name);
            assert!(ends.iter().all(|e| e.1 == want), "{capture} {}: {ends:?}", case.name);
            seen += 1;
        }
    }
    assert_eq!(seen, 4 * 56);
}

#[test]
fn our_answers_are_those_of_rxe() {
    let mut seen = 0;
    for (capture, mtu) in CAPTURES {
        for case in cases(capture) {
            // By the specification a message that is too long is an invalid request, to rxe an operational error; a
            // refused invalidation gets a NAK, where rxe acknowledges and fails. Weft keeps packets behind a gap.
            let differs =
                ["err_send_too_long", "err_send_inv", "loss_", "err_psn", "err_no_such", "err_rnr_t", "err_rnr_w"];
            if differs.iter().any(|d| case.name.starts_with(d)) || case.requests.is_empty() {
                continue;
            }
            let mut p = pair(&case, mtu);
            let (raddr, host) = (case.hex("raddr"), BASE + 0x20_0000);
            for key in [case.hex("rkey"), case.hex("mwkey")].into_iter().filter(|k| *k != 0) {
                let access = Access::all();
                p.worlds[1].keys.push(Region { key: key as u32, iova: raddr, len: 0x1_0000, access, host });
            }
            if case.field("orig").is_some() {
                p.worlds[1].memory.0[0x20_0000..][..8].copy_from_slice(&case.hex("orig").to_ne_bytes());
            }
            if !case.name.starts_with("err_rnr") {
                p.recv(1, 5, &[sge(0, 0x1_0000)]);
            }
            for bytes in &case.requests {
                p.deliver(1, bytes);
                p.transmit();
            }
            let ours: Vec<_> = p.sent.iter().map(|(_, b)| face(b, false)).collect();
            let theirs: Vec<_> = case.responses.iter().map(|b| face(b, false)).collect();
            assert_eq!(ours, theirs, "{capture} {}", case.name);
            if case.field("server") == Some("success") {
                let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
                assert_eq!(wc.byte_len.to_string(), case.field("slen").unwrap(), "{capture} {}", case.name);
                assert_eq!(u64::from(u32::from_be(wc.imm_data)), imm(&case), "{capture} {}", case.name);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 4 * 54);
}

/// Returns immediate data or the invalidated key of the completion, as a number in network order.
fn imm(case: &Case) -> u64 {
    if case.name.starts_with("rc_send_inv") {
        return u64::from((case.hex("mwkey") as u32).swap_bytes());
    }
    case.hex("simm")
}
