//! Completion queues and shared receive queues: overflow, completion events, limits, sizes, and which object keeps
//! which alive.

use weft_sim::world::DEVICE;
use weft_sim::{End, QpOptions, World, end};
use weft_verbs::{
    Access, AsyncEvent, CqInit, Event, INLINE_MAX, QP_WR_MAX, QpCap, QpInit, QpState, QpType, RecvWr, SGE_MAX,
    SRQ_WR_MAX, SendFlags, SendOp, Sge, SrqAttr, SrqId, SrqInit, VerbsError, Wc, WcStatus,
};

use super::{events, fill, look, memory, open, setup, setup_parts, statuses, target};

/// Creates two queue pairs, the second on a completion queue of `cqe` entries.
fn small_cq(cqe: u32, ignore_overrun: bool) -> (World, [End; 2]) {
    let (mut world, mut parts) = setup_parts();
    let init = CqInit { cqe, cookie: 77, ignore_overrun };
    parts[1].cq = world.hosts[1].hca.create_cq(DEVICE, &init).unwrap();
    let ends = end::pair_of(&mut world, &parts, &QpOptions::default());
    (world, ends)
}

#[test]
fn a_completion_queue_that_overflows_fails_and_takes_its_queue_pairs_along() {
    let (mut world, [a, b]) = small_cq(4, false);
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..6 {
        b.recv(&mut world, wr_id, to).unwrap();
        a.send(&mut world, wr_id, SendOp::Send, from).unwrap();
    }
    world.settle();
    let mut said = events(&world, 1);
    said.retain(|e| *e == AsyncEvent::CqErr);
    assert_eq!(said, [AsyncEvent::CqErr]);
    assert_eq!(b.state(&world), QpState::Err);
    // The completions that fitted can still be polled; then the queue reports the overrun.
    let mut out = [weft_verbs::Wc::default(); 16];
    let hca = &mut world.hosts[1].hca;
    assert_eq!(hca.poll_cq(b.cq, &mut out), Ok(4));
    assert!(out[..4].iter().all(|wc| wc.status == WcStatus::Success));
    assert!(hca.poll_cq(b.cq, &mut out).is_err());
    let left = a.poll(&mut world);
    assert!(left.iter().any(|wc| wc.status != WcStatus::Success));
}

#[test]
fn a_completion_queue_may_be_told_to_ignore_overruns() {
    let (mut world, [a, b]) = small_cq(4, true);
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..6 {
        b.recv(&mut world, wr_id, to).unwrap();
        a.send(&mut world, wr_id, SendOp::Send, from).unwrap();
    }
    world.settle();
    assert_eq!(events(&world, 1), []);
    assert_eq!(a.poll(&mut world).len(), 6);
    assert_eq!(b.poll(&mut world).len(), 4);
    assert_eq!(b.state(&world), QpState::Rts);
}

fn rings(world: &mut World, host: usize) -> usize {
    let rung = world.hosts[host].events.iter().filter(|e| matches!(e, Event::Completion { .. })).count();
    world.hosts[host].events.clear();
    rung
}

#[test]
fn the_bell_rings_once_for_what_no_event_has_told_of() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..12 {
        b.recv(&mut world, wr_id, to).unwrap();
    }
    let send = |world: &mut World, flags| {
        a.post(world, 0, SendOp::Send, flags, &[from]).unwrap();
        world.settle();
        rings(world, 1)
    };
    let (plain, solicited) = (SendFlags::empty(), SendFlags::SOLICITED);
    assert_eq!(send(&mut world, plain), 0);
    // Completions since the last poll raise an event when the queue is armed for their kind: a program that polls, arms
    // and sleeps could not know of them.
    world.hosts[1].hca.arm_cq(b.cq, true).unwrap();
    assert!(world.hosts[1].hca.any_cq_armed());
    world.flush();
    assert_eq!(rings(&mut world, 1), 0);
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    assert!(!world.hosts[1].hca.any_cq_armed());
    world.flush();
    assert_eq!(rings(&mut world, 1), 1);
    // No second event for completions that an event reported, or that came after it and before the poll that must
    // follow.
    assert_eq!(send(&mut world, plain), 0);
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    assert!(world.hosts[1].hca.any_cq_armed());
    world.flush();
    assert_eq!(rings(&mut world, 1), 0);
    assert_eq!(send(&mut world, plain), 1);
    assert!(!world.hosts[1].hca.any_cq_armed());
    assert_eq!(send(&mut world, plain), 0);
    // Completions that a poll left behind had their event and raise no other; those between a poll and the arming do.
    assert_eq!(world.hosts[1].hca.poll_cq(b.cq, &mut [Wc::default(); 3]), Ok(3));
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    world.flush();
    assert_eq!(rings(&mut world, 1), 0);
    assert_eq!(send(&mut world, plain), 1);
    assert_eq!(world.hosts[1].hca.poll_cq(b.cq, &mut [Wc::default(); 1]), Ok(1));
    assert_eq!(send(&mut world, plain), 0);
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    world.flush();
    assert_eq!(rings(&mut world, 1), 1);
    assert_eq!(b.poll(&mut world).len(), 2);
    // An emptied queue waits for the next completion.
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    world.flush();
    assert_eq!(rings(&mut world, 1), 0);
    assert_eq!(send(&mut world, plain), 1);
    assert_eq!(b.poll(&mut world).len(), 1);
    // Solicited only.
    world.hosts[1].hca.arm_cq(b.cq, true).unwrap();
    assert_eq!(send(&mut world, plain), 0);
    assert_eq!(send(&mut world, solicited), 1);
    // Any outweighs solicited.
    world.hosts[1].hca.arm_cq(b.cq, false).unwrap();
    world.hosts[1].hca.arm_cq(b.cq, true).unwrap();
    assert_eq!(send(&mut world, plain), 1);
    // An error raises an event on a queue armed for solicited completions.
    world.hosts[1].hca.arm_cq(b.cq, true).unwrap();
    end::go(&mut world, &b, QpType::Rc, QpState::Err, &Default::default()).unwrap();
    world.flush();
    assert_eq!(rings(&mut world, 1), 1);
}

#[test]
fn destroying_a_queue_pair_removes_its_completions_alone() {
    let (mut world, mut parts) = setup_parts();
    srq(&mut world, &mut parts[1], 1, 16);
    let [[a, b], [c, d]] = std::array::from_fn(|_| end::pair_of(&mut world, &parts, &QpOptions::default()));
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..6 {
        b.recv(&mut world, wr_id, to).unwrap();
    }
    for (sender, wr_id) in [(&a, 0), (&c, 1), (&a, 2), (&c, 3)] {
        sender.send(&mut world, wr_id, SendOp::Send, from).unwrap();
        world.settle();
    }
    // Sends of `a` in its queue, and receives that `b` took from the shared queue, go with their queue pairs.
    world.hosts[0].hca.destroy_qp(a.qp).unwrap();
    world.hosts[1].hca.destroy_qp(b.qp).unwrap();
    let left = |wcs: &[Wc]| wcs.iter().map(|wc| (wc.qp_num, wc.wr_id)).collect::<Vec<_>>();
    assert_eq!(left(&c.poll(&mut world)), [(c.qpn, 1), (c.qpn, 3)]);
    assert_eq!(left(&d.poll(&mut world)), [(d.qpn, 1), (d.qpn, 3)]);
    // Receives that no queue pair took stay with the shared queue.
    c.send(&mut world, 4, SendOp::Send, from).unwrap();
    world.settle();
    assert_eq!(left(&d.poll(&mut world)), [(d.qpn, 4)]);
}

#[test]
fn completions_of_a_destroyed_queue_pair_take_no_room_and_ring_no_bell() {
    let (mut world, mut parts) = setup_parts();
    let init = CqInit { cqe: 4, cookie: 77, ignore_overrun: false };
    parts[1].cq = world.hosts[1].hca.create_cq(DEVICE, &init).unwrap();
    let [[a, b], [c, d]] = std::array::from_fn(|_| end::pair_of(&mut world, &parts, &QpOptions::default()));
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    let deliver = |world: &mut World, sender: &End, receiver: &End, count| {
        for wr_id in 0..count {
            receiver.recv(world, wr_id, to).unwrap();
            sender.send(world, wr_id, SendOp::Send, from).unwrap();
        }
        world.settle();
    };
    // A poll leaves one completion of `d`, which had its chance of an event. Three of `b` come after that poll.
    deliver(&mut world, &c, &d, 2);
    assert_eq!(world.hosts[1].hca.poll_cq(b.cq, &mut [Wc::default(); 1]), Ok(1));
    deliver(&mut world, &a, &b, 3);
    world.hosts[1].hca.destroy_qp(b.qp).unwrap();
    world.hosts[1].hca.arm_cq(d.cq, false).unwrap();
    world.flush();
    assert_eq!(rings(&mut world, 1), 0);
    // The next completion raises an event, and three fit where the four entries were full.
    deliver(&mut world, &c, &d, 3);
    assert_eq!(rings(&mut world, 1), 1);
    assert_eq!(d.poll(&mut world).len(), 4);
    assert_eq!(events(&world, 1), []);
}

#[test]
fn a_resized_completion_queue_keeps_what_waits() {
    let (mut world, [a, b]) = small_cq(4, false);
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    let exchange = |world: &mut World, count: u64| {
        for wr_id in 0..count {
            b.recv(world, wr_id, to).unwrap();
            a.send(world, wr_id, SendOp::Send, from).unwrap();
        }
        world.settle();
    };
    exchange(&mut world, 3);
    let cq = b.cq;
    assert!(world.hosts[1].hca.resize_cq(cq, 2).is_err());
    assert!(world.hosts[1].hca.resize_cq(cq, 0).is_err());
    assert!(world.hosts[1].hca.resize_cq(cq, u32::MAX).is_err());
    assert_eq!(world.hosts[1].hca.resize_cq(cq, 10), Ok(10));
    exchange(&mut world, 7);
    assert_eq!(world.hosts[1].hca.cqe(cq), Ok(10));
    assert_eq!(b.poll(&mut world).len(), 10);
    assert_eq!(events(&world, 1), []);
}

fn srq(world: &mut World, parts: &mut weft_sim::end::Parts, host: usize, max_wr: u32) -> SrqId {
    let init = SrqInit { pd: parts.pd, attr: SrqAttr { max_wr, max_sge: 2, srq_limit: 0 }, xrc: None, cookie: 5 };
    let id = world.hosts[host].hca.create_srq(DEVICE, &init).unwrap();
    parts.srq = Some(id);
    id
}

#[test]
fn a_shared_receive_queue_tells_once_when_it_runs_low() {
    let (mut world, mut parts) = setup_parts();
    let id = srq(&mut world, &mut parts[1], 1, 8);
    let [a, b] = end::pair_of(&mut world, &parts, &QpOptions::default());
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..8 {
        b.recv(&mut world, wr_id, to).unwrap();
    }
    assert!(matches!(b.recv(&mut world, 9, to), Err(VerbsError::NoMemory(_))));
    let limit = SrqAttr { srq_limit: 5, ..SrqAttr::default() };
    world.hosts[1].hca.modify_srq(id, &limit, false, true).unwrap();
    assert_eq!(world.hosts[1].hca.query_srq(id).unwrap(), SrqAttr { max_wr: 8, max_sge: 2, srq_limit: 5 });
    for (sent, told) in [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1)] {
        a.send(&mut world, sent, SendOp::Send, from).unwrap();
        world.settle();
        let said = events(&world, 1).iter().filter(|e| **e == AsyncEvent::SrqLimitReached).count();
        assert_eq!(said, told, "after {sent}");
    }
    assert_eq!(world.hosts[1].hca.query_srq(id).unwrap().srq_limit, 0);
    assert_eq!(b.poll(&mut world).iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_shared_receive_queue_can_be_resized_within_reason() {
    let (mut world, mut parts) = setup_parts();
    let id = srq(&mut world, &mut parts[1], 1, 4);
    let sge = Sge::default();
    let hca = &mut world.hosts[1].hca;
    for wr_id in 0..4 {
        hca.post_srq_recv(id, &RecvWr { wr_id, sges: &[sge] }).unwrap();
    }
    let size = |max_wr| SrqAttr { max_wr, ..SrqAttr::default() };
    assert!(hca.modify_srq(id, &size(3), true, false).is_err());
    assert!(hca.modify_srq(id, &size(SRQ_WR_MAX + 1), true, false).is_err());
    hca.modify_srq(id, &size(6), true, false).unwrap();
    assert!(hca.modify_srq(id, &SrqAttr { srq_limit: 7, ..SrqAttr::default() }, false, true).is_err());
    hca.post_srq_recv(id, &RecvWr { wr_id: 5, sges: &[sge, sge] }).unwrap();
    assert!(matches!(hca.post_srq_recv(id, &RecvWr { wr_id: 6, sges: &[sge; 3] }), Err(VerbsError::Invalid(_))));
    assert_eq!(hca.query_srq(id).unwrap().max_wr, 6);
    hca.destroy_srq(id).unwrap();
    assert!(hca.query_srq(id).is_err());
}

#[test]
fn several_queue_pairs_share_receives() {
    let (mut world, mut parts) = setup_parts();
    srq(&mut world, &mut parts[1], 1, 8);
    let pairs: Vec<[End; 2]> = (0..3).map(|_| end::pair_of(&mut world, &parts, &QpOptions::default())).collect();
    let (_, b) = (pairs[0][0], pairs[0][1]);
    let from = memory(&mut world, &pairs[0][0], 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, Access::LOCAL_WRITE);
    for wr_id in 0..6 {
        b.recv(&mut world, wr_id, to).unwrap();
    }
    for round in 0..2 {
        for pair in &pairs {
            pair[0].send(&mut world, round, SendOp::Send, from).unwrap();
        }
    }
    world.settle();
    let wcs = b.poll(&mut world);
    assert_eq!(wcs.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
    for pair in &pairs {
        assert_eq!(wcs.iter().filter(|wc| wc.qp_num == pair[1].qpn).count(), 2);
    }
}

#[test]
fn what_is_in_use_cannot_be_destroyed() {
    let (mut world, [a, _b]) = setup(&QpOptions::default());
    let hca = &mut world.hosts[0].hca;
    assert!(matches!(hca.destroy_cq(a.cq), Err(VerbsError::Busy(_))));
    assert!(matches!(hca.dealloc_pd(a.pd), Err(VerbsError::Busy(_))));
    hca.destroy_qp(a.qp).unwrap();
    hca.destroy_cq(a.cq).unwrap();
    let keys = hca.reg_mr(a.pd, 4096, 10, 4096, Access::empty()).unwrap();
    assert!(matches!(hca.dealloc_pd(a.pd), Err(VerbsError::Busy(_))));
    hca.dereg_mr(keys.id).unwrap();
    hca.hold_pd(a.pd).unwrap();
    assert!(matches!(hca.dealloc_pd(a.pd), Err(VerbsError::Busy(_))));
    hca.release_pd(a.pd);
    hca.dealloc_pd(a.pd).unwrap();
    // Handles of destroyed objects find nothing.
    assert!(matches!(hca.dealloc_pd(a.pd), Err(VerbsError::NoSuchObject(_))));
    assert!(matches!(hca.destroy_qp(a.qp), Err(VerbsError::NoSuchObject(_))));
    assert!(matches!(hca.destroy_cq(a.cq), Err(VerbsError::NoSuchObject(_))));
    assert!(matches!(hca.dereg_mr(keys.id), Err(VerbsError::NoSuchObject(_))));
}

#[test]
fn sizes_are_granted_or_refused() {
    let (mut world, parts) = setup_parts();
    let p = parts[0];
    let init = QpInit {
        qp_type: QpType::Rc,
        pd: Some(p.pd),
        send_cq: Some(p.cq),
        recv_cq: Some(p.cq),
        srq: None,
        xrcd: None,
        cap: QpCap::default(),
        sq_sig_all: false,
        cookie: 0,
    };
    let hca = &mut world.hosts[0].hca;
    let cap = QpCap {
        max_send_wr: QP_WR_MAX,
        max_recv_wr: 10,
        max_send_sge: SGE_MAX,
        max_recv_sge: 1,
        max_inline_data: INLINE_MAX,
    };
    let (qp, _, granted) = hca.create_qp(DEVICE, &QpInit { cap, ..init }).unwrap();
    assert_eq!(granted, cap);
    assert_eq!(hca.query_qp(qp).unwrap().0.cap, cap);
    let too_much = [
        QpCap { max_send_wr: QP_WR_MAX + 1, ..cap },
        QpCap { max_recv_wr: QP_WR_MAX + 1, ..cap },
        QpCap { max_send_sge: SGE_MAX + 1, ..cap },
        QpCap { max_recv_sge: SGE_MAX + 1, ..cap },
        QpCap { max_inline_data: INLINE_MAX + 1, ..cap },
    ];
    for cap in too_much {
        assert!(matches!(hca.create_qp(DEVICE, &QpInit { cap, ..init }), Err(VerbsError::Invalid(_))));
    }
    for missing in [
        QpInit { pd: None, ..init },
        QpInit { send_cq: None, ..init },
        QpInit { recv_cq: None, ..init },
        QpInit { qp_type: QpType::XrcRecv, ..init },
    ] {
        assert!(hca.create_qp(DEVICE, &missing).is_err());
    }
    for cqe in [0, weft_verbs::CQE_MAX + 1] {
        assert!(hca.create_cq(DEVICE, &CqInit { cqe, cookie: 0, ignore_overrun: false }).is_err());
    }
}

#[test]
fn queue_pair_numbers_are_of_the_slot_and_never_twice() {
    let (mut world, parts) = setup_parts();
    let options = QpOptions::default();
    let ends: Vec<End> = (0..500).map(|_| end::create(&mut world, 0, &parts[0], QpType::Uc, &options)).collect();
    let mut numbers: Vec<u32> = ends.iter().map(|e| e.qpn).collect();
    assert!(numbers.iter().all(|n| n >> 14 == 1));
    assert!(numbers.windows(2).any(|w| w[1] != w[0] + 1), "numbers must not be guessable");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 500);
    let found = world.hosts[0].hca.qp_by_number(ends[7].qpn);
    assert_eq!(found, Some(ends[7].qp));
    assert_eq!(world.hosts[0].hca.qps().count(), 500);
}

#[test]
fn lists_that_are_too_long_and_queues_that_are_full_are_refused() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let sge = memory(&mut world, &a, 300, Access::LOCAL_WRITE);
    world.kill(1, true);
    let none = SendFlags::empty();
    assert!(matches!(a.post(&mut world, 0, SendOp::Send, none, &[sge; 5]), Err(VerbsError::Invalid(_))));
    let inline = SendFlags::INLINE;
    assert!(matches!(a.post(&mut world, 0, SendOp::Send, inline, &[sge]), Err(VerbsError::Invalid(_))));
    let read = SendOp::Read(target(&sge));
    assert!(a.post(&mut world, 0, read, inline, &[Sge { length: 8, ..sge }]).is_err());
    let wr = RecvWr { wr_id: 0, sges: &[sge; 5] };
    assert!(matches!(world.hosts[0].hca.post_recv(a.qp, &wr), Err(VerbsError::Invalid(_))));
    for wr_id in 0..64 {
        a.send(&mut world, wr_id, SendOp::Send, sge).unwrap();
        a.recv(&mut world, wr_id, sge).unwrap();
    }
    assert!(matches!(a.send(&mut world, 64, SendOp::Send, sge), Err(VerbsError::NoMemory(_))));
    assert!(matches!(a.recv(&mut world, 64, sge), Err(VerbsError::NoMemory(_))));
    let _ = b;
}

#[test]
fn a_null_region_reads_zero_and_swallows() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let keys = world.hosts[0].hca.alloc_null_mr(a.pd).unwrap();
    let to = memory(&mut world, &b, 5000, open());
    fill(&mut world, &b, &to, 0xff);
    let anywhere = Sge { addr: 0xdead_beef, length: 5000, lkey: keys.lkey };
    a.send(&mut world, 1, SendOp::Write(target(&to)), anywhere).unwrap();
    world.settle();
    assert_eq!(look(&mut world, &b, &to), vec![0; 5000]);
    a.send(&mut world, 2, SendOp::Read(target(&to)), anywhere).unwrap();
    world.settle();
    let done = [(1, WcStatus::Success), (2, WcStatus::Success)];
    assert_eq!(statuses(&a.poll(&mut world)), done);
    world.hosts[0].hca.dereg_mr(keys.id).unwrap();
    // Without system memory behind it, the null region does not exist.
    let mut hca = weft_hca::Hca::new(
        weft_hca::HcaConfig::default(),
        weft_hca::PacketsOnly::parts(weft_sim::SimMemory::new(1 << 44)),
    );
    hca.set_device(DEVICE, weft_sim::world::device(0, world.hosts[0].ip));
    let pd = hca.alloc_pd(DEVICE, 0).unwrap();
    assert!(hca.alloc_null_mr(pd).is_err());
}
