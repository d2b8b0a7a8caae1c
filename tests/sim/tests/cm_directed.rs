//! Two communication managers led by hand through what chance alone would meet too rarely: peers that come back without
//! memory, requests that cross, lost messages one by one, forged ones, floods.

use std::net::IpAddr;

use weft_cm::ib::{Cm, ConnId, Ece, EventKind, RejectReason, RepParams, ReqParams, State, limits};
use weft_sim::cm::world::{CmWorld, Step, datagram, gmp_address, node_guid};
use weft_sim::net::{Datagram, Faults};
use weft_verbs::{Duration, Instant, QpType};
use weft_wire::Packet;
use weft_wire::cm::*;
use weft_wire::mad::{AttrId, Mad};
use zerocopy::IntoBytes;

const SERVICE: u64 = 0x0106_1c06;
const A: usize = 0;
const B: usize = 1;

struct Lab {
    world: CmWorld,
    /// Every event, host first.
    told: Vec<(usize, ConnId, EventKind)>,
}

fn lab() -> Lab {
    let mut lab = Lab { world: CmWorld::new(7, 2, false, Faults::NONE), told: Vec::new() };
    lab.cm(B).listen(SERVICE, u64::MAX).unwrap();
    lab
}

fn req(world: &CmWorld, from: usize, qpn: u32) -> ReqParams {
    ReqParams {
        to: world.gmp_address(from, 1 - from),
        service_id: SERVICE,
        primary: world.path(from, 1 - from, 16),
        alternate: None,
        qpn,
        qp_type: QpType::Rc,
        starting_psn: 0x111,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: false,
        remote_cm_response_timeout: 18,
        local_cm_response_timeout: 18,
        max_cm_retries: 3,
        peer_to_peer: false,
        ece: Ece::default(),
        private_data: b"question".to_vec(),
    }
}

fn rep(qpn: u32) -> RepParams {
    RepParams { qpn, starting_psn: 0x222, ..RepParams::default() }
}

impl Lab {
    fn cm(&mut self, host: usize) -> &mut Cm {
        &mut self.world.hosts[host].cm
    }

    fn now(&self) -> Instant {
        self.world.now
    }

    /// Let everything happen for so long.
    fn pass(&mut self, time: Duration) {
        self.world.flush(A);
        self.world.flush(B);
        let end = self.now() + time;
        self.world.net.wake(end, 0);
        loop {
            let step = self.world.step();
            for host in [A, B] {
                while let Some(event) = self.cm(host).poll_event() {
                    self.told.push((host, event.conn, event.kind));
                }
            }
            if step == (Step::Wake(0)) && self.now() >= end || step == Step::Idle {
                break;
            }
        }
        assert_eq!(self.world.complaint, None);
    }

    fn soon(&mut self) {
        self.pass(Duration::from_millis(1));
    }

    fn ask(&mut self, from: usize, qpn: u32) -> ConnId {
        let (now, params) = (self.now(), req(&self.world, from, qpn));
        let conn = self.cm(from).send_req(now, &params).unwrap();
        self.soon();
        conn
    }

    /// The connection that the last request at a host made.
    fn asked(&self, host: usize) -> ConnId {
        let mut requests = self.told.iter().rev().filter(|t| t.0 == host && matches!(t.2, EventKind::ReqReceived(_)));
        requests.next().expect("a request").1
    }

    fn count(&self, host: usize, conn: ConnId, wanted: impl Fn(&EventKind) -> bool) -> usize {
        self.told.iter().filter(|t| t.0 == host && t.1 == conn && wanted(&t.2)).count()
    }

    fn connect(&mut self, a_qpn: u32, b_qpn: u32) -> (ConnId, ConnId) {
        let a = self.ask(A, a_qpn);
        let b = self.asked(B);
        let now = self.now();
        self.cm(B).send_rep(now, b, &rep(b_qpn)).unwrap();
        self.soon();
        let now = self.now();
        self.cm(A).send_rtu(now, a, &[]).unwrap();
        self.soon();
        self.both_stand(a, b);
        (a, b)
    }

    fn both_stand(&mut self, a: ConnId, b: ConnId) {
        let states = (self.cm(A).state(a), self.cm(B).state(b));
        assert_eq!(states, (Some(State::Established), Some(State::Established)), "{:?}", self.told);
    }

    /// Power off and on again: what it knew is lost.
    fn restart(&mut self, host: usize) {
        self.world.crash(host);
        self.world.hosts[host].off = false;
        self.cm(host).listen(SERVICE, u64::MAX).unwrap();
    }

    /// The message of a kind that was on the wire last.
    fn heard(&self, kind: AttrId) -> Mad {
        let mad = |d: &Datagram| Mad::parse(Packet::parse(&d.bytes).unwrap().payload).unwrap();
        let mut all = self.world.remembered.iter().rev().map(mad);
        all.find(|mad| mad.header.attr_id() == kind).expect("heard on the wire")
    }

    fn arrive(&mut self, at: usize, from: IpAddr, mad: &Mad) {
        let datagram = datagram(from, self.world.hosts[at].ip, 0, mad);
        self.world.arrive(&datagram);
    }
}

fn stranger() -> IpAddr {
    [10, 77, 0, 99].into()
}

fn is_rej(kind: &EventKind, reason: RejectReason) -> bool {
    matches!(kind, EventKind::RejReceived(rej) if rej.reason == reason)
}

/// The adapter that comes back with the same queue pair number has lost the old connection: the request is rejected as
/// stale, the old one ends, and then there is a way (IBA 12.9.8.3).
#[test]
fn a_peer_that_comes_back_ends_its_old_connection() {
    let mut lab = lab();
    let (_, b) = lab.connect(0x11, 0x21);
    lab.restart(A);
    let again = lab.ask(A, 0x11);
    assert_eq!(lab.count(A, again, |k| is_rej(k, RejectReason::STALE_CONN)), 1, "{:?}", lab.told);
    // The old one was asked to end, and the peer that knows nothing of it agreed.
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::DrepReceived)), 1, "{:?}", lab.told);
    assert_eq!(lab.cm(B).state(b), Some(State::Timewait));
    let (now, old) = (lab.now(), again);
    lab.cm(A).destroy(now, old);
    lab.connect(0x11, 0x22);
}

/// Nobody else may end it so, even if he knows the adapter's GUID and the queue pair's number.
#[test]
fn a_stranger_with_the_peers_names_ends_nothing() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let mad = lab.heard(AttrId::CM_REQ);
    let mut forged = Req::parse(&mad.data);
    forged.local_comm_id ^= 0x5555;
    lab.arrive(B, stranger(), &CmMessage::from(forged).to_mad(9));
    lab.arrive(B, stranger(), &mad);
    lab.soon();
    lab.both_stand(a, b);
    assert_eq!(lab.told.iter().filter(|t| matches!(t.2, EventKind::ReqReceived(_))).count(), 1);
}

#[test]
fn a_peer_without_memory_agrees_that_a_connection_ends() {
    let mut lab = lab();
    let (a, _) = lab.connect(0x11, 0x21);
    lab.restart(B);
    let now = lab.now();
    lab.cm(A).send_dreq(now, a, &[]).unwrap();
    lab.soon();
    assert_eq!(lab.cm(A).state(a), Some(State::Timewait));
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::DrepReceived)), 1);
    lab.pass(Duration::from_secs(10));
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::TimewaitExit)), 1);
}

#[test]
fn a_peer_that_lost_its_memory_over_the_answer_is_told() {
    let mut lab = lab();
    lab.ask(A, 0x11);
    let b = lab.asked(B);
    lab.restart(A);
    let now = lab.now();
    lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
    lab.pass(Duration::from_secs(60));
    let told = |k: &EventKind| matches!(k, EventKind::RepError | EventKind::RejReceived(_));
    assert_eq!(lab.count(B, b, told), 1, "{:?}", lab.told);
}

/// Each message of the handshake is lost once; nobody notices.
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

/// Both ask for the same at the same time: one connection comes of it.
#[test]
fn requests_that_cross_make_one_connection() {
    for late in [false, true] {
        let mut lab = lab();
        let mut conns = Vec::new();
        for host in [A, B] {
            let params =
                ReqParams { peer_to_peer: true, service_id: 0x77, ..req(&lab.world, host, 0x11 + host as u32) };
            let now = lab.now();
            conns.push(lab.cm(host).send_req(now, &params).unwrap());
            if late {
                // The first arrives where nobody has asked yet.
                lab.soon();
            }
        }
        lab.pass(Duration::from_secs(2));
        // The adapter with the greater GUID stays active.
        let refused = lab.count(A, conns[A], |k| is_rej(k, RejectReason::INVALID_SERVICE_ID));
        if late {
            assert_eq!(refused, 1, "{:?}", lab.told);
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

/// Messages that name a standing connection by its true ids, but come from elsewhere, or know too little.
#[test]
fn forged_messages_change_nothing() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let peer = lab.world.hosts[A].ip;
    let (local, remote) = (a.0, b.0);
    let dreq = Dreq { local_comm_id: local, remote_comm_id: remote, remote_qpn: 0x21, ..Dreq::default() };
    let rej = Rej { local_comm_id: local, remote_comm_id: remote, reason: RejectReason::TIMEOUT, ..Rej::default() };
    let guid = PrivateData::new(&node_guid(A).to_be_bytes()).unwrap();
    let by_guid = Rej { ari: guid, reject_info_len: 8, ..rej.clone() };
    let strangers: [CmMessage; 5] = [
        dreq.clone().into(),
        rej.clone().into(),
        by_guid.into(),
        Drep { local_comm_id: local, remote_comm_id: remote, ..Drep::default() }.into(),
        Lap { local_comm_id: local, remote_comm_id: remote, remote_qpn: 0x21, ..Lap::default() }.into(),
    ];
    let before = lab.told.len();
    for message in &strangers {
        lab.arrive(B, stranger(), &message.to_mad(1));
    }
    // In the peer's name, but without knowing the queue pair, or our id, or the peer's.
    let blind: [CmMessage; 5] = [
        Dreq { remote_qpn: 0x22, ..dreq.clone() }.into(),
        Dreq { local_comm_id: local ^ 1, ..dreq.clone() }.into(),
        Dreq { remote_comm_id: remote ^ 1, ..dreq }.into(),
        Rej { local_comm_id: local ^ 1, ..rej.clone() }.into(),
        Rej { remote_comm_id: remote ^ 1, ..rej }.into(),
    ];
    for message in &blind {
        lab.arrive(B, peer, &message.to_mad(1));
    }
    lab.soon();
    lab.both_stand(a, b);
    assert_eq!(lab.told.len(), before, "{:?}", &lab.told[before..]);
    assert_eq!(lab.cm(B).stats().rx_spoofed, strangers.len() as u64);
}

/// Requests without end: so many wait, the others are turned away, and when nobody answers nothing stays.
#[test]
fn a_flood_of_requests_has_a_bound() {
    let mut cm = Cm::new(1);
    let world = CmWorld::new(1, 1, false, Faults::NONE);
    cm.set_device(weft_sim::cm::world::DEVICE, weft_cm::ib::CaInfo { node_guid: node_guid(0), ack_delay: 15 });
    cm.listen(SERVICE, u64::MAX).unwrap();
    let (own, peer) = (world.hosts[0].ip, stranger());
    let path = weft_wire::cm::Path {
        local_lid: LID_PERMISSIVE,
        remote_lid: LID_PERMISSIVE,
        local_gid: gmp_address(peer, own).sgid.0,
        remote_gid: gmp_address(peer, own).dgid.0,
        hop_limit: 64,
        local_ack_timeout: 17,
        ..Default::default()
    };
    let flood = limits::PENDING_REQUESTS_MAX as u32 + 5_000;
    let (mut conns, mut refused) = (Vec::new(), 0);
    for number in 0..flood {
        let req = Req {
            local_comm_id: number + 1,
            service_id: ServiceId(SERVICE),
            local_ca_guid: 0xbad,
            local_qpn: number + 2,
            local_cm_response_timeout: 18,
            pkey: 0xffff,
            path_mtu: 3,
            primary: path,
            ..Req::default()
        };
        let mad = CmMessage::from(req).to_mad(number.into());
        cm.handle_mad(Instant(number.into()), &gmp_address(own, peer), mad.as_bytes().try_into().unwrap());
        while let Some((_, bytes)) = cm.poll_transmit() {
            let CmMessage::Rej(rej) = CmMessage::from_mad(&Mad::parse(&bytes).unwrap()).unwrap() else { panic!() };
            assert_eq!(rej.reason, RejectReason::NO_RESOURCES);
            refused += 1;
        }
        while let Some(event) = cm.poll_event() {
            conns.push(event.conn);
        }
    }
    assert_eq!((conns.len(), refused), (limits::PENDING_REQUESTS_MAX, 5_000));
    assert_eq!(cm.connections(), limits::PENDING_REQUESTS_MAX);
    conns.iter().for_each(|conn| cm.destroy(Instant(1 << 40), *conn));
    while cm.poll_transmit().is_some() {}
    assert!(cm.is_idle());
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

/// Every message there is with any contents, from three addresses, to somebody who listens and now and then answers:
/// no panic, and no more than a bound is kept.
#[test]
fn noise_of_all_kinds_is_survived() {
    let mut rng = weft_sim::Rng::new(5);
    let mut cm = Cm::new(1);
    let own: IpAddr = [10, 77, 0, 1].into();
    cm.set_device(weft_sim::cm::world::DEVICE, weft_cm::ib::CaInfo { node_guid: node_guid(0), ack_delay: 15 });
    cm.listen(0, 0).unwrap();
    let (mut known, mut most) = (vec![ConnId(0)], 0);
    for number in 0..200_000 {
        let now = Instant(number * 1_000_000);
        // Few values for each byte, so that ids, GUIDs and queue pairs meet again.
        let mut data: [u8; 232] = std::array::from_fn(|_| rng.pick(&[0, 0, 0, 1, 0x80, 0xff]));
        if rng.chance(1, 2) {
            let id = rng.pick(&known).0.to_be_bytes();
            let at = rng.pick(&[0, 4]);
            data[at..at + 4].copy_from_slice(&id);
        }
        let kind = rng.pick(&CmMessage::ALL.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let mad = CmMessage::parse(kind, &data).unwrap().to_mad(number);
        let from = gmp_address(own, [10, 77, 0, rng.range(2, 4) as u8].into());
        cm.handle_mad(now, &from, mad.as_bytes().try_into().unwrap());
        if cm.poll_timeout().is_some_and(|at| at <= now) {
            cm.handle_timeout(now);
        }
        while cm.poll_transmit().is_some() {}
        while let Some(event) = cm.poll_event() {
            known.push(event.conn);
        }
        let conn = rng.pick(&known);
        match rng.below(8) {
            0 | 1 => drop(cm.send_rep(now, conn, &rep(rng.below(4) as u32))),
            2 => drop(cm.send_rtu(now, conn, &[])),
            3 => drop(cm.establish(now, conn)),
            4 => drop(cm.send_dreq(now, conn, &[])),
            5 => drop(cm.send_mra(now, conn, rng.bits() as u8 & 31, false, &[])),
            _ => {}
        }
        if known.len() > 50 {
            let at = rng.range(1, 49) as usize;
            cm.destroy(now, known.swap_remove(at));
        }
        most = most.max(cm.connections());
    }
    assert!(most < 5_000, "{most} connections of 50 that anybody holds");
    let mut now = Instant(1 << 50);
    known.iter().for_each(|conn| cm.destroy(now, *conn));
    while let Some(at) = cm.poll_timeout() {
        now = now.max(at);
        cm.handle_timeout(now);
        while cm.poll_transmit().is_some() {}
    }
    while cm.poll_transmit().is_some() {}
    assert!(cm.is_idle(), "{cm:#?}");
}
