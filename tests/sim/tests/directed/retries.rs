//! Timeouts, retries, and giving up.

use weft_sim::world::DEVICE;
use weft_sim::{Faults, Path, QpOptions, end};
use weft_verbs::{Access, Duration, QpState, SendOp, WcStatus};

use super::{PATH, assert_states, events, look, memory, open, setup, skips_off_the_wire, statuses, target};

#[test]
fn a_receiver_that_is_never_ready_exhausts_rnr_retries() {
    let options = QpOptions { rnr_retry: 3, ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    a.send(&mut world, 2, SendOp::Send, from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RnrRetryExcErr), (2, WcStatus::WrFlushErr)]);
    // The first try and three more; the receiver is unharmed.
    let counters = world.hosts[1].hca.counters(DEVICE).hw;
    assert_eq!(counters.send_rnr_err, 4);
    assert_eq!(world.hosts[0].hca.counters(DEVICE).hw.retry_rnr_exceeded_err, 1);
    assert_states(&world, &[a, b], [QpState::Err, QpState::Rts]);
}

#[test]
fn rnr_retry_7_waits_for_ever() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, Access::LOCAL_WRITE);
    super::fill(&mut world, &a, &from, 0x42);
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    world.run_for(Duration::from_secs(1));
    assert!(a.poll(&mut world).is_empty());
    b.recv(&mut world, 5, to).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success)]);
    assert_eq!(statuses(&b.poll(&mut world)), [(5, WcStatus::Success)]);
    assert_eq!(look(&mut world, &b, &to), [0x42; 64]);
}

#[test]
fn a_silent_peer_exhausts_retries_and_no_sooner_than_promised() {
    for retry_cnt in [0, 1, 7] {
        let options = QpOptions { retry_cnt, timeout: 14, ..QpOptions::default() };
        let (mut world, [a, b]) = setup(&options);
        let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
        let to = memory(&mut world, &b, 64, open());
        world.kill(1, true);
        let start = world.now;
        for wr_id in 0..3 {
            a.send(&mut world, wr_id, SendOp::Write(target(&to)), from).unwrap();
        }
        world.settle();
        let want = [(0, WcStatus::RetryExcErr), (1, WcStatus::WrFlushErr), (2, WcStatus::WrFlushErr)];
        assert_eq!(statuses(&a.poll(&mut world)), want);
        assert_eq!(a.state(&world), QpState::Err);
        // 4.096 µs × 2^14, once more than the retries (IBA 9.7.6.1.3 lets a try last up to four times that).
        let timeout = Duration::from_nanos(4096 << 14);
        let took = world.now.since(start);
        assert!(took >= timeout * (u32::from(retry_cnt) + 1), "gave up after {took:?}");
        assert!(took <= timeout * 4 * (u32::from(retry_cnt) + 1), "gave up only after {took:?}");
    }
}

#[test]
fn timeout_0_never_gives_up() {
    let options = QpOptions { timeout: 0, ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, open());
    world.kill(1, true);
    a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
    world.run_for(Duration::from_secs(1000));
    assert!(a.poll(&mut world).is_empty());
    assert_eq!(a.state(&world), QpState::Rts);
}

#[test]
fn a_peer_that_crashes_in_the_middle_leaves_an_error_and_flushes() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 100_000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 100_000, open());
    for wr_id in 0..20 {
        a.send(&mut world, wr_id, SendOp::Write(target(&to)), from).unwrap();
    }
    a.recv(&mut world, 100, from).unwrap();
    for _ in 0..300 {
        world.step();
    }
    world.kill(1, true);
    for wr_id in 20..40 {
        a.send(&mut world, wr_id, SendOp::Write(target(&to)), from).unwrap();
    }
    world.settle();
    let wcs = a.poll(&mut world);
    assert_eq!(wcs.len(), 41);
    let broke = wcs.iter().position(|wc| wc.status != WcStatus::Success).unwrap();
    assert_eq!(wcs[broke].status, WcStatus::RetryExcErr);
    assert!(wcs[broke + 1..].iter().all(|wc| wc.status == WcStatus::WrFlushErr));
    assert!(wcs[..40].iter().enumerate().all(|(i, wc)| wc.wr_id == i as u64));
    assert_eq!(events(&world, 0), []);
}

#[test]
fn a_queue_pair_that_was_destroyed_or_failed_is_a_silent_peer() {
    for destroy in [true, false] {
        let (mut world, [a, b]) = setup(&QpOptions::default());
        let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
        let to = memory(&mut world, &b, 64, open());
        if destroy {
            world.hosts[1].hca.destroy_qp(b.qp).unwrap();
        } else {
            let attr = weft_verbs::QpAttr::default();
            end::go(&mut world, &b, weft_verbs::QpType::Rc, QpState::Err, &attr).unwrap();
        }
        a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
        world.settle();
        assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RetryExcErr)]);
        if destroy {
            let packets = world.hosts[1].hca.counters(DEVICE).bad_qpn;
            assert_eq!(packets > 0, PATH == Path::Wire);
        }
    }
}

#[test]
fn after_an_error_both_ends_can_be_reset_and_connected_anew() {
    let options = QpOptions::default();
    let (mut world, [a, b]) = setup(&options);
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, open());
    let mut bad = target(&to);
    bad.rkey ^= 0xff;
    a.send(&mut world, 1, SendOp::Write(bad), from).unwrap();
    world.settle();
    assert_eq!(a.poll(&mut world).len(), 1);
    let attr = weft_verbs::QpAttr::default();
    for end in [&a, &b] {
        end::go(&mut world, end, options.kind, QpState::Reset, &attr).unwrap();
    }
    let options = QpOptions { psn: [77, 0xff_ffff], ..options };
    end::connect(&mut world, [&a, &b], [options.kind; 2], &options);
    super::fill(&mut world, &a, &from, 9);
    a.send(&mut world, 2, SendOp::Write(target(&to)), from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(2, WcStatus::Success)]);
    assert_eq!(look(&mut world, &b, &to), [9; 64]);
}

#[test]
fn every_packet_lost_for_a_while_is_made_good() {
    if skips_off_the_wire("no packets are lost where none are sent") {
        return;
    }
    let (mut world, [a, b]) = setup(&QpOptions { timeout: 14, ..QpOptions::default() });
    let from = memory(&mut world, &a, 20_000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 20_000, open());
    super::fill(&mut world, &a, &from, 0x31);
    a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
    world.net.faults = Faults { loss: 10_000, ..Faults::NONE };
    world.run_for(Duration::from_millis(150));
    assert_eq!(look(&mut world, &b, &to), vec![0; 20_000]);
    world.net.faults = Faults::NONE;
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success)]);
    assert_eq!(look(&mut world, &b, &to), vec![0x31; 20_000]);
}
