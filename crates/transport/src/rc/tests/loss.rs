//! Loss, one packet at a time: which packets are retransmitted, and how few.

use weft_verbs::*;
use weft_wire::{Kind, Packet};

use crate::testing::*;

/// Loses the first `times` packets of a side that `what` selects.
fn lose(side: usize, mut times: u32, what: impl Fn(&Packet<'_>) -> bool + 'static) -> Wire {
    Box::new(move |from, packet| {
        if from == side && times > 0 && what(packet) {
            times -= 1;
            Fate::Lose
        } else {
            Fate::Deliver
        }
    })
}

fn psn(n: u32) -> impl Fn(&Packet<'_>) -> bool {
    move |p| p.bth.psn().value() == PSN[0] + n
}

#[test]
fn a_lost_packet_costs_one_packet() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(0, 1, psn(2));
    p.send(0, 1, SendOp::Write(remote(0x1000)), &[sge(0, 6000)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 6000)]);
    let tail = &p.log[6..];
    assert_eq!(
        tail,
        [
            "1 Acknowledge 100002 nak=0 msn=0",
            "0 RDMA WRITE Middle 100002 A data=1024",
            "1 Acknowledge 100005 ack=0 msn=1"
        ]
    );
    let sent = p.worlds[0].memory.at(BASE, 6000).to_vec();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x1000, 6000), sent);
}

/// Returns PSN (from the first) and `copy_before_send` of the payload packets of a kind that a side sent, in order.
fn copy_before_send(p: &Pair, side: usize, of: impl Fn(Kind) -> bool) -> Vec<(u32, bool)> {
    let mut found = Vec::new();
    for ((from, bytes), copy_before_send) in p.sent.iter().zip(&p.copy_before_send) {
        let packet = Packet::parse(bytes).unwrap();
        if *from == side && of(packet.info.kind) {
            found.push((packet.bth.psn().value() - PSN[0], *copy_before_send));
        }
    }
    found
}

#[test]
fn what_came_to_harm_once_is_sent_as_one_copy() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(0, 1, psn(2));
    p.send(0, 1, SendOp::Write(remote(0x1000)), &[sge(0, 4096)]);
    p.finish();
    let writes = copy_before_send(&p, 0, |kind| kind != Kind::Acknowledge);
    assert_eq!(writes, [(0, false), (1, false), (2, false), (3, false), (2, true)]);
}

#[test]
fn what_nobody_sends_again_is_sent_as_one_copy() {
    for kind in [QpType::Uc, QpType::Ud] {
        let mut p = Pair::new(kind);
        p.recv(1, 3, &[sge(0x1000, 1040)]);
        p.send(0, 1, SendOp::Send, &[sge(0, 1000)]);
        p.finish();
        assert_eq!(p.copy_before_send, [true], "{:?}", p.log);
    }
}

#[test]
fn the_end_of_a_read_is_sent_as_one_copy() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(1, 1, psn(2));
    // 80 packets, of which the last 64 are 64 KiB.
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0, 80 << 10)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 80 << 10)]);
    let responses = copy_before_send(&p, 1, |kind| kind != Kind::Acknowledge);
    assert_eq!(responses.len(), 81);
    assert_eq!(responses.iter().filter(|(psn, _)| *psn == 2).map(|r| r.1).collect::<Vec<_>>(), [false, true]);
    for (psn, copy_before_send) in responses {
        assert!(psn == 2 || copy_before_send == (psn >= 16), "{psn}");
    }
}

#[test]
fn the_first_packet_and_two_gaps() {
    let mut p = Pair::new(QpType::Rc);
    let mut lost = 0;
    p.fate = Box::new(move |side, packet| {
        let n = packet.bth.psn().value().wrapping_sub(PSN[0]);
        if side == 0 && (n == 0 || n == 5 || n == 6) && lost < 3 {
            lost += 1;
            return Fate::Lose;
        }
        Fate::Deliver
    });
    p.recv(1, 3, &[sge(0x1000, 20_000)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 20_000)]);
    p.finish();
    assert_eq!(p.worlds[1].take(RECV_CQ), [(3, WcStatus::Success, 20_000)]);
    // Two neighbours lost look like the start of a burst, so one packet is retransmitted needlessly.
    assert_eq!(p.qps[0].stats().retransmits, 4, "{:#?}", p.log);
}

#[test]
fn a_lost_tail_is_probed_long_before_the_timeout() {
    for lost in [0, 1] {
        let mut p = Pair::new(QpType::Rc);
        p.fate = lose(lost, 1, move |q| q.bth.psn().value() == PSN[0] + 2);
        p.send(0, 1, SendOp::Write(remote(0x1000)), &[sge(0, 3000)]);
        let start = p.now;
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 3000)]);
        assert!(p.now.0 - start.0 < 6_000_000, "{:#?}", p.log);
        assert_eq!(p.qps[0].stats().timeouts, 0);
    }
}

#[test]
fn lost_read_request_response_and_atomic_answer() {
    let cases: [(usize, Kind); 4] = [
        (0, Kind::ReadRequest),
        (1, Kind::ReadResponseFirst),
        (1, Kind::ReadResponseMiddle),
        (1, Kind::ReadResponseLast),
    ];
    for (side, kind) in cases {
        let mut p = Pair::new(QpType::Rc);
        p.fate = lose(side, 1, move |q| q.info.kind == kind);
        p.send(0, 1, SendOp::Read(remote(0x1000)), &[sge(0x8000, 9000)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 9000)]);
        let there = p.worlds[1].memory.at(BASE + 0x1000, 9000).to_vec();
        assert_eq!(p.worlds[0].memory.at(BASE + 0x8000, 9000), there);
        assert_eq!(p.qps[0].stats().timeouts, 0);
    }
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(1, 2, |q| q.info.kind == Kind::AtomicAcknowledge);
    let before = p.worlds[1].memory.word(BASE);
    p.send(0, 1, SendOp::FetchAdd { target: remote(0), add: 5 }, &[sge(0, 8)]);
    p.finish();
    assert_eq!(p.worlds[0].memory.word(BASE), before);
    assert_eq!(p.worlds[1].memory.word(BASE), before + 5);
}

#[test]
fn a_gap_among_responses_asks_for_the_gap_alone() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(1, 1, psn(2));
    p.send(0, 1, SendOp::Read(remote(0x1000)), &[sge(0x8000, 9000)]);
    p.finish();
    let again: Vec<_> = p.log.iter().filter(|l| l.contains("Request")).collect();
    assert_eq!(again, ["0 RDMA READ Request 100000 A dmalen=9000", "0 RDMA READ Request 100002 A dmalen=1024"]);
}

#[test]
fn an_acknowledgement_past_a_read_implies_its_loss() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = lose(1, 1, |q| q.info.kind == Kind::ReadResponseOnly);
    p.send(0, 1, SendOp::Read(remote(0x1000)), &[sge(0x8000, 100)]);
    p.send(0, 2, SendOp::Write(remote(0x2000)), &[sge(0x100, 100)]);
    p.finish();
    let got = p.worlds[0].take(SEND_CQ);
    assert_eq!(got, [(1, WcStatus::Success, 100), (2, WcStatus::Success, 100)]);
    assert_eq!(p.qps[0].stats().implied_naks, 1);
    assert_eq!(p.qps[0].stats().probes, 0, "{:#?}", p.log);
}

/// Simulates a peer that drops packets behind a gap, as Linux rxe does: a filter in front of the responder.
fn strict_peer(loss: u64, seed: u64) -> Wire {
    let mut rng = Rng(seed);
    let mut expected = PSN[0];
    let mut kept = false;
    Box::new(move |side, packet| {
        if rng.below(100) < loss {
            return Fate::Lose;
        }
        if side == 1 {
            return Fate::Deliver;
        }
        let psn = packet.bth.psn().value();
        if psn == expected {
            expected += 1 + u32::from(kept);
            kept = false;
        } else if psn == expected + 1 {
            // One packet behind the gap gets through, to provoke the NAK; the responder keeps it.
            kept = true;
        } else if psn > expected {
            return Fate::Lose;
        }
        Fate::Deliver
    })
}

#[test]
fn a_peer_that_keeps_nothing_gets_go_back_n() {
    for seed in 1..20 {
        let mut p = Pair::new(QpType::Rc);
        p.fate = strict_peer(2, seed);
        p.send(0, 1, SendOp::Write(remote(0x20_0000)), &[sge(0, 500_000)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 500_000)]);
        let sent = p.worlds[0].memory.at(BASE, 500_000).to_vec();
        assert_eq!(p.worlds[1].memory.at(BASE + 0x20_0000, 500_000), sent);
    }
}

#[test]
fn a_burst_lost_is_repaired_in_growing_runs() {
    let mut p = Pair::new(QpType::Rc);
    let mut seen = 0;
    p.fate = Box::new(move |side, packet| {
        let n = packet.bth.psn().value().wrapping_sub(PSN[0]);
        seen += u32::from(side == 0);
        if side == 0 && (20..70).contains(&n) && seen <= 200 { Fate::Lose } else { Fate::Deliver }
    });
    p.send(0, 1, SendOp::Write(remote(0x20_0000)), &[sge(0, 200_000)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 200_000)]);
    let naks = p.log.iter().filter(|l| l.contains("nak=0")).count();
    assert!(naks <= 8, "{naks} NAKs");
}

#[test]
fn credits_limit_and_probe() {
    use weft_wire::{Aeth, Bth, Headers, Opcode, Psn, Service, Syndrome, packet::HeaderBuf};
    let mut p = Pair::new(QpType::Rc);
    p.fate = Box::new(|_, _| Fate::Lose);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.transmit();
    assert_eq!(p.log.len(), 1);
    let ack = |psn, credits, msn| {
        let opcode = Opcode::of(Service::Rc, Kind::Acknowledge).unwrap();
        let ext = Headers { aeth: Some(Aeth::new(Syndrome::Ack(credits), msn)), ..Headers::default() };
        let mut bytes = HeaderBuf::write(Bth::new(opcode, 0xffff, 0x10, Psn::new(psn)), &ext, 0).as_slice().to_vec();
        bytes.extend([0; 4]);
        bytes
    };
    // No credit is left: one packet of the next message is sent as a probe; a WRITE would not have been limited.
    p.deliver(0, &ack(PSN[0], 0, 1));
    p.send(0, 2, SendOp::Send, &[sge(0, 3000)]);
    p.transmit();
    assert_eq!(p.log[1..], ["0 SEND First 100001 A data=1024"]);
    p.deliver(0, &ack(PSN[0] + 1, 5, 1));
    p.transmit();
    assert_eq!(p.log.len(), 4);
    assert_eq!(p.log[3], "0 SEND Last 100003 A data=952");
}

#[test]
fn acknowledgements_tell_how_many_receives_there_are() {
    let mut p = Pair::new(QpType::Rc);
    for wr_id in 0..6 {
        p.recv(1, wr_id, &[sge(0, 4096)]);
    }
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.finish();
    // Five are left; the largest code not above stands for four.
    assert_eq!(p.log[1], "1 Acknowledge 100000 ack=4 msn=1");
    for wr_id in 2..20 {
        p.send(0, wr_id, SendOp::Send, &[sge(0, 2000)]);
    }
    p.run(weft_verbs::Duration::from_millis(1));
    // Without credit one packet probes for the message and is refused; the rest of the queue is not sent in vain.
    let refused = p.log.iter().filter(|line| line.contains("rnr=")).count();
    let sent = p.log.iter().filter(|line| line.contains("SEND First")).count();
    assert_eq!((refused, sent), (1, 6), "{:#?}", p.log);
}
