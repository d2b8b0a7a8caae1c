//! Messages that wait for a receive.

use weft_verbs::*;

use super::{StreamPair, params};
use crate::testing::*;
use crate::{StreamOrder, StreamPhase};

fn ends_of(p: &mut StreamPair, side: usize) -> Vec<(u64, WcStatus)> {
    p.worlds[side].take(RECV_CQ).iter().map(|wc| (wc.0, wc.1)).collect()
}

#[test]
fn messages_wait_for_receives_in_order_and_what_follows_waits_with_them() {
    for (crc, cut) in [(false, usize::MAX), (true, usize::MAX), (false, 7), (true, 1)] {
        let mut both = params();
        (both[0].crc, both[1].crc) = (crc, crc);
        let mut p = StreamPair::new(both);
        p.cut = cut;
        let len_of = |nth: u64| nth as u32 * 300;
        for nth in 0..6 {
            p.send(0, nth, SendOp::Send, &[sge(0x100 * nth, len_of(nth))]);
        }
        p.send(0, 6, SendOp::WriteImm(remote(0x3_0000), 7), &[sge(0, 40)]);
        p.send(0, 7, SendOp::Read(remote(0)), &[sge(0x2_0000, 900)]);
        p.run();
        assert_eq!((p.qps[1].stream_order(), p.qps[1].state()), (StreamOrder::Pause, QpState::Rts));
        for nth in 0..7 {
            assert_eq!(ends_of(&mut p, 1), []);
            assert_eq!(p.worlds[0].take(SEND_CQ).iter().filter(|wc| wc.0 == 7).count(), 0);
            p.recv(1, nth, &[sge(0x1_0000, 2000)]);
            p.run();
            assert_eq!(ends_of(&mut p, 1), [(nth, WcStatus::Success)], "crc {crc}, cut {cut}");
            let len = if nth < 6 { len_of(nth) as usize } else { 0 };
            let from = p.worlds[0].memory.at(BASE + 0x100 * nth, len).to_vec();
            assert_eq!(p.worlds[1].memory.at(BASE + 0x1_0000, len), from);
        }
        assert_eq!(p.worlds[0].take(SEND_CQ).last().map(|wc| (wc.0, wc.1)), Some((7, WcStatus::Success)));
        assert_eq!((p.qps[1].stream_order(), p.qps[1].poll_timeout()), (StreamOrder::Continue, None));
    }
}

#[test]
fn each_message_has_its_own_time() {
    let mut p = StreamPair::new(params());
    p.send(0, 0, SendOp::Send, &[sge(0, 8)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
    p.run();
    let end = p.qps[1].poll_timeout().unwrap();
    p.now = Instant(end.0 - 1);
    p.recv(1, 9, &[sge(0, 8)]);
    p.run();
    p.now = end;
    p.qps[1].handle_timeout(end, &mut p.worlds[1]);
    assert_eq!(p.qps[1].state(), QpState::Rts);
    assert!(p.qps[1].poll_timeout().unwrap() > end);
    p.end_wait(1);
    p.run();
    assert_eq!(p.phases(), [StreamPhase::Closed; 2]);
}

#[test]
fn a_close_does_not_wait_for_a_receive() {
    let mut p = StreamPair::new(params());
    p.send(0, 0, SendOp::Send, &[sge(0, 8)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
    p.run();
    p.qps[1].close_stream(p.now, &mut p.worlds[1]);
    assert_eq!(p.qps[1].stream_order(), StreamOrder::ShutDown);
    p.run();
    assert_eq!((p.phases(), ends_of(&mut p, 1)), ([StreamPhase::Closed; 2], vec![]));
}
