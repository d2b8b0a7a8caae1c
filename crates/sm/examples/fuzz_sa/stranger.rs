//! A stranger on a subnet: its MADs pass through a port with RMPP and reach the SA, and the answers go back the same
//! way. No input may cause a panic or growth beyond the bounds.

use weft_mad::limits::{INCOMING_TRANSFERS_MAX, OUTGOING_BYTES_MAX, REQUESTS_MAX};
use weft_mad::{AgentId, AgentSpec, Port, Send, Wanted};
use weft_sm::io::Peer;
use weft_sm::sa::Administrator;
use weft_sm::sa::limits::{MEMBERSHIPS_PER_PORT_MAX, QUESTIONS_MAX, SERVICES_PER_PORT_MAX, SUBSCRIPTIONS_PER_LID_MAX};
use weft_verbs::{Duration, Instant};
use weft_wire::mad::notice::Notice;
use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::sa::{ATTRIBUTES, SaMad};
use weft_wire::mad::{AttrId, Attribute, Class, GSI_QKEY, MAD_LEN, Mad, MadHeader, Method};
use zerocopy::FromBytes;

use super::fixture::Fixture;

/// Packets from the SA that the stranger remembers, to acknowledge them correctly or wrongly.
const REMEMBERED_MAX: usize = 64;
/// Methods of unsolicited MADs that go to the SA's agent.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::SET,
    Method::SEND,
    Method::GET_TABLE,
    Method::GET_TRACE_TABLE,
    Method::GET_MULTI,
    Method::DELETE,
];

/// Address of the sender or receiver of a MAD.
#[derive(Clone, Copy)]
struct End(Peer);

impl weft_mad::Peer for End {
    fn same_end(&self, other: &End) -> bool {
        (self.0.lid, self.0.qpn) == (other.0.lid, other.0.qpn)
    }
}

/// Stream of input bytes; zeros after the end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let len = self.0.len().min(N);
        taken[..len].copy_from_slice(&self.0[..len]);
        self.0 = &self.0[len..];
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Chooses one of `count` values.
    fn choose(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }
}

/// An SA, its port and the strangers on its subnet.
pub struct Stranger {
    fixture: Fixture,
    sa: Administrator,
    port: Port<End>,
    agent: AgentId,
    now: Instant,
    /// Packets from the SA, each with its recipient.
    remembered: Vec<(End, Mad)>,
    hosts: usize,
    /// Queries answered, and how many of them with an error.
    pub answered: u64,
    pub refused: u64,
}

impl Stranger {
    /// Creates strangers on a subnet of this kind.
    pub fn new(fixture: Fixture) -> Stranger {
        let mut port = Port::default();
        let methods = METHODS.iter().fold(0, |mask: u128, method| mask | 1 << method.0);
        let wants = Wanted { class: Class::SUBN_ADM.0, class_version: 2, oui: 0, methods };
        let agent = port.register(AgentSpec { wants: Some(wants), rmpp: true }).expect("the first agent");
        let (hosts, now) = (fixture.subnet.by_port_guid.len(), Instant(0));
        let mut sa = Administrator::default();
        sa.refresh(now, &fixture.world());
        Stranger { fixture, sa, port, agent, now, remembered: Vec::new(), hosts, answered: 0, refused: 0 }
    }

    /// Performs the actions that the bytes encode.
    pub fn play(&mut self, bytes: &[u8]) {
        let mut bytes = Bytes(bytes);
        while !bytes.0.is_empty() {
            match bytes.choose(8) {
                0..4 => self.ask(&mut bytes),
                4 => {
                    let from = self.someone(&mut bytes);
                    let mad = Mad::read_from_bytes(&bytes.take::<MAD_LEN>()).expect("256 bytes");
                    self.port.handle(self.now, from, &mad);
                }
                5 => self.acknowledge(&mut bytes),
                6 => {
                    let notice = Notice::read(&bytes.take::<80>()).expect("80 bytes");
                    self.sa.notice(self.now, &self.fixture.world(), &notice);
                }
                _ => self.wait(&mut bytes),
            }
            self.carry();
            self.check();
        }
    }

    /// Returns the address of a port, or one with a LID that no port has.
    fn someone(&self, bytes: &mut Bytes<'_>) -> End {
        let lid = bytes.choose(self.hosts + 2) as u16;
        End(Peer { lid, qpn: 1 + u32::from(bytes.byte() & 1), qkey: GSI_QKEY, ..Peer::default() })
    }

    /// Sends a MAD that gets as far into the SA as it can.
    fn ask(&mut self, bytes: &mut Bytes<'_>) {
        let from = self.someone(bytes);
        let method = METHODS[bytes.choose(METHODS.len())];
        let attr_id = match bytes.choose(ATTRIBUTES.len() + 1) {
            0 => AttrId::INFORM_INFO,
            at => ATTRIBUTES[at - 1].0,
        };
        let mut mad = SaMad::read_from_bytes(&[0; MAD_LEN]).expect("256 bytes");
        mad.header = MadHeader::new(Class::SUBN_ADM, 2, method, u64::from(bytes.byte()), attr_id);
        mad.set_sm_key(if bytes.byte() & 1 == 0 { 0 } else { self.fixture.settings.sa_key });
        mad.set_component_mask(weft_wire::mad::sa::ComponentMask(u64::from_be_bytes(bytes.take())));
        let shape = bytes.byte();
        if shape & 3 == 0 {
            mad.rmpp = RmppHeader::read_from_bytes(&bytes.take::<12>()).expect("12 bytes");
        } else if method == Method::GET_MULTI {
            mad.rmpp = RmppHeader::data(RmppHeader::ACTIVE | RmppHeader::FIRST | RmppHeader::LAST, 1, 0);
        }
        mad.data = bytes.take();
        self.name_ports(&mut mad, bytes, shape);
        self.port.handle(self.now, from, &mad.to_mad());
    }

    /// Puts GIDs and LIDs of ports where records have theirs, and groups where records have groups.
    fn name_ports(&self, mad: &mut SaMad, bytes: &mut Bytes<'_>, shape: u8) {
        let guids: Vec<u64> = self.fixture.subnet.by_port_guid.keys().copied().collect();
        let gid = |bytes: &mut Bytes<'_>| {
            let guid = guids[bytes.choose(guids.len())];
            (u128::from(self.fixture.settings.subnet_prefix) << 64 | u128::from(guid)).to_be_bytes()
        };
        if shape & 4 != 0 {
            // PathRecord's GIDs and ServiceRecord's, and the port of an MCMemberRecord.
            for at in [8, 24] {
                mad.data[at..at + 16].copy_from_slice(&gid(bytes));
            }
        }
        if shape & 8 != 0 {
            let group = u128::from(bytes.byte() & 15) | 0xff12_a01b << 96;
            mad.data[..16].copy_from_slice(&(group | 1 << 16).to_be_bytes());
            mad.data[16..32].copy_from_slice(&gid(bytes));
        }
        if shape & 16 != 0 {
            let lid = 1 + bytes.choose(self.hosts) as u16;
            mad.data[..2].copy_from_slice(&lid.to_be_bytes());
        }
    }

    /// Acknowledges a received packet, or pretends to.
    fn acknowledge(&mut self, bytes: &mut Bytes<'_>) {
        let Some(last) = self.remembered.len().checked_sub(1) else { return };
        let (from, mut mad) = self.remembered[last - bytes.choose(last + 1)];
        let method = mad.header.method();
        mad.header.set_method(Method(method.0 ^ Method::RESPONSE_BIT));
        let header = weft_mad::rmpp::header(&mad);
        let spoil = |bytes: &mut Bytes<'_>, value: u32| match bytes.choose(8) {
            0 => u32::from_be_bytes(bytes.take()),
            other => value.wrapping_add(other as u32 >> 1),
        };
        let (segment, window) = (spoil(bytes, header.segment()), spoil(bytes, header.segment() + 64));
        let ack = match bytes.choose(8) {
            0 => RmppHeader::read_from_bytes(&bytes.take::<12>()).expect("12 bytes"),
            _ => RmppHeader::ack(segment, window),
        };
        weft_mad::rmpp::set_header(&mut mad, ack);
        self.port.handle(self.now, from, &mad);
    }

    /// Lets time pass.
    fn wait(&mut self, bytes: &mut Bytes<'_>) {
        self.now = self.now + Duration::from_millis(u64::from(u16::from_be_bytes(bytes.take())));
        self.port.handle_timeout(self.now);
        self.sa.handle_timeout(self.now);
    }

    /// Delivers all pending MADs.
    fn carry(&mut self) {
        let world = self.fixture.world();
        loop {
            while let Some(came) = self.port.poll_delivery() {
                match came.timed_out {
                    true => self.sa.handle_gmp_timeout(self.now, &came.bytes),
                    false => self.sa.handle(self.now, &world, &came.peer.0, &came.bytes),
                }
            }
            self.sa.serve(self.now, &world, 4);
            while self.sa.poll_change().is_some() {}
            let mut any = false;
            while let Some(out) = self.sa.poll_gmp() {
                any = true;
                let (peer, bytes) = (End(out.to), out.bytes);
                let send = Send { agent: self.agent, peer, bytes, timeout: out.timeout, retries: out.retries };
                let _ = self.port.send(self.now, send);
            }
            while let Some(sent) = self.port.poll_transmit() {
                if self.remembered.len() >= REMEMBERED_MAX {
                    self.remembered.remove(0);
                }
                self.remembered.push(sent);
            }
            if !any && self.sa.waiting() == 0 {
                return;
            }
        }
    }

    /// Checks the bounds that must hold for every input.
    fn check(&self) {
        let ports = self.hosts;
        assert!(self.sa.waiting() <= QUESTIONS_MAX);
        assert!(self.sa.groups().map(|group| group.members.len()).sum::<usize>() <= ports * MEMBERSHIPS_PER_PORT_MAX);
        assert!(self.sa.service_count() <= ports * SERVICES_PER_PORT_MAX);
        assert!(self.sa.subscription_count() <= (ports + 2) * SUBSCRIPTIONS_PER_LID_MAX);
        assert!(self.port.waiting() <= REQUESTS_MAX + INCOMING_TRANSFERS_MAX);
        assert!(self.port.outgoing_bytes() <= OUTGOING_BYTES_MAX);
    }

    /// Saves the SA's database, and restores it in a new SA.
    pub fn restart(&mut self) {
        let world = self.fixture.world();
        let text = self.sa.dump(self.now, &world);
        let mut other = Administrator::default();
        let errors = other.restore(self.now, &world, &text);
        assert!(errors.is_empty(), "{errors:?} in\n{text}");
        let (groups, services) = (self.sa.groups().count(), self.sa.service_count());
        assert_eq!((other.groups().count(), other.service_count()), (groups, services), "{text}");
        let before = std::mem::replace(&mut self.sa, other).counters();
        self.answered += before.answered;
        self.refused += before.refused;
    }
}
