//! Queue pair states: which posts each allows, draining, errors and their events, and refused modifications.

use weft_sim::world::DEVICE;
use weft_sim::{QpOptions, end};
use weft_verbs::{
    Access, AsyncEvent, Gid, Mtu, QpAttr, QpAttrMask as Mask, QpState, QpType, RecvWr, SendOp, SrqAttr, SrqInit,
    VerbsError, WcStatus,
};

use super::{events, memory, open_on_demand, setup, setup_parts, statuses, target};

#[test]
fn posting_follows_the_state() {
    let (mut world, parts) = setup_parts();
    let options = QpOptions::default();
    let a = end::create(&mut world, 0, &parts[0], QpType::Rc, &options);
    let b = end::create(&mut world, 1, &parts[1], QpType::Rc, &options);
    let sge = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let mut tries = Vec::new();
    for to in [None, Some(QpState::Init), Some(QpState::Rtr), Some(QpState::Rts)] {
        if let Some(to) = to {
            let attr = end::attributes(&world, &a, &b, &options, 0);
            end::go(&mut world, &a, QpType::Rc, to, &attr).unwrap();
        }
        tries.push((a.recv(&mut world, 1, sge).is_ok(), a.send(&mut world, 2, SendOp::Send, sge).is_ok()));
    }
    assert_eq!(tries, [(false, false), (true, false), (true, false), (true, true)]);
}

#[test]
fn an_error_state_flushes_in_order_and_at_once() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let sge = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    world.kill(1, true);
    for wr_id in 0..5 {
        a.post(&mut world, wr_id, SendOp::Send, weft_verbs::SendFlags::empty(), &[sge]).unwrap();
        a.recv(&mut world, 100 + wr_id, sge).unwrap();
    }
    end::go(&mut world, &a, QpType::Rc, QpState::Err, &QpAttr::default()).unwrap();
    let wcs = a.poll(&mut world);
    assert!(wcs.iter().all(|wc| wc.status == WcStatus::WrFlushErr && wc.qp_num == a.qpn));
    // Unsignalled work completes too when it fails.
    let sends: Vec<u64> = wcs.iter().map(|wc| wc.wr_id).filter(|id| *id < 100).collect();
    let recvs: Vec<u64> = wcs.iter().map(|wc| wc.wr_id).filter(|id| *id >= 100).collect();
    assert_eq!((sends, recvs), ((0..5).collect(), (100..105).collect()));
    a.send(&mut world, 7, SendOp::Send, sge).unwrap();
    a.recv(&mut world, 8, sge).unwrap();
    assert_eq!(statuses(&a.poll(&mut world)), [(7, WcStatus::WrFlushErr), (8, WcStatus::WrFlushErr)]);
    let _ = b;
}

#[test]
fn sqd_drains_what_is_under_way_and_holds_the_rest() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 50_000, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 50_000, open_on_demand());
    for wr_id in 0..10 {
        a.send(&mut world, wr_id, SendOp::Write(target(&to)), from).unwrap();
    }
    world.step();
    let attr = QpAttr { qp_state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    let mask = Mask::STATE | Mask::EN_SQD_ASYNC_NOTIFY;
    let now = world.now;
    world.hosts[0].hca.modify_qp(now, a.qp, &attr, mask).unwrap();
    a.send(&mut world, 10, SendOp::Write(target(&to)), from).unwrap();
    let (draining, _) = world.hosts[0].hca.query_qp(a.qp).unwrap();
    assert!(draining.sq_draining);
    world.settle();
    assert_eq!(events(&world, 0), [AsyncEvent::SqDrained]);
    let (drained, _) = world.hosts[0].hca.query_qp(a.qp).unwrap();
    assert!(!drained.sq_draining && drained.qp_state == QpState::Sqd);
    let done = a.poll(&mut world);
    assert!(!done.is_empty() && done.len() < 11, "{} completed", done.len());
    let now = world.now;
    let attr = QpAttr { qp_state: QpState::Rts, ..QpAttr::default() };
    world.hosts[0].hca.modify_qp(now, a.qp, &attr, Mask::STATE).unwrap();
    world.settle();
    assert_eq!(done.len() + a.poll(&mut world).len(), 11);
}

#[test]
fn the_first_packet_in_rtr_is_told() {
    let (mut world, parts) = setup_parts();
    let options = QpOptions::default();
    let a = end::create(&mut world, 0, &parts[0], QpType::Rc, &options);
    let b = end::create(&mut world, 1, &parts[1], QpType::Rc, &options);
    for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
        for (side, end, peer) in [(0, &a, &b), (1, &b, &a)] {
            if side == 1 && to == QpState::Rts {
                continue;
            }
            let attr = end::attributes(&world, end, peer, &options, side);
            end::go(&mut world, end, QpType::Rc, to, &attr).unwrap();
        }
    }
    let from = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 64, open_on_demand());
    for wr_id in 0..2 {
        a.send(&mut world, wr_id, SendOp::Write(target(&to)), from).unwrap();
    }
    world.settle();
    assert_eq!(a.poll(&mut world).len(), 2);
    assert_eq!(events(&world, 1), [AsyncEvent::CommEst]);
}

#[test]
fn a_queue_pair_on_an_srq_tells_when_it_took_its_last() {
    let (mut world, mut parts) = setup_parts();
    let init = SrqInit { pd: parts[1].pd, attr: SrqAttr { max_wr: 8, max_sge: 1, srq_limit: 0 }, xrc: None, cookie: 3 };
    let srq = world.hosts[1].hca.create_srq(DEVICE, &init).unwrap();
    parts[1].srq = Some(srq);
    let [_a, b] = end::pair_of(&mut world, &parts, &QpOptions::default());
    let sge = memory(&mut world, &b, 64, Access::LOCAL_WRITE);
    world.hosts[1].hca.post_srq_recv(srq, &RecvWr { wr_id: 1, sges: &[sge] }).unwrap();
    end::go(&mut world, &b, QpType::Rc, QpState::Err, &QpAttr::default()).unwrap();
    world.settle();
    assert_eq!(events(&world, 1), [AsyncEvent::QpLastWqeReached]);
    // Receives posted to the SRQ stay there.
    assert!(b.poll(&mut world).is_empty());
    let hca = &mut world.hosts[1].hca;
    assert!(matches!(hca.destroy_srq(srq), Err(VerbsError::Busy(_))));
    hca.destroy_qp(b.qp).unwrap();
    hca.destroy_srq(srq).unwrap();
}

#[test]
fn values_that_the_port_or_the_device_cannot_do_are_refused() {
    let (mut world, parts) = setup_parts();
    let options = QpOptions::default();
    let a = end::create(&mut world, 0, &parts[0], QpType::Rc, &options);
    let b = end::create(&mut world, 1, &parts[1], QpType::Rc, &options);
    let good = end::attributes(&world, &a, &b, &options, 0);
    let now = world.now;
    let mut modify = |to: QpState, mask: Mask, change: &dyn Fn(&mut QpAttr)| {
        let mut attr = QpAttr { qp_state: to, ..good };
        change(&mut attr);
        world.hosts[0].hca.modify_qp(now, a.qp, &attr, mask | Mask::STATE)
    };
    let init = Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS;
    assert!(modify(QpState::Init, init, &|attr| attr.port_num = 2).is_err());
    assert!(modify(QpState::Init, init, &|attr| attr.port_num = 0).is_err());
    assert!(modify(QpState::Init, init, &|attr| attr.pkey_index = 1).is_err());
    assert!(modify(QpState::Init, init | Mask::QKEY, &|_| ()).is_err());
    assert!(modify(QpState::Rtr, init, &|_| ()).is_err());
    assert!(modify(QpState::Init, init, &|_| ()).is_ok());

    let rtr =
        Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
    let bad_path = |dgid| move |attr: &mut QpAttr| attr.av.as_mut().unwrap().dgid = dgid;
    let v6 = Gid::from("fd00::9".parse::<std::net::IpAddr>().unwrap());
    let group = Gid::from("239.1.1.1".parse::<std::net::IpAddr>().unwrap());
    for dgid in [Gid::ZERO, v6, group] {
        assert!(modify(QpState::Rtr, rtr, &bad_path(dgid)).is_err());
    }
    assert!(modify(QpState::Rtr, rtr, &|attr| attr.av.as_mut().unwrap().sgid_index = 7).is_err());
    assert!(modify(QpState::Rtr, rtr, &|attr| attr.av = None).is_err());
    assert!(modify(QpState::Rtr, rtr, &|attr| attr.dest_qpn = 1 << 24).is_err());
    assert!(modify(QpState::Rtr, rtr, &|attr| attr.max_dest_rd_atomic = 129).is_err());
    assert!(modify(QpState::Rtr, rtr, &|attr| attr.min_rnr_timer = 32).is_err());
    assert!(modify(QpState::Rtr, rtr - Mask::DEST_QPN, &|_| ()).is_err());
    assert!(modify(QpState::Rtr, rtr, &|_| ()).is_ok());

    let rts = Mask::SQ_PSN | Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC;
    assert!(modify(QpState::Rts, rts, &|attr| attr.timeout = 32).is_err());
    assert!(modify(QpState::Rts, rts, &|attr| attr.retry_cnt = 8).is_err());
    assert!(modify(QpState::Rts, rts, &|attr| attr.rnr_retry = 8).is_err());
    assert!(modify(QpState::Rts, rts, &|attr| attr.max_rd_atomic = 129).is_err());
    let wrong_now = |attr: &mut QpAttr| attr.cur_qp_state = QpState::Init;
    assert!(modify(QpState::Rts, rts | Mask::CUR_STATE, &wrong_now).is_err());
    let right_now = |attr: &mut QpAttr| attr.cur_qp_state = QpState::Rtr;
    assert!(modify(QpState::Rts, rts | Mask::CUR_STATE, &right_now).is_ok());
    let (attr, _) = world.hosts[0].hca.query_qp(a.qp).unwrap();
    assert_eq!((attr.qp_state, attr.timeout, attr.dest_qpn, attr.path_mtu), (QpState::Rts, 12, b.qpn, Mtu::Mtu1024));
}

#[test]
fn an_mtu_above_the_port_is_refused() {
    let (mut world, parts) = setup_parts();
    let mut small = world.hosts[0].hca.device(DEVICE).unwrap().clone();
    small.ports[0].active_mtu = Mtu::Mtu1024;
    world.hosts[0].hca.set_device(DEVICE, small);
    let options = QpOptions { mtu: Mtu::Mtu2048, ..QpOptions::default() };
    let a = end::create(&mut world, 0, &parts[0], QpType::Rc, &options);
    let b = end::create(&mut world, 1, &parts[1], QpType::Rc, &options);
    let attr = end::attributes(&world, &a, &b, &options, 0);
    end::go(&mut world, &a, QpType::Rc, QpState::Init, &attr).unwrap();
    assert!(matches!(end::go(&mut world, &a, QpType::Rc, QpState::Rtr, &attr), Err(VerbsError::Invalid(_))));
    assert_eq!(a.state(&world), QpState::Init);
}

#[test]
fn a_controlled_q_key_needs_privilege() {
    let (mut world, parts) = setup_parts();
    let options = QpOptions { kind: QpType::Ud, qkey: 0x8001_0000, ..QpOptions::default() };
    let a = end::create(&mut world, 0, &parts[0], QpType::Ud, &options);
    let attr = end::attributes(&world, &a, &a, &options, 0);
    let answer = end::go(&mut world, &a, QpType::Ud, QpState::Init, &attr);
    assert!(matches!(answer, Err(VerbsError::Permission(_))));
}

#[test]
fn a_device_that_changes_or_goes_says_so() {
    let mut world = super::world(2);
    let [a, b] = weft_sim::pair(&mut world, &QpOptions::default());
    let attr = world.hosts[0].hca.device(DEVICE).unwrap().clone();
    let mut down = attr.clone();
    down.ports[0].state = weft_verbs::PortState::Down;
    world.hosts[0].hca.set_device(DEVICE, down);
    world.hosts[0].hca.set_device(DEVICE, attr.clone());
    world.hosts[0].hca.set_device(DEVICE, attr.clone());
    let mut renumbered = attr;
    renumbered.ports[0].gids.clear();
    world.hosts[0].hca.set_device(DEVICE, renumbered);
    world.flush();
    assert_eq!(events(&world, 0), [AsyncEvent::PortErr, AsyncEvent::PortActive, AsyncEvent::GidChange]);
    let sge = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    a.recv(&mut world, 3, sge).unwrap();
    world.hosts[0].hca.remove_device(DEVICE);
    world.flush();
    assert_eq!(events(&world, 0).last(), Some(&AsyncEvent::DeviceFatal));
    assert_eq!(statuses(&a.poll(&mut world)), [(3, WcStatus::WrFlushErr)]);
    assert!(matches!(world.hosts[0].hca.alloc_pd(DEVICE, 0), Err(VerbsError::NoDevice(_))));
    world.hosts[0].hca.destroy_qp(a.qp).unwrap();
    world.hosts[0].hca.destroy_cq(a.cq).unwrap();
    let _ = b;
}

#[test]
fn a_datagram_sender_that_fails_goes_to_sqe_and_back() {
    let options = QpOptions { kind: QpType::Ud, ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let sge = memory(&mut world, &a, 64, Access::LOCAL_WRITE);
    let bad = weft_verbs::Sge { lkey: sge.lkey ^ 1, ..sge };
    super::datagrams::send(&mut world, &a, &b, 1, bad, &options).unwrap();
    super::datagrams::send(&mut world, &a, &b, 2, sge, &options).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(a.state(&world), QpState::Sqe);
    let now = world.now;
    let attr = QpAttr { qp_state: QpState::Rts, ..QpAttr::default() };
    world.hosts[0].hca.modify_qp(now, a.qp, &attr, Mask::STATE).unwrap();
    super::datagrams::send(&mut world, &a, &b, 3, sge, &options).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(3, WcStatus::Success)]);
}
