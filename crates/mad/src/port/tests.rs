use super::*;
use crate::Wanted;
use crate::limits::{
    INCOMING_BYTES_MAX, INCOMING_TRANSFERS_MAX, OUTGOING_BYTES_MAX, OUTGOING_BYTES_PER_PEER_MAX, RMPP_ACK_TIMEOUT,
    TRANSFER_BYTES_MAX,
};
use crate::rmpp::{header, set_header};
use weft_wire::mad::rmpp::{RmppHeader, RmppStatus, RmppType};
use weft_wire::mad::sa::{ComponentMask, PathRecord, SaMad};
use weft_wire::mad::subn::Smp;
use weft_wire::mad::{AttrId, Class, Method};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lid(u16);

impl Peer for Lid {
    fn same_end(&self, other: &Lid) -> bool {
        self == other
    }
}

const T: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn sa_agent(rmpp: bool, methods: &[Method]) -> AgentSpec {
    let methods = methods.iter().fold(0, |sum, method| sum | 1 << method.0);
    let wants = Wanted { class: Class::SUBN_ADM.0, class_version: 2, oui: 0, methods };
    AgentSpec { wants: (methods != 0).then_some(wants), rmpp }
}

fn smp(tid: u64) -> Vec<u8> {
    Smp::lid_routed(Method::GET, tid, AttrId::NODE_INFO, 0, 0).to_mad().as_bytes().to_vec()
}

fn send(agent: AgentId, lid: u16, bytes: Vec<u8>, retries: u32) -> Send<Lid> {
    Send { agent, peer: Lid(lid), bytes, timeout: T, retries }
}

/// Response to a request.
fn answer(mad: &Mad) -> Mad {
    let mut answer = *mad;
    answer.header.set_method(mad.header.method().response());
    answer
}

fn sent(port: &mut Port<Lid>) -> Vec<Mad> {
    std::iter::from_fn(|| port.poll_transmit()).map(|(_, mad)| mad).collect()
}

#[test]
fn a_request_is_sent_as_often_as_asked_and_comes_back() {
    let mut port = Port::default();
    let agent = port.register(AgentSpec::default()).expect("an agent");
    port.send(at(0), send(agent, 7, smp(5), 2)).expect("sent");
    for ms in [100, 200, 300] {
        assert_eq!((sent(&mut port).len(), port.poll_timeout()), (1, Some(at(ms))));
        port.handle_timeout(at(ms - 1));
        assert!(port.poll_delivery().is_none() && sent(&mut port).is_empty());
        port.handle_timeout(at(ms));
    }
    let back = port.poll_delivery().expect("it comes back");
    assert_eq!((back.agent, back.timed_out, back.peer, back.bytes.len()), (agent, true, Lid(7), MadHeader::LEN));
    assert_eq!((port.poll_timeout(), port.waiting(), sent(&mut port).len()), (None, 0, 0));
}

#[test]
fn an_answer_finds_who_asked() {
    let mut port = Port::default();
    let agents = [0; 2].map(|_| port.register(AgentSpec::default()).expect("an agent"));
    for agent in agents {
        port.send(at(0), send(agent, 7, smp(5), 0)).expect("sent");
    }
    assert_eq!(port.send(at(0), send(agents[0], 8, smp(5), 0)), Err(SendError::Duplicate));
    let asked = sent(&mut port);
    assert_ne!(asked[0].header.tid(), asked[1].header.tid(), "the same lower half");
    assert!(!port.handle(at(1), Lid(8), &answer(&asked[1])), "from elsewhere");
    assert!(port.handle(at(1), Lid(7), &answer(&asked[1])));
    assert!(!port.handle(at(2), Lid(7), &answer(&asked[1])), "twice");
    let got = port.poll_delivery().expect("an answer");
    assert_eq!((got.agent, got.timed_out, got.bytes.len()), (agents[1], false, 256));
    assert!(port.unregister(agents[0]));
    assert!(!port.handle(at(3), Lid(7), &answer(&asked[0])));
    assert_eq!((port.poll_timeout(), port.waiting(), port.poll_delivery()), (None, 0, None));
}

#[test]
fn a_directed_route_is_not_compared_by_address() {
    let mut port = Port::default();
    let agent = port.register(AgentSpec::default()).expect("an agent");
    let smp = Smp::directed(Method::GET, 9, AttrId::NODE_INFO, 0, 0, &[1, 2]).expect("two hops");
    port.send(at(0), send(agent, 0xffff, smp.to_mad().as_bytes().to_vec(), 0)).expect("sent");
    let asked = sent(&mut port)[0];
    assert!(port.handle(at(1), Lid(3), &answer(&asked)));
}

#[test]
fn what_nobody_wants_is_not_taken() {
    let mut port = Port::default();
    let agent = port.register(sa_agent(false, &[Method::GET])).expect("an agent");
    let request =
        SaMad::request(Method::GET, 3, Default::default(), &weft_wire::mad::sa::PathRecord::default()).to_mad();
    assert!(port.handle(at(0), Lid(1), &request));
    assert_eq!(port.poll_delivery().map(|got| got.agent), Some(agent));
    let mut other = request;
    other.header.set_method(Method::SET);
    assert!(!port.handle(at(0), Lid(1), &other));
    let short = Send { timeout: Duration::ZERO, ..send(agent, 1, vec![1; 23], 0) };
    assert_eq!(port.send(at(0), short.clone()), Err(SendError::TooShort));
    assert_eq!(port.send(at(0), Send { bytes: vec![1; 257], ..short.clone() }), Err(SendError::TooLong));
    assert_eq!(port.send(at(0), Send { agent: AgentId(99), ..short }), Err(SendError::NoAgent));
}

/// An administrator and a host that queries it, with the link between them.
struct Pair {
    host: Port<Lid>,
    admin: Port<Lid>,
    asker: AgentId,
    server: AgentId,
    now: Instant,
    carried: usize,
}

const HOST: Lid = Lid(1);
const ADMIN: Lid = Lid(2);

impl Pair {
    fn new() -> Pair {
        let (mut host, mut admin) = (Port::default(), Port::default());
        let asker = host.register(sa_agent(true, &[])).expect("asker");
        let server = admin.register(sa_agent(true, &[Method::GET_TABLE, Method::GET_MULTI])).expect("server");
        Pair { host, admin, asker, server, now: at(0), carried: 0 }
    }

    /// Carries queued datagrams, except those that `lose` selects, counted from 1. Returns `true` if there were any.
    fn carry(&mut self, lose: &dyn Fn(usize) -> bool) -> bool {
        let mut any = false;
        loop {
            let (to_admin, to_host) = (self.host.poll_transmit(), self.admin.poll_transmit());
            if to_admin.is_none() && to_host.is_none() {
                return any;
            }
            any = true;
            for (to, from, mad) in [
                (&mut self.admin, HOST, to_admin.map(|(_, mad)| mad)),
                (&mut self.host, ADMIN, to_host.map(|(_, mad)| mad)),
            ] {
                let Some(mad) = mad else { continue };
                self.carried += 1;
                if !lose(self.carried) {
                    to.handle(self.now, from, &mad);
                }
            }
        }
    }

    fn wait(&mut self) {
        let next = [self.host.poll_timeout(), self.admin.poll_timeout()].into_iter().flatten().min();
        self.now = next.expect("somebody waits");
        self.host.handle_timeout(self.now);
        self.admin.handle_timeout(self.now);
    }

    fn ask(&mut self, method: Method, bytes: usize) {
        let mad = SaMad::request(method, 3, Default::default(), &weft_wire::mad::sa::PathRecord::default()).to_mad();
        let mut whole = mad.as_bytes().to_vec();
        if bytes > 256 {
            whole[24..36].copy_from_slice(RmppHeader::data(0, 0, 0).as_bytes());
            whole.resize(bytes, 0x5a);
        }
        // The sender of an answer waits two seconds for an acknowledgement.
        let timeout = Duration::from_secs(5);
        self.host.send(self.now, Send { timeout, ..send(self.asker, ADMIN.0, whole, 7) }).expect("sent");
    }

    fn answer(&mut self, question: &[u8], bytes: usize) -> Vec<u8> {
        let mut whole = question[..56].to_vec();
        whole[3] |= 0x80;
        whole[24..36].copy_from_slice(RmppHeader::data(0, 0, 0).as_bytes());
        whole.extend((0..bytes).map(|i| (i * 13 + i / 200) as u8));
        let send = Send { timeout: Duration::ZERO, ..send(self.server, HOST.0, whole.clone(), 3) };
        self.admin.send(self.now, send).expect("sent");
        whole
    }
}

/// Exchanges a request and a response of these lengths over a lossy link, and checks that both arrive intact.
fn converse(method: Method, asked: usize, answered: usize, lose: &dyn Fn(usize) -> bool) {
    let mut pair = Pair::new();
    pair.ask(method, asked);
    let mut want = None;
    for _ in 0..2000 {
        pair.carry(lose);
        if let Some(question) = pair.admin.poll_delivery() {
            if want.is_none() {
                assert!(!question.timed_out && question.bytes.len() == asked, "{} bytes", question.bytes.len());
                want = Some(pair.answer(&question.bytes, answered));
            }
            continue;
        }
        if let Some(got) = pair.host.poll_delivery() {
            let want = want.expect("asked before it is answered");
            assert!(!got.timed_out);
            assert_eq!((&got.bytes[..24], &got.bytes[36..]), (&want[..24], &want[36..]));
            return;
        }
        pair.wait();
    }
    panic!("no answer");
}

#[test]
fn a_table_of_any_length_is_answered() {
    for answered in [1, 200, 201, 4096, 200 * 64, 200 * 65 + 1, 100_000] {
        converse(Method::GET_TABLE, 256, answered, &|_| false);
    }
    converse(Method::GET_MULTI, 1000, 5000, &|_| false);
}

#[test]
fn a_table_is_answered_over_a_way_that_loses() {
    for seed in 0..30_usize {
        let lose = |n: usize| scatter(n + seed * 1000) % 100 < 3 + seed / 2;
        converse(Method::GET_TABLE, 256, 30_000, &lose);
        converse(Method::GET_MULTI, 900, 3_000, &lose);
    }
}

/// Pseudo-random number.
fn scatter(n: usize) -> usize {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as usize
}

#[test]
fn a_transfer_that_nobody_acknowledges_ends() {
    let mut pair = Pair::new();
    pair.ask(Method::GET_TABLE, 256);
    pair.carry(&|_| false);
    let question = pair.admin.poll_delivery().expect("asked");
    pair.answer(&question.bytes, 3000);
    let began = pair.now;
    while pair.admin.waiting() > 0 {
        while pair.admin.poll_transmit().is_some() {}
        let next = pair.admin.poll_timeout().expect("it waits");
        pair.admin.handle_timeout(next);
        pair.now = next;
    }
    assert_eq!(pair.now.since(began), RMPP_ACK_TIMEOUT * 4);
    assert!(pair.admin.poll_delivery().expect("the server hears of it").timed_out);
    let abort = sent(&mut pair.admin).pop().expect("an abort");
    assert_eq!(header(&abort).status(), RmppStatus::TOO_MANY_RETRIES);
    pair.host.handle(pair.now, ADMIN, &abort);
}

#[test]
fn the_other_end_may_abort() {
    let mut pair = Pair::new();
    pair.ask(Method::GET_MULTI, 5000);
    let first = sent(&mut pair.host).pop().expect("the first segment");
    let mut abort = answer(&first);
    abort.header.set_method(Method::GET_MULTI_RESP);
    set_header(&mut abort, RmppHeader::end(RmppStatus::UNSPECIFIED));
    assert!(pair.host.handle(at(1), ADMIN, &abort));
    assert!(pair.host.poll_delivery().expect("the asker hears of it").timed_out);
    assert_eq!((pair.host.waiting(), pair.host.poll_timeout()), (0, None));
}

#[test]
fn unasked_transfers_take_bounded_room() {
    let mut pair = Pair::new();
    let mut mad =
        SaMad::request(Method::GET_MULTI, 0, Default::default(), &weft_wire::mad::sa::PathRecord::default()).to_mad();
    for tid in 0..2 * INCOMING_TRANSFERS_MAX as u64 {
        mad.header.set_tid(tid);
        set_header(&mut mad, RmppHeader::data(RmppHeader::FIRST, 1, 1000));
        pair.admin.handle(at(tid), Lid(tid as u16 + 10), &mad);
    }
    assert_eq!(pair.admin.incoming.len(), INCOMING_TRANSFERS_MAX);
    let rejected = sent(&mut pair.admin).iter().filter(|mad| header(mad).status().is_stop()).count();
    assert_eq!(rejected, INCOMING_TRANSFERS_MAX);
    // All are forgotten in time.
    while let Some(next) = pair.admin.poll_timeout() {
        pair.admin.handle_timeout(next);
    }
    assert!(pair.admin.incoming.is_empty() && pair.admin.poll_delivery().is_none());
    // An unsolicited response takes no slot.
    mad.header.set_method(Method::GET_TABLE_RESP);
    assert!(!pair.host.handle(at(0), ADMIN, &mad));
}

/// A peer that sends many requests and acknowledges nothing is one of several, and all of them are bounded.
#[test]
fn transfers_that_nobody_acknowledges_take_bounded_room() {
    const BYTES: usize = OUTGOING_BYTES_PER_PEER_MAX / 4;
    let mut port = Port::default();
    let agent = port.register(sa_agent(true, &[Method::GET_TABLE])).expect("an agent");
    let answer = |lid: u16, tid: u64, bytes: usize| {
        let mut whole = vec![0; bytes];
        let head = MadHeader::new(Class::SUBN_ADM, 2, Method::GET_TABLE_RESP, tid, AttrId::NODE_INFO);
        whole[..MadHeader::LEN].copy_from_slice(head.as_bytes());
        whole[26] = RmppHeader::ACTIVE;
        Send { timeout: Duration::ZERO, ..send(agent, lid, whole, 0) }
    };
    assert!((0..4).all(|tid| port.send(at(0), answer(1, tid, BYTES)).is_ok()));
    assert_eq!(port.send(at(0), answer(1, 4, 1000)), Err(SendError::TooMany), "one of them has had his part");
    let others = (2..100).take_while(|lid| port.send(at(0), answer(*lid, 5, BYTES)).is_ok()).count();
    assert_eq!((others + 4) * BYTES, OUTGOING_BYTES_MAX);
    let long = port.send(at(0), answer(200, 6, TRANSFER_BYTES_MAX + 1));
    assert_eq!(long, Err(SendError::Transfer(TransferError::TooLong)));
    port.handle_timeout(at(0) + RMPP_ACK_TIMEOUT);
    assert_eq!(port.waiting(), 0);
    assert!(port.send(at(3000), answer(1, 7, BYTES)).is_ok(), "there is room again");
}

/// OpenSM sets only the flag and leaves version and type at 0.
#[test]
fn a_sender_need_not_say_more_than_that_it_is_a_transfer() {
    let mut port = Port::default();
    let agent = port.register(sa_agent(true, &[Method::GET_TABLE])).expect("an agent");
    let mut bytes = vec![0; 500];
    let head = MadHeader::new(Class::SUBN_ADM, 2, Method::GET_TABLE_RESP, 9, AttrId::NODE_INFO);
    bytes[..MadHeader::LEN].copy_from_slice(head.as_bytes());
    bytes[26] = RmppHeader::ACTIVE;
    port.send(at(0), send(agent, 7, bytes, 0)).expect("a transfer");
    let first = crate::rmpp::header(&sent(&mut port)[0]);
    assert_eq!((first.version(), first.segment(), first.is_active()), (RmppHeader::VERSION, 1, true));
}

#[test]
fn transfers_together_hold_no_more_than_their_bound() {
    let mut port = Port::default();
    port.register(sa_agent(true, &[Method::GET_MULTI])).expect("an agent");
    // Each of them stays below its own bound; all begin while there is room.
    let peers = INCOMING_BYTES_MAX / TRANSFER_BYTES_MAX + 2;
    let mut ended = 0;
    for segment in 1..=(TRANSFER_BYTES_MAX / 200 - 1) as u32 {
        for lid in 0..peers as u16 {
            let mut mad = SaMad::request(Method::GET_MULTI, 7, ComponentMask::NONE, &PathRecord::default()).to_mad();
            let flags = if segment == 1 { RmppHeader::FIRST } else { 0 };
            set_header(&mut mad, RmppHeader::data(flags, segment, 0));
            port.handle(at(u64::from(segment)), Lid(lid), &mad);
        }
        assert!(port.incoming_bytes() <= INCOMING_BYTES_MAX, "segment {segment}");
        let refused = |mad: &&Mad| matches!(header(mad).kind(), RmppType::STOP | RmppType::ABORT);
        ended += sent(&mut port).iter().filter(refused).count();
        if ended > 0 {
            return;
        }
    }
    panic!("nobody was refused");
}
