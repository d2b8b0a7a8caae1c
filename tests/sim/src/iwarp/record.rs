//! A short conversation as TCP segments, one FPDU each, for dissectors.

use weft_iwarp::{Negotiation, NegotiationEvent, Offer};
use weft_transport::{Memory, Piece};
use weft_verbs::{Access, Instant, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge};

use super::host::Host;
use super::run::queue_pair;

/// Returns the payload of each TCP segment, with the side that sends it: a negotiation, each kind of request with its
/// answer, and a TERMINATE.
pub fn record(crc: bool, markers: bool) -> Vec<(usize, Vec<u8>)> {
    let (now, offer) = (Instant(0), Offer { crc, markers, ird: 4, ord: 4, extensions: false, ..Offer::default() });
    let mut initiator = Negotiation::initiator(now, offer, b"private").expect("short private data");
    let mut responder = Negotiation::responder(now, offer);
    let mut segments = vec![(0, initiator.transmit().to_vec())];
    responder.handle_bytes(now, &segments[0].1);
    responder.poll_event();
    responder.accept(now, 4, 4, b"").expect("a request");
    segments.push((1, responder.transmit().to_vec()));
    initiator.handle_bytes(now, &segments[1].1);
    let (Some(NegotiationEvent::Opened(a)), Some(NegotiationEvent::Opened(b))) =
        (initiator.poll_event(), responder.poll_event())
    else {
        panic!("no agreement");
    };
    let mut hosts = [Host::new(0x1000_0000), Host::new(0x9000_0000)];
    let mut qps = [queue_pair(0, &a, &mut hosts[0]), queue_pair(1, &b, &mut hosts[1])];
    let near = hosts[0].region(1, &[0x55; 8000], Access::LOCAL_WRITE);
    let far = hosts[1].region(2, &[0xaa; 8000], Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE);
    hosts[1].region(3, &[0; 8], Access::empty());
    let target = RemoteTarget { addr: far.addr, rkey: far.key };
    let ops = [
        (SendOp::Send, 5000, true),
        (SendOp::Send, 3, false),
        (SendOp::SendInv(3), 64, true),
        (SendOp::Write(target), 3001, false),
        (SendOp::Read(target), 3002, false),
        (SendOp::Write(RemoteTarget { addr: 0, rkey: 99 }), 8, false),
    ];
    let into = Sge { addr: far.addr, length: 8000, lkey: far.key };
    for (op, length, solicited) in ops {
        qps[1].post_recv(&RecvWr { wr_id: 0, sges: &[into] }, &mut hosts[1]).expect("room");
        let sges = [Sge { addr: near.addr, length, lkey: near.key }];
        let flags = if solicited { SendFlags::SOLICITED } else { SendFlags::empty() };
        let wr = SendWr { wr_id: 0, flags, op, sges: &sges, ud: None, xrc_srqn: None };
        qps[0].post_send(now, &wr, &mut hosts[0]).expect("room");
        let mut side = 0;
        while qps.iter().any(weft_transport::Qp::wants_stream) {
            side = if qps[side].wants_stream() { side } else { 1 - side };
            qps[side].poll_stream(now, 1, &mut hosts[side]);
            let batch = qps[side].stream_batch().expect("a stream");
            let mut bytes = Vec::new();
            for piece in batch.pieces() {
                match *piece {
                    Piece::Host { addr, len } => {
                        let start = bytes.len();
                        bytes.resize(start + len as usize, 0);
                        hosts[side].memory.read(addr, &mut bytes[start..]);
                    }
                    Piece::Arena { .. } => bytes.extend_from_slice(batch.arena(*piece)),
                }
            }
            qps[side].stream_sent(now, bytes.len(), &mut hosts[side]);
            qps[1 - side].handle_stream(now, 0, &bytes, &mut hosts[1 - side]);
            segments.push((side, bytes));
        }
    }
    segments
}
