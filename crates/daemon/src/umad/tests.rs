//! Two hosts with a cable between them, configured by datagrams of an agent, and agents of several programs on them.

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Fabric, PortRef};
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadAgent, UmadHead};
use weft_verbs::{Duration, Instant};
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::sa::SaMad;
use weft_wire::mad::subn::{CapabilityMask, PhysState, PortInfo, PortState, Smp};
use weft_wire::mad::vendor::{OUI_OPENIB, VendorMad};
use weft_wire::mad::{AttrId, Class, GSI_QKEY, Mad, Method};
use zerocopy::{FromBytes, IntoBytes};

use super::UmadService;
use crate::refusal::{EINVAL, ENOMEM};

const LIDS: [u16; 2] = [1, 2];
const ETIMEDOUT: u32 = 110;

/// A datagram that a program received.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Got {
    head: UmadHead,
    bytes: Vec<u8>,
}

impl Got {
    fn mad(&self) -> Mad {
        Mad::read_from_bytes(&self.bytes).expect("a whole datagram")
    }
}

struct Lab {
    fabric: Fabric,
    umad: UmadService,
    now: Instant,
}

fn host(number: usize) -> PortRef {
    PortRef::new(number as u32, 1)
}

fn smi() -> UmadAgent {
    UmadAgent { qpn: 0, class: Class::SUBN_DIRECTED_ROUTE.0, class_version: 1, ..UmadAgent::default() }
}

fn gsi(class: Class, version: u8, methods: &[Method], rmpp_version: u8) -> UmadAgent {
    let method_mask = methods.iter().fold(0, |mask, method| mask | 1 << method.0);
    UmadAgent {
        qpn: 1,
        class: class.0,
        class_version: version,
        oui: OUI_OPENIB,
        method_mask,
        rmpp_version,
        user_rmpp: false,
    }
}

fn to_lid(agent: u32, lid: u16) -> UmadHead {
    UmadHead {
        agent,
        timeout_ms: 100,
        retries: 2,
        qpn: 1u32.to_be_bytes(),
        qkey: GSI_QKEY.to_be_bytes(),
        lid: lid.to_be_bytes(),
        ..UmadHead::default()
    }
}

fn ping(tid: u64) -> Mad {
    VendorMad::new(Class::OPENIB_PING, Method::GET, tid, AttrId(0), OUI_OPENIB).to_mad()
}

fn answer(mad: &Mad) -> Mad {
    let mut answer = *mad;
    answer.header.set_method(mad.header.method().response());
    answer
}

impl Lab {
    /// Makes the hosts as they are after power-on.
    fn new() -> Lab {
        let topology = Plan::new(Shape::Pair).generate().expect("two hosts");
        Lab { fabric: Fabric::new(&topology, 1), umad: UmadService::default(), now: Instant(0) }
    }

    /// Makes the hosts with LIDs and an active link.
    fn up() -> Lab {
        let mut lab = Lab::new();
        let port = lab.umad.open(1, host(0)).expect("a port");
        let agent = lab.umad.register(port, &smi()).expect("an agent");
        for state in [PortState::ARMED, PortState::ACTIVE] {
            for (path, lid) in [(&[][..], LIDS[0]), (&[1][..], LIDS[1])] {
                let ask = Smp::directed(Method::GET, 1, AttrId::PORT_INFO, 0, 0, path).expect("a route");
                let got = lab.ask(port, agent, &ask.to_mad());
                let mut info: PortInfo = Smp::from_mad(got.mad()).attribute().expect("PortInfo");
                (info.lid, info.master_sm_lid, info.port_state, info.neighbor_mtu) = (lid, LIDS[0], state, 5);
                info.port_physical_state = PhysState::NO_CHANGE;
                let mut set = Smp::directed(Method::SET, 1, AttrId::PORT_INFO, 0, 0, path).expect("a route");
                set.set_attribute(&info);
                assert_eq!(lab.ask(port, agent, &set.to_mad()).mad().header.status().common().0, 0);
            }
        }
        lab.umad.close(port);
        lab
    }

    fn ask(&mut self, handle: u32, agent: u32, mad: &Mad) -> Got {
        let head = UmadHead { agent, timeout_ms: 100, lid: LID_PERMISSIVE.to_be_bytes(), ..UmadHead::default() };
        self.send(handle, head, mad.as_bytes());
        let got = self.got(handle);
        assert_eq!(got.len(), 1, "one answer");
        got.into_iter().next().expect("an answer")
    }

    /// Sends as the library does.
    fn send(&mut self, handle: u32, head: UmadHead, mad: &[u8]) {
        let head = UmadHead { length: (UMAD_HEAD_BYTES + mad.len()) as u32, ..head };
        let whole = [head.as_bytes(), mad].concat();
        for packet in whole.chunks(UMAD_PACKET_BYTES_MAX) {
            self.umad.handle_packet(self.now, &mut self.fabric, handle, packet);
        }
    }

    /// Returns all datagrams that a port's program received.
    fn got(&mut self, handle: u32) -> Vec<Got> {
        let mut got: Vec<Got> = Vec::new();
        let Some(outbox) = self.umad.outbox(handle) else { return got };
        while let Some(packet) = outbox.pop() {
            match got.last_mut().filter(|last| UMAD_HEAD_BYTES + last.bytes.len() < last.head.length as usize) {
                Some(last) => last.bytes.extend(packet),
                None => {
                    let (head, bytes) = UmadHead::decode(&packet).expect("a head");
                    got.push(Got { head, bytes: bytes.to_vec() });
                }
            }
        }
        got
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.fabric.handle_timeout(self.now);
        self.umad.handle_timeout(self.now, &mut self.fabric);
    }
}

#[test]
fn an_answer_goes_to_the_program_that_asked() {
    let mut lab = Lab::up();
    let server = lab.umad.open(1, host(1)).unwrap();
    let served = lab.umad.register(server, &gsi(Class::OPENIB_PING, 1, &[Method::GET], 0)).unwrap();
    let ports: Vec<u32> = (2..5).map(|client| lab.umad.open(client, host(0)).unwrap()).collect();
    let agent = |lab: &mut Lab, port| lab.umad.register(port, &gsi(Class::OPENIB_PING, 1, &[], 0)).unwrap();
    let agents: Vec<u32> = ports.iter().map(|port| agent(&mut lab, *port)).collect();
    for (port, agent) in ports.iter().zip(&agents) {
        lab.send(*port, to_lid(*agent, LIDS[1]), ping(7).as_bytes());
    }
    let asked = lab.got(server);
    assert_eq!(asked.len(), 3);
    for got in asked.iter().rev() {
        assert_eq!((got.head.agent, got.head.status, got.head.lid), (served, 0, LIDS[0].to_be_bytes()));
        assert_eq!((got.head.qpn, got.head.length), ([0, 0, 0, 1], 320));
        let back = UmadHead { timeout_ms: 0, ..to_lid(served, LIDS[0]) };
        lab.send(server, back, answer(&got.mad()).as_bytes());
    }
    for (port, agent) in ports.iter().zip(&agents) {
        let got = lab.got(*port);
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].head.agent, got[0].head.status), (*agent, 0));
        assert_eq!(got[0].mad().header.tid() as u32, 7);
    }
    assert_eq!(lab.umad.poll_timeout(), None, "nobody waits any more");
}

#[test]
fn what_nobody_answers_comes_back() {
    let mut lab = Lab::up();
    let port = lab.umad.open(1, host(0)).unwrap();
    let agent = lab.umad.register(port, &gsi(Class::OPENIB_PING, 1, &[], 0)).unwrap();
    lab.send(port, to_lid(agent, 77), ping(9).as_bytes());
    for _ in 0..3 {
        assert!(lab.got(port).is_empty());
        lab.pass(100);
    }
    let got = lab.got(port);
    assert_eq!(got.len(), 1);
    let head = got[0].head;
    assert_eq!((head.agent, head.status, head.timeout_ms, head.retries), (agent, ETIMEDOUT, 100, 2));
    assert_eq!((head.lid, head.length, got[0].bytes.len()), (77u16.to_be_bytes(), 88, 24));
    assert_eq!(lab.umad.poll_timeout(), None);
}

#[test]
fn a_request_that_no_agent_wants_is_answered_as_linux_does() {
    let mut lab = Lab::up();
    let port = lab.umad.open(1, host(0)).unwrap();
    let agent = lab.umad.register(port, &gsi(Class::OPENIB_PING, 1, &[], 0)).unwrap();
    lab.send(port, to_lid(agent, LIDS[1]), ping(9).as_bytes());
    let got = lab.got(port);
    assert_eq!((got.len(), got[0].mad().header.status().0), (1, 0x0c));
}

#[test]
fn a_port_is_device_managed_while_an_agent_answers() {
    let mut lab = Lab::up();
    let shown = |lab: &mut Lab| {
        lab.umad.set_capabilities(lab.now, &mut lab.fabric);
        let info = lab.fabric.port_info(host(0)).expect("a port");
        info.capability_mask.contains(CapabilityMask::DEVICE_MANAGEMENT)
    };
    let (first, second) = (lab.umad.open(1, host(0)).unwrap(), lab.umad.open(2, host(0)).unwrap());
    lab.umad.register(first, &gsi(Class::DEV_MGT, 1, &[], 0)).unwrap();
    lab.umad.register(second, &gsi(Class::DEV_MGT, 1, &[Method::SET], 0)).unwrap();
    assert!(!shown(&mut lab), "a client of the class");
    let agent = lab.umad.register(first, &gsi(Class::DEV_MGT, 1, &[Method::GET], 0)).unwrap();
    assert!(shown(&mut lab));
    lab.umad.unregister(first, agent).unwrap();
    assert!(!shown(&mut lab));
    lab.umad.register(first, &gsi(Class::DEV_MGT, 1, &[Method::GET], 0)).unwrap();
    assert!(shown(&mut lab));
    lab.umad.close(first);
    assert!(!shown(&mut lab), "as after the end of a program");
}

#[test]
fn a_method_has_one_agent_on_a_port() {
    let mut lab = Lab::up();
    let (first, second) = (lab.umad.open(1, host(0)).unwrap(), lab.umad.open(2, host(0)).unwrap());
    let elsewhere = lab.umad.open(2, host(1)).unwrap();
    let wants = gsi(Class::SUBN_ADM, 2, &[Method::GET], 1);
    let number = lab.umad.register(first, &wants).unwrap();
    assert_eq!(lab.umad.register(second, &wants).unwrap_err().errno, EINVAL);
    lab.umad.register(elsewhere, &wants).unwrap();
    lab.umad.unregister(first, number).unwrap();
    assert_eq!(lab.umad.unregister(first, number).unwrap_err().errno, EINVAL);
    lab.umad.register(second, &wants).unwrap();
    lab.umad.close(second);
    lab.umad.register(first, &wants).unwrap();
    let none = gsi(Class::PERF, 1, &[], 0);
    while lab.umad.register(first, &none).is_ok() {}
    assert_eq!(lab.umad.register(first, &none).unwrap_err().errno, ENOMEM);
}

#[test]
fn long_answers_are_carried_whole() {
    let mut lab = Lab::up();
    let server = lab.umad.open(1, host(1)).unwrap();
    let served = lab.umad.register(server, &gsi(Class::SUBN_ADM, 2, &[Method::GET_TABLE], 1)).unwrap();
    let port = lab.umad.open(2, host(0)).unwrap();
    let agent = lab.umad.register(port, &gsi(Class::SUBN_ADM, 2, &[], 1)).unwrap();
    for length in [256, 300, 6456, 100_000] {
        let record = weft_wire::mad::sa::PathRecord::default();
        let ask = SaMad::request(Method::GET_TABLE, length as u64, Default::default(), &record).to_mad();
        lab.send(port, to_lid(agent, LIDS[1]), ask.as_bytes());
        let asked = lab.got(server);
        assert_eq!((asked.len(), asked[0].head.agent), (1, served));
        let mut long = answer(&asked[0].mad()).as_bytes().to_vec();
        long.resize(length, 0);
        // As OpenSM leaves it: the flag, and no type.
        long[26] = RmppHeader::ACTIVE;
        (SaMad::DATA_AT..length).for_each(|at| long[at] = at as u8);
        lab.send(server, UmadHead { timeout_ms: 0, retries: 0, ..to_lid(served, LIDS[0]) }, &long);
        let got = lab.got(port);
        assert_eq!((got.len(), got[0].head.status, got[0].bytes.len()), (1, 0, length));
        assert_eq!(got[0].bytes[SaMad::DATA_AT..], long[SaMad::DATA_AT..]);
        assert!(lab.got(server).is_empty());
    }
}

#[test]
fn who_carries_transfers_out_by_itself_gets_every_segment() {
    let mut lab = Lab::up();
    let server = lab.umad.open(1, host(1)).unwrap();
    let served = lab.umad.register(server, &gsi(Class::SUBN_ADM, 2, &[Method::GET_TABLE], 1)).unwrap();
    let port = lab.umad.open(2, host(0)).unwrap();
    let agent = lab.umad.register(port, &UmadAgent { user_rmpp: true, ..gsi(Class::SUBN_ADM, 2, &[], 1) }).unwrap();
    let ask = SaMad::request(Method::GET_TABLE, 5, Default::default(), &weft_wire::mad::sa::PathRecord::default());
    lab.send(port, to_lid(agent, LIDS[1]), ask.to_mad().as_bytes());
    let mut long = answer(&lab.got(server)[0].mad()).as_bytes().to_vec();
    long.resize(600, 0);
    long[26] = RmppHeader::ACTIVE;
    lab.send(server, UmadHead { timeout_ms: 0, ..to_lid(served, LIDS[0]) }, &long);
    let mut segments = lab.got(port);
    assert_eq!(segments.len(), 1, "the window before the first acknowledgement");
    let mut ack = segments.remove(0).mad();
    ack.header.set_method(Method::GET_TABLE);
    ack.data[..RmppHeader::LEN].copy_from_slice(RmppHeader::ack(1, 3).as_bytes());
    lab.send(port, UmadHead { timeout_ms: 0, ..to_lid(agent, LIDS[1]) }, ack.as_bytes());
    assert_eq!(lab.got(port).len(), 2, "the others, whoever asked for the first");
}

#[test]
fn any_bytes_are_survived() {
    let mut lab = Lab::up();
    let port = lab.umad.open(1, host(0)).unwrap();
    lab.umad.register(port, &gsi(Class::SUBN_ADM, 2, &[Method::GET], 1)).unwrap();
    let mut seed = 1u64;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..400)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        let head = UmadHead { agent: 0, retries: 1, ..UmadHead::read_from_bytes(&bytes[..64]).unwrap() };
        lab.send(port, head, &bytes[64..64 + bytes[0] as usize]);
        lab.umad.handle_packet(lab.now, &mut lab.fabric, port, &bytes);
        lab.got(port);
    }
    lab.umad.close(port);
    assert_eq!(lab.umad.poll_timeout(), None);
}
