//! Deviations of Linux's rxe from the specification.

use weft_verbs::*;

use crate::TxBatch;
use crate::testing::*;

const RANGE: u32 = 100;

/// Builds a FLUSH of a range that begins at an address.
fn flush(addr: u64, length: u32) -> SendOp {
    SendOp::Flush { target: RemoteTarget { addr, ..remote(0) }, length, placement: 1, level: 0 }
}

/// Sends everything from side 0; returns for each packet whether it is a FLUSH in rxe's form.
fn sent(p: &mut Pair) -> Vec<bool> {
    let mut batch = TxBatch::default();
    p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]);
    batch.packets.iter().map(|packet| packet.flush_for_rxe).collect()
}

#[test]
fn a_flush_that_is_sent_again_has_the_other_icrc_and_an_answer_settles_which() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, flush(BASE, RANGE), &[]);
    let mut ways = sent(&mut p);
    while ways.len() < 3 {
        p.now = p.qps[0].poll_timeout().expect("a FLUSH is outstanding");
        p.qps[0].handle_timeout(p.now, &mut p.worlds[0]);
        ways.extend(sent(&mut p));
    }
    assert_eq!(ways, [false, true, false]);
    // The next copy is the first to arrive.
    p.finish();
    p.send(0, 2, flush(BASE, RANGE), &[]);
    assert_eq!(sent(&mut p), [true]);
}

#[test]
fn a_flush_that_is_sent_again_with_address_0_reaches_the_whole_region() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, flush(0, RANGE), &[]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, u32::default())]);
    assert_eq!(p.worlds[1].memory.1, [(BASE, MEMORY as u64, false)]);
    for refused in [flush(0, MEMORY as u32 + 1), flush(8, RANGE)] {
        let mut p = Pair::new(QpType::Rc);
        p.send(0, 1, refused, &[]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::RemAccessErr);
    }
}

#[test]
fn packets_that_come_again_are_acknowledged_together() {
    let mut p = Pair::new(QpType::Rc);
    let run = written(&mut p);
    let before = p.log.len();
    for (nth, bytes) in run.iter().enumerate() {
        p.deliver(1, bytes);
        p.transmit();
        assert_eq!(p.log.len() - before, usize::from(nth + 1 == run.len()), "the last asks for it");
    }
}

/// Writes ten packets; returns the packets that side 0 sent.
fn written(p: &mut Pair) -> Vec<Vec<u8>> {
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 10 * 1024)]);
    p.finish();
    p.sent.iter().filter(|(side, _)| *side == 0).map(|(_, bytes)| bytes.clone()).collect()
}

/// Runs side 1's timers for a second; returns the number of packets that it sent.
fn sent_in_a_second(p: &mut Pair) -> usize {
    let (before, until) = (p.log.len(), p.now + Duration::from_secs(1));
    while let Some(at) = p.qps[1].poll_timeout().filter(|&at| at < until) {
        p.now = at;
        p.qps[1].handle_timeout(at, &mut p.worlds[1]);
        p.transmit();
    }
    p.log.len() - before
}

#[test]
fn the_acknowledgement_of_what_came_again_is_sent_again_unless_the_requester_goes_on() {
    let mut p = Pair::new(QpType::Rc);
    let run = written(&mut p);
    assert_eq!(sent_in_a_second(&mut p), 0);
    run.iter().for_each(|bytes| p.deliver(1, bytes));
    p.transmit();
    assert_eq!(sent_in_a_second(&mut p), 2, "Linux's rxe may wait for it without a timer");
    run.iter().for_each(|bytes| p.deliver(1, bytes));
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 1)]);
    p.finish();
    assert_eq!(sent_in_a_second(&mut p), 0);
}

#[test]
fn a_queue_pair_that_is_about_to_go_acknowledges_once_more_what_it_has_acknowledged() {
    let mut p = Pair::new(QpType::Rc);
    for acknowledged in [0, 1] {
        let before = p.log.len();
        p.qps[1].acknowledge_again();
        p.transmit();
        assert_eq!(p.log.len() - before, acknowledged, "{:#?}", p.log);
        written(&mut p);
    }
}

#[test]
fn an_atomic_write_to_an_address_of_no_word_is_refused_by_the_responder() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::AtomicWrite(remote(4)), &[sge(0, 8)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::RemInvReqErr);
}
