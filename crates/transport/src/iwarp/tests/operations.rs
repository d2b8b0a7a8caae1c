//! Every operation, its segments, and its completions.

use weft_iwarp::Rtr;
use weft_verbs::*;
use weft_wire::iwarp::Body;

use super::{StreamPair, params};
use crate::testing::*;

fn ok(wr_id: u64, len: u32) -> (u64, WcStatus, u32) {
    (wr_id, WcStatus::Success, len)
}

#[test]
fn messages_of_each_size_with_crcs_markers_and_cuts() {
    for bits in 0..4 {
        for len in [0_u32, 1, 2, 3, 1424, 1425, 300_000] {
            let mut both = params();
            for params in &mut both {
                params.crc = bits & 1 != 0;
                params.markers_in = bits & 2 != 0;
                params.markers_out = bits & 2 != 0;
                params.extensions = len != 300_000;
            }
            let mut p = StreamPair::new(both);
            (p.cut, p.room) = (997, 1999);
            p.recv(1, 7, &[sge(0x10_0000, 100), sge(0x20_0000, 0), sge(0x18_0000, 400_000)]);
            p.send(0, 1, SendOp::Send, &[sge(0, len)]);
            p.send(0, 2, SendOp::Write(remote(0x30_0000)), &[sge(5, len)]);
            p.send(0, 3, SendOp::Read(remote(0x1000)), &[sge(0x38_0000, len / 2), sge(0x20_0000, len - len / 2)]);
            p.run();
            assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, len), ok(2, len), ok(3, len)], "{len}");
            assert_eq!(p.worlds[1].take(RECV_CQ), [ok(7, len)]);
            let at = |side: usize, offset: u64, len: u32| p.worlds[side].memory.at(BASE + offset, len as usize);
            let (head, tail) = (len.min(100), len - len.min(100));
            assert_eq!(at(1, 0x10_0000, head), at(0, 0, head));
            assert_eq!(at(1, 0x18_0000, tail), at(0, head.into(), tail));
            assert_eq!(at(1, 0x30_0000, len), at(0, 5, len));
            assert_eq!(at(0, 0x38_0000, len / 2), at(1, 0x1000, len / 2));
        }
    }
}

#[test]
fn a_crc_covers_the_bytes_that_are_sent() {
    for crc in [false, true] {
        let mut both = params();
        (both[0].crc, both[1].crc) = (crc, crc);
        let mut p = StreamPair::new(both);
        p.send(0, 1, SendOp::Send, &[sge(0, 1000)]);
        p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 1000)]);
        p.qps[0].poll_stream(p.now, usize::MAX, &mut p.worlds[0]);
        // The program may write to the memory before `sendmsg` reads it.
        let pieces = p.qps[0].stream_batch().unwrap().pieces();
        let named = pieces.iter().filter(|piece| matches!(piece, crate::Piece::Host { .. })).count();
        assert_eq!(named, if crc { 0 } else { 2 });
    }
}

#[test]
fn fpdus_with_crcs_for_siw_are_sent_one_by_one() {
    let mut both = params();
    (both[0].crc, both[0].extensions) = (true, false);
    let mut p = StreamPair::new(both);
    p.send(0, 1, SendOp::Send, &[sge(0, 2000)]);
    p.qps[0].poll_stream(p.now, usize::MAX, &mut p.worlds[0]);
    let fpdus = |p: &StreamPair| p.qps[0].stream_batch().unwrap().fpdus().collect::<Vec<_>>();
    // ULPDU length, header, payload, padding, CRC.
    assert_eq!(fpdus(&p), [1448, 2 + 18 + 576 + 4]);
    p.qps[0].stream_sent(p.now, 1000, &mut p.worlds[0]);
    assert_eq!(fpdus(&p), [448, 600]);
    p.qps[0].stream_sent(p.now, 448 + 100, &mut p.worlds[0]);
    assert_eq!(fpdus(&p), [500]);
    p.qps[0].stream_sent(p.now, 500, &mut p.worlds[0]);
    assert!(fpdus(&p).is_empty());
    both[0].extensions = true;
    let mut p = StreamPair::new(both);
    p.send(0, 1, SendOp::Send, &[sge(0, 2000)]);
    p.qps[0].poll_stream(p.now, usize::MAX, &mut p.worlds[0]);
    assert!(fpdus(&p).is_empty(), "one sendmsg for all of it");
}

#[test]
fn segments_are_those_of_siw() {
    let mut both = params();
    (both[0].extensions, both[1].extensions) = (false, false);
    let mut p = StreamPair::new(both);
    p.recv(1, 7, &[sge(0x1_0000, 8000)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 4096)]);
    p.send(0, 2, SendOp::Write(remote(0x8000)), &[sge(0, 5000)]);
    p.run();
    // The sizes in the capture of siw: ULPDUs of 1442 bytes.
    let expected = [
        ("Send", 1424),
        ("Send", 1424),
        ("Send", 1248),
        ("RDMA Write", 1428),
        ("RDMA Write", 1428),
        ("RDMA Write", 1428),
        ("RDMA Write", 716),
    ];
    assert_eq!(p.names(0), expected);
    let offsets: Vec<_> = p
        .segments(0)
        .iter()
        .filter_map(|(header, _)| match header.body {
            Body::Send(untagged) => Some((untagged.msn(), untagged.offset())),
            _ => None,
        })
        .collect();
    assert_eq!(offsets, [(1, 0), (1, 1424), (1, 2848)]);
    assert_eq!(p.sent[0].len() % 1448, (1248 + 24 + 716 + 20) % 1448);
}

#[test]
fn a_read_of_nothing_names_no_memory() {
    let mut p = StreamPair::new(params());
    p.send(0, 1, SendOp::Read(remote(0)), &[]);
    p.run();
    let Body::ReadRequest(_, read) = p.segments(0)[0].0.body else { panic!() };
    assert_eq!((read.sink().stag(), read.sink().offset()), (1, 0));
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 0)]);
}

#[test]
fn a_send_invalidates_and_solicits() {
    let mut p = StreamPair::new(params());
    p.recv(1, 7, &[sge(0x1_0000, 64)]);
    p.post(0, 1, SendOp::SendInv(KEY_WINDOW), &[sge(0, 8)], SendFlags::SOLICITED).unwrap();
    p.run();
    assert_eq!(p.names(0), [("Send with SE and Invalidate", 8)]);
    assert!(p.worlds[0].take(SEND_CQ).is_empty() || p.qps[0].init().sq_sig_all);
    let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
    assert_eq!((wc.imm_data, wc.flags, wc.solicited), (KEY_WINDOW, WcFlags::WITH_INV, true));
    assert!(p.worlds[1].keys.iter().all(|key| key.key != KEY_WINDOW));
}

#[test]
fn extensions_carry_atomics_and_immediate_data() {
    let mut p = StreamPair::new(params());
    p.recv(1, 7, &[]);
    let before = p.worlds[1].memory.word(BASE + 0x100);
    p.send(0, 1, SendOp::FetchAdd { target: remote(0x100), add: 5 }, &[sge(0x4000, 8)]);
    let swap = SendOp::CompareSwap { target: remote(0x100), compare: before.wrapping_add(5), swap: 99 };
    p.send(0, 2, swap, &[sge(0x4008, 8)]);
    p.send(0, 3, SendOp::WriteImm(remote(0x8000), 0x1234_u32.to_be()), &[sge(0, 3000)]);
    p.run();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 8), ok(2, 8), ok(3, 3000)]);
    assert_eq!(p.worlds[0].memory.word(BASE + 0x4000), before);
    assert_eq!(p.worlds[0].memory.word(BASE + 0x4008), before.wrapping_add(5));
    assert_eq!(p.worlds[1].memory.word(BASE + 0x100), 99);
    let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
    assert_eq!((wc.opcode, wc.byte_len, wc.imm_data), (WcOpcode::RecvRdmaWithImm, 3000, 0x1234_u32.to_be()));
    // siw is not asked for any of them.
    let mut both = params();
    both[0].extensions = false;
    let mut p = StreamPair::new(both);
    for op in [swap, SendOp::WriteImm(remote(0), 1), SendOp::SendImm(1), SendOp::AtomicWrite(remote(0))] {
        assert!(p.post(0, 1, op, &[sge(0, 8)], SendFlags::empty()).is_err());
    }
}

#[test]
fn reads_keep_to_the_depth_and_fences_wait_for_them() {
    let mut both = params();
    (both[0].ord, both[1].ird) = (2, 2);
    let mut p = StreamPair::new(both);
    p.recv(1, 7, &[sge(0x1_0000, 64)]);
    for n in 0..5 {
        p.send(0, n, SendOp::Read(remote(n * 100)), &[sge(0x2_0000 + n * 100, 100)]);
    }
    p.post(0, 9, SendOp::Send, &[sge(0, 10)], SendFlags::FENCE | SendFlags::SIGNALED).unwrap();
    p.transmit(0);
    assert_eq!(p.names(0).len(), 2, "two READs, and all else waits");
    assert!(!p.qps[0].wants_stream());
    p.run();
    let ids: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| wc.0).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 9]);
    assert_eq!(p.names(0).last(), Some(&("Send", 10)));
}

#[test]
fn completions_keep_the_order_of_posting() {
    let mut p = StreamPair::new(params());
    p.recv(1, 7, &[sge(0x1_0000, 64)]);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x2_0000, 100)]);
    p.send(0, 2, SendOp::Send, &[sge(0, 10)]);
    p.send(0, 3, SendOp::LocalInv(KEY_WINDOW), &[]);
    p.transmit(0);
    assert!(p.worlds[0].take(SEND_CQ).is_empty(), "TCP has the SEND, but the READ is not answered");
    p.run();
    assert_eq!(p.worlds[0].take(SEND_CQ).iter().map(|wc| wc.0).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_responder_waits_for_the_first_fpdu() {
    for rtr in [Rtr::Fpdu, Rtr::Write, Rtr::Read] {
        let mut both = params();
        both[0].rtr = Some(rtr);
        both[1].awaits_rtr = true;
        let mut p = StreamPair::with(both, |_| {}, |attr| attr.qp_access = Access::empty());
        p.recv(0, 7, &[sge(0x1_0000, 64)]);
        p.send(1, 1, SendOp::Send, &[sge(0, 10)]);
        assert!(!p.qps[1].wants_stream() && p.qps[1].stream_awaits_peer() && p.qps[0].wants_stream());
        p.run();
        assert!(!p.qps[1].stream_awaits_peer() && p.qps[1].poll_timeout().is_none());
        assert_eq!(p.worlds[0].take(RECV_CQ), [ok(7, 10)], "{rtr:?}");
        // The depth is free again.
        for n in 0..4 {
            p.send(0, n, SendOp::Send, &[]);
        }
        assert_eq!(p.phases(), [crate::StreamPhase::Open; 2]);
    }
}

#[test]
fn a_shared_receive_queue_serves_the_stream() {
    let mut p = StreamPair::with(params(), |init| init.srq = Some(SRQ), |_| {});
    p.worlds[1].srq.push_back(crate::RecvWqe {
        wr_id: 77,
        sges: [sge(0x1_0000, 64)].into_iter().collect(),
        ..crate::RecvWqe::default()
    });
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    p.run();
    assert_eq!(p.worlds[1].take(RECV_CQ), [ok(77, 10)]);
}
