//! Directed tests of two communication managers, in situations that random seeds reach too rarely: peers that return
//! without state, crossing requests, single lost messages, forged messages, floods.

mod course;
mod floods;
mod peers;

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
    /// Every event, with its host first.
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

    /// Runs the simulation for this long.
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

    /// Returns the connection that the last request at a host created.
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

    /// Powers a host off and on again; it loses its state.
    fn restart(&mut self, host: usize) {
        self.world.crash(host);
        self.world.hosts[host].off = false;
        self.cm(host).listen(SERVICE, u64::MAX).unwrap();
    }

    /// Returns the latest message of a kind on the wire.
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
