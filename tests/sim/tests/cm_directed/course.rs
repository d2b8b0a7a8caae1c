//! The course of a connection: each message lost once, crossing requests, options, alternate paths, every type.

use weft_cm::ib::SidrReqParams;

use super::*;

/// Each message of the handshake is lost once, unnoticed by both sides.
#[test]
fn one_loss_of_each_message_is_mended() {
    for lost in 0..5 {
        let mut lab = lab();
        let mut number = 0;
        let mut lose = |lab: &mut Lab| {
            lab.world.net.faults.loss = if number == lost { 10_000 } else { 0 };
            lab.soon();
            lab.world.net.faults.loss = 0;
            lab.pass(Duration::from_millis(900));
            number += 1;
        };
        let (now, params) = (lab.now(), req(&lab.world, A, 0x11));
        let a = lab.cm(A).send_req(now, &params).unwrap();
        lose(&mut lab);
        let (b, now) = (lab.asked(B), lab.now());
        lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
        lose(&mut lab);
        let now = lab.now();
        lab.cm(A).send_rtu(now, a, &[]).unwrap();
        lose(&mut lab);
        lab.both_stand(a, b);
        let now = lab.now();
        lab.cm(B).send_dreq(now, b, &[]).unwrap();
        lose(&mut lab);
        let now = lab.now();
        lab.cm(A).send_drep(now, a, &[]).unwrap();
        lose(&mut lab);
        lab.pass(Duration::from_secs(20));
        assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::DrepReceived)), 1, "{lost}: {:?}", lab.told);
        for (host, conn) in [(A, a), (B, b)] {
            assert_eq!(lab.count(host, conn, |k| matches!(k, EventKind::TimewaitExit)), 1, "{lost}: {:?}", lab.told);
            let now = lab.now();
            lab.cm(host).destroy(now, conn);
        }
        assert!(lab.cm(A).is_idle() && lab.cm(B).is_idle(), "{lost}");
    }
}

/// Both sides request the same connection at the same time and get one connection.
#[test]
fn requests_that_cross_make_one_connection() {
    for late in [Duration::ZERO, limits::LISTENER_GRACE / 2, limits::LISTENER_GRACE * 2] {
        let mut lab = lab();
        let mut conns = Vec::new();
        for host in [A, B] {
            let params =
                ReqParams { peer_to_peer: true, service_id: 0x77, ..req(&lab.world, host, 0x11 + host as u32) };
            let now = lab.now();
            conns.push(lab.cm(host).send_req(now, &params).unwrap());
            // The first request arrives before the other side sent its own, and waits a moment.
            lab.pass(late);
        }
        lab.pass(Duration::from_secs(2));
        // The adapter with the greater GUID stays active.
        let refused = lab.count(A, conns[A], |k| is_rej(k, RejectReason::INVALID_SERVICE_ID));
        assert_eq!(refused, usize::from(late > limits::LISTENER_GRACE), "{:?}", lab.told);
        if refused == 1 {
            continue;
        }
        assert_eq!(lab.count(A, conns[A], |k| matches!(k, EventKind::ReqReceived(_))), 1, "{:?}", lab.told);
        let now = lab.now();
        lab.cm(A).send_rep(now, conns[A], &rep(0x11)).unwrap();
        lab.soon();
        let now = lab.now();
        lab.cm(B).send_rtu(now, conns[B], &[]).unwrap();
        lab.soon();
        lab.both_stand(conns[A], conns[B]);
        assert_eq!(lab.told.iter().filter(|t| matches!(t.2, EventKind::ReqReceived(_))).count(), 1);
        let (a, b) = (lab.cm(A).qp_params(conns[A]).unwrap(), lab.cm(B).qp_params(conns[B]).unwrap());
        assert_eq!((a.remote_qpn, b.remote_qpn), (0x12, 0x11));
        assert_eq!((a.rq_psn, a.sq_psn), (b.sq_psn, b.rq_psn));
    }
}

/// Options of enhanced connection establishment travel both ways.
#[test]
fn options_are_carried() {
    let mut lab = lab();
    let (now, ece) = (lab.now(), Ece { vendor_id: 0x15b3, attr_mod: 0x1000_0001 });
    let params = ReqParams { ece, ..req(&lab.world, A, 0x11) };
    let a = lab.cm(A).send_req(now, &params).unwrap();
    lab.soon();
    let offered = lab.told.iter().find_map(|t| match &t.2 {
        EventKind::ReqReceived(req) => Some(req.ece),
        _ => None,
    });
    assert_eq!(offered, Some(ece));
    let (b, now, taken) = (lab.asked(B), lab.now(), Ece { attr_mod: 1, ..ece });
    lab.cm(B).send_rep(now, b, &RepParams { ece: taken, ..rep(0x21) }).unwrap();
    lab.soon();
    let answered = lab.told.iter().find_map(|t| match &t.2 {
        EventKind::RepReceived(rep) if t.1 == a => Some(rep.ece),
        _ => None,
    });
    assert_eq!(answered, Some(taken));
}

/// The RTU never arrives: the passive side gives up and rejects, so that the active side learns that the connection
/// failed.
#[test]
fn one_side_alone_does_not_stand() {
    let mut lab = lab();
    let a = lab.ask(A, 0x11);
    let (b, now) = (lab.asked(B), lab.now());
    lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
    lab.soon();
    lab.world.net.faults = Faults { loss: 10_000, only_from: Some(lab.world.hosts[A].ip), ..Faults::NONE };
    let now = lab.now();
    lab.cm(A).send_rtu(now, a, &[]).unwrap();
    lab.soon();
    assert_eq!(lab.cm(A).state(a), Some(State::Established));
    lab.pass(Duration::from_secs(60));
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::RepError)), 1, "{:?}", lab.told);
    assert_eq!(lab.count(A, a, |k| is_rej(k, RejectReason::TIMEOUT)), 1, "{:?}", lab.told);
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::TimewaitExit)), 1, "{:?}", lab.told);
}

/// One side proposes an alternate path; the other asks for more time and then answers. The connection stays
/// established.
#[test]
fn a_path_may_be_proposed() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let (now, path) = (lab.now(), lab.world.path(B, A, 16));
    lab.cm(B).send_lap(now, b, &path, b"this way").unwrap();
    lab.soon();
    assert_eq!(
        lab.count(A, a, |k| matches!(k, EventKind::LapReceived(p) if (p.sgid, p.dgid) == (path.dgid, path.sgid))),
        1
    );
    let now = lab.now();
    lab.cm(A).send_mra(now, a, 24, false, &[]).unwrap();
    lab.pass(Duration::from_secs(40));
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::MraReceived { service_timeout: 24 })), 1);
    let now = lab.now();
    lab.cm(A).send_apr(now, a, ApStatus::SUCCESS, &[], &[]).unwrap();
    lab.soon();
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::AprReceived(apr) if apr.status == ApStatus::SUCCESS)), 1);
    lab.both_stand(a, b);
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::LapError)), 0);
}

/// Other queue pair types arrive as such: an XRC request comes from an initiator and needs a target on the passive
/// side.
#[test]
fn every_kind_of_queue_pair_connects() {
    for (asking, asked) in [(QpType::Rc, QpType::Rc), (QpType::Uc, QpType::Uc), (QpType::XrcSend, QpType::XrcRecv)] {
        let mut lab = lab();
        let params = ReqParams { qp_type: asking, ..req(&lab.world, A, 0x11) };
        let now = lab.now();
        let a = lab.cm(A).send_req(now, &params).unwrap();
        lab.soon();
        let b = lab.asked(B);
        let told = |k: &EventKind| matches!(k, EventKind::ReqReceived(r) if r.qp_type == asked && r.remote_qpn == 0x11);
        assert_eq!(lab.count(B, b, told), 1, "{:?}", lab.told);
        let now = lab.now();
        lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
        lab.soon();
        assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::RepReceived(r) if r.remote_qpn == 0x21)), 1);
        let now = lab.now();
        lab.cm(A).send_rtu(now, a, &[]).unwrap();
        lab.soon();
        lab.both_stand(a, b);
        let types = (lab.cm(A).qp_params(a).unwrap().qp_type, lab.cm(B).qp_params(b).unwrap().qp_type);
        assert_eq!(types, (asking, asked));
        let now = lab.now();
        lab.cm(A).send_dreq(now, a, &[]).unwrap();
        lab.soon();
        assert_eq!(lab.cm(B).state(b), Some(State::DreqRcvd), "{asking:?}");
    }
}

/// In every state, a side that destroys its connection notifies the other at once rather than leaving it to timers.
#[test]
fn who_forgets_says_so() {
    let timeout = |k: &EventKind| is_rej(k, RejectReason::TIMEOUT);
    let consumer = |k: &EventKind| is_rej(k, RejectReason::CONSUMER_DEFINED);
    let dreq = |k: &EventKind| matches!(k, EventKind::DreqReceived);
    let drep = |k: &EventKind| matches!(k, EventKind::DrepReceived);
    type Case = (u32, usize, fn(&EventKind) -> bool);
    let cases: [Case; 7] = [
        (0, A, timeout),
        (0, B, consumer),
        (1, A, consumer),
        (1, B, consumer),
        (2, A, dreq),
        (2, B, dreq),
        (3, A, drep),
    ];
    for (stage, forgetful, told) in cases {
        let mut lab = lab();
        let a = lab.ask(A, 0x11);
        let b = lab.asked(B);
        let conns = [a, b];
        if stage >= 1 {
            let now = lab.now();
            lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
            lab.soon();
        }
        if stage >= 2 {
            let now = lab.now();
            lab.cm(A).send_rtu(now, a, &[]).unwrap();
            lab.soon();
        }
        if stage >= 3 {
            let now = lab.now();
            lab.cm(B).send_dreq(now, b, &[]).unwrap();
            lab.soon();
        }
        let now = lab.now();
        lab.cm(forgetful).destroy(now, conns[forgetful]);
        lab.soon();
        let other = 1 - forgetful;
        assert_eq!(lab.count(other, conns[other], told), 1, "{stage} {forgetful}: {:?}", lab.told);
        assert_eq!(lab.cm(forgetful).state(conns[forgetful]), None);
    }
}

#[test]
fn who_forgets_a_question_about_a_service_refuses_it() {
    let mut lab = lab();
    let (now, to) = (lab.now(), lab.world.gmp_address(A, B));
    let params = SidrReqParams {
        to,
        service_id: SERVICE,
        pkey: 0xffff,
        timeout_ms: 4096,
        max_cm_retries: 15,
        private_data: Vec::new(),
    };
    let a = lab.cm(A).send_sidr_req(now, &params).unwrap();
    lab.soon();
    let asked = lab.told.iter().find(|t| matches!(t.2, EventKind::SidrReqReceived(_))).expect("a question").1;
    let now = lab.now();
    lab.cm(B).destroy(now, asked);
    lab.soon();
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::SidrRepReceived(r) if r.status == SidrStatus::REJECT)), 1);
    assert!(lab.cm(B).is_idle());
}
