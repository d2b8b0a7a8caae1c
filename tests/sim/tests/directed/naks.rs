//! Requests that a peer or its memory refuses.

use weft_sim::QpOptions;
use weft_verbs::{Access, AsyncEvent, QpState, RemoteTarget, SendOp, Sge, WcOpcode, WcStatus};

use super::{assert_states, events, look, memory, open, setup, statuses, target};

/// Sends a WRITE that the peer must refuse with a remote access error: both ends fail, and work behind it flushes in
/// order.
fn refused_write(options: &QpOptions, access: Access, spoil: impl Fn(&mut RemoteTarget)) {
    let (mut world, [a, b]) = setup(options);
    let from = memory(&mut world, &a, 4096, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 4096, access);
    let mut place = target(&to);
    spoil(&mut place);
    for wr_id in 0..4 {
        a.send(&mut world, wr_id, SendOp::Write(place), from).unwrap();
    }
    world.settle();
    let wcs = a.poll(&mut world);
    let mut want = vec![(0, WcStatus::RemAccessErr)];
    want.extend((1..4).map(|wr_id| (wr_id, WcStatus::WrFlushErr)));
    assert_eq!(statuses(&wcs), want);
    assert_states(&world, &[a, b], [QpState::Err, QpState::Err]);
    assert_eq!(events(&world, 1), [AsyncEvent::QpAccessErr]);
    assert_eq!(look(&mut world, &b, &to), vec![0; 4096]);
}

#[test]
fn a_wrong_key_is_a_remote_access_error() {
    refused_write(&QpOptions::default(), open(), |place| place.rkey ^= 1);
    refused_write(&QpOptions::default(), open(), |place| place.rkey ^= 0x100);
    refused_write(&QpOptions::default(), open(), |place| place.rkey = 0);
}

#[test]
fn a_range_outside_the_region_is_a_remote_access_error() {
    refused_write(&QpOptions::default(), open(), |place| place.addr += 1);
    refused_write(&QpOptions::default(), open(), |place| place.addr -= 1);
    refused_write(&QpOptions::default(), open(), |place| place.addr = u64::MAX - 10);
}

#[test]
fn a_right_that_was_not_given_is_a_remote_access_error() {
    refused_write(&QpOptions::default(), Access::LOCAL_WRITE | Access::REMOTE_READ, |_| ());
}

#[test]
fn a_right_that_the_queue_pair_does_not_give_is_an_invalid_request() {
    let options = QpOptions { access: Access::REMOTE_READ, ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, open());
    a.send(&mut world, 1, SendOp::Read(target(&to)), from).unwrap();
    a.send(&mut world, 2, SendOp::Write(target(&to)), from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success), (2, WcStatus::RemInvReqErr)]);
    assert_eq!(events(&world, 1), [AsyncEvent::QpReqErr]);
    assert_states(&world, &[a, b], [QpState::Err, QpState::Err]);
}

#[test]
fn a_region_of_another_domain_is_a_remote_access_error() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let other = world.hosts[1].hca.alloc_pd(weft_sim::world::DEVICE, 0).unwrap();
    let (addr, rkey) = world.hosts[1].region(other, 64, open());
    a.send(&mut world, 1, SendOp::Read(RemoteTarget { addr, rkey }), from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RemAccessErr)]);
    assert_states(&world, &[a, b], [QpState::Err, QpState::Err]);
}

#[test]
fn a_message_longer_than_the_receive_is_an_invalid_request() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 5000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 4999, Access::LOCAL_WRITE);
    b.recv(&mut world, 9, to).unwrap();
    b.recv(&mut world, 10, to).unwrap();
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RemInvReqErr)]);
    assert_eq!(statuses(&b.poll(&mut world)), [(9, WcStatus::LocLenErr), (10, WcStatus::WrFlushErr)]);
    assert_states(&world, &[a, b], [QpState::Err, QpState::Err]);
}

#[test]
fn a_receive_into_memory_that_is_not_ours_is_an_operation_error() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, Access::LOCAL_WRITE);
    b.recv(&mut world, 9, Sge { lkey: to.lkey ^ 1, ..to }).unwrap();
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RemOpErr)]);
    assert_eq!(statuses(&b.poll(&mut world)), [(9, WcStatus::LocProtErr)]);
}

#[test]
fn a_receive_into_read_only_memory_is_refused() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, Access::REMOTE_READ);
    b.recv(&mut world, 9, to).unwrap();
    a.send(&mut world, 1, SendOp::Send, from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::RemOpErr)]);
    assert_eq!(statuses(&b.poll(&mut world)), [(9, WcStatus::LocProtErr)]);
}

#[test]
fn a_wrong_local_key_fails_the_sender_alone() {
    for op in 0..3 {
        let (mut world, [a, b]) = setup(&QpOptions::default());
        let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
        let to = memory(&mut world, &b, 64, open());
        let bad = Sge { lkey: from.lkey ^ 1, ..from };
        let op = [SendOp::Send, SendOp::Write(target(&to)), SendOp::Read(target(&to))][op];
        a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
        a.send(&mut world, 2, op, bad).unwrap();
        a.send(&mut world, 3, SendOp::Write(target(&to)), from).unwrap();
        world.settle();
        let want = [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)];
        assert_eq!(statuses(&a.poll(&mut world)), want, "{op:?}");
        assert_states(&world, &[a, b], [QpState::Err, QpState::Rts]);
    }
}

#[test]
fn a_read_into_read_only_memory_is_refused() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 64, Access::empty());
    let to = memory(&mut world, &b, 64, open());
    a.send(&mut world, 2, SendOp::Read(target(&to)), from).unwrap();
    world.settle();
    let wcs = a.poll(&mut world);
    assert_eq!(wcs.len(), 1);
    assert!(matches!(wcs[0].status, WcStatus::LocProtErr | WcStatus::LocAccessErr), "{:?}", wcs[0]);
}

#[test]
fn a_read_that_the_peer_has_no_resources_for_is_an_invalid_request() {
    let (mut world, parts) = super::setup_parts();
    let options = QpOptions::default();
    let a = weft_sim::end::create(&mut world, 0, &parts[0], options.kind, &options);
    let b = weft_sim::end::create(&mut world, 1, &parts[1], options.kind, &options);
    for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
        for (side, end, peer) in [(0, &a, &b), (1, &b, &a)] {
            let mut attr = weft_sim::end::attributes(&world, end, peer, &options, side);
            if side == 1 {
                attr.max_dest_rd_atomic = 0;
            }
            weft_sim::end::go(&mut world, end, options.kind, to, &attr).unwrap();
        }
    }
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, open());
    a.send(&mut world, 2, SendOp::Read(target(&to)), from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(2, WcStatus::RemInvReqErr)]);
}

#[test]
fn an_error_comes_after_the_success_before_it() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 3000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 3000, open());
    let mut bad = target(&to);
    bad.rkey ^= 0xff;
    for wr_id in 0..20 {
        let op = SendOp::Write(if wr_id == 10 { bad } else { target(&to) });
        a.send(&mut world, wr_id, op, from).unwrap();
    }
    world.settle();
    let wcs = a.poll(&mut world);
    let want: Vec<_> = (0..20)
        .map(|wr_id| match wr_id {
            0..10 => (wr_id, WcStatus::Success),
            10 => (wr_id, WcStatus::RemAccessErr),
            _ => (wr_id, WcStatus::WrFlushErr),
        })
        .collect();
    assert_eq!(statuses(&wcs), want);
    assert!(wcs[..10].iter().all(|wc| wc.opcode == WcOpcode::RdmaWrite));
}
