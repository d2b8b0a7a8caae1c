//! Strangers: no owner may notice anything that they send, from their own address or a forged one. They do not request
//! connections that a listener would accept (anyone may do that), and they do not see the traffic of the hosts whose
//! addresses they forge: they guess at ids.

use std::net::IpAddr;

use weft_wire::cm::{CLASS_VERSION, CmMessage, Req, ServiceId};
use weft_wire::mad::{AttrId, Class, DATA_LEN, Mad, MadHeader, Method};
use weft_wire::packet::Packet;
use zerocopy::{FromBytes, IntoBytes};

use super::plan::{SERVICE_BASE, SERVICES};
use super::world::{CmWorld, datagram};
use crate::rng::Rng;
use crate::world::address;

/// A stranger.
#[derive(Clone, Debug)]
pub struct Stranger {
    rng: Rng,
    /// Sends in one of this many steps.
    rate: u64,
    /// Datagrams sent.
    pub shouted: u64,
}

impl Stranger {
    /// Creates a stranger with a seed of its own.
    pub fn new(seed: u64, rate: u64) -> Stranger {
        Stranger { rng: Rng::new(seed ^ 0x057a_4639), rate, shouted: 0 }
    }

    /// Sends something, by chance.
    pub fn shout(&mut self, world: &mut CmWorld) {
        if !self.rng.chance(1, self.rate) {
            return;
        }
        let victim = self.rng.below(world.hosts.len() as u64) as usize;
        let own = match world.hosts[victim].ip {
            IpAddr::V4(_) => address(false, 200),
            IpAddr::V6(_) => address(true, 200),
        };
        let (mad, from) = match self.rng.below(6) {
            0 => (self.garbage(), self.anybody(world, victim, own)),
            1 | 2 => match self.true_message(world) {
                Some(mad) => (mad, own),
                None => return,
            },
            3 => match self.true_message(world) {
                Some(mad) => (self.damage(mad), own),
                None => return,
            },
            4 => (self.guess(), self.anybody(world, victim, own)),
            _ => (self.unheard(), own),
        };
        self.shouted += 1;
        let datagram = datagram(from, world.hosts[victim].ip, self.rng.bits() as u32, &mad);
        world.arrive_from_stranger(&datagram);
    }

    /// Returns the stranger's own address or that of the victim's peer.
    fn anybody(&mut self, world: &CmWorld, victim: usize, own: IpAddr) -> IpAddr {
        if self.rng.chance(1, 2) { own } else { world.hosts[1 - victim].ip }
    }

    fn bytes(&mut self) -> [u8; DATA_LEN] {
        std::array::from_fn(|_| self.rng.bits() as u8)
    }

    /// Returns bytes that are no CM message.
    fn garbage(&mut self) -> Mad {
        let data = self.bytes();
        let (class, version, method, attr) = match self.rng.below(5) {
            0 => (Class(self.rng.bits() as u8 | 0x40), CLASS_VERSION, Method::SEND, AttrId::CM_REQ),
            1 => (Class::CM, 1, Method::SEND, AttrId::CM_REQ),
            2 => (Class::CM, CLASS_VERSION, Method::GET, AttrId::CM_REQ),
            3 => (Class::CM, CLASS_VERSION, Method::SEND, AttrId(self.rng.range(0x1b, 0xffff) as u16)),
            _ => (Class::CM, CLASS_VERSION, Method::GET, AttrId::CLASS_PORT_INFO),
        };
        Mad { header: MadHeader::new(class, version, method, self.rng.bits(), attr), data }
    }

    /// Returns a message that two hosts exchanged, except requests: anyone may send those.
    fn true_message(&mut self, world: &CmWorld) -> Option<Mad> {
        let count = world.remembered.len() as u64;
        let heard = world.remembered.get(self.rng.below(count) as usize)?;
        let mad = Mad::parse(Packet::parse(&heard.bytes).ok()?.payload)?;
        (!matches!(mad.header.attr_id(), AttrId::CM_REQ | AttrId::CM_SIDR_REQ)).then_some(mad)
    }

    /// Flips some bits of a message, but never turns it into a request.
    fn damage(&mut self, mad: Mad) -> Mad {
        let mut bytes = [0; 256];
        bytes.copy_from_slice(mad.as_bytes());
        for _ in 0..self.rng.range(1, 8) {
            let at = 24 + self.rng.below(40) as usize;
            bytes[at] ^= 1 << self.rng.below(8);
        }
        Mad::read_from_bytes(&bytes).expect("256 bytes")
    }

    /// Returns a message with invented ids.
    fn guess(&mut self) -> Mad {
        let kinds: Vec<AttrId> = CmMessage::ALL.iter().map(|(id, _)| *id).collect();
        let asks = |id: &AttrId| matches!(*id, AttrId::CM_REQ | AttrId::CM_SIDR_REQ);
        let kinds: Vec<AttrId> = kinds.into_iter().filter(|id| !asks(id)).collect();
        let mut data = self.bytes();
        if self.rng.chance(1, 3) {
            data[..8].fill(0);
        }
        let message = CmMessage::parse(self.rng.pick(&kinds), &data).expect("a kind");
        message.to_mad(self.rng.bits())
    }

    /// Returns a request for a service ID without a listener, random otherwise.
    fn unheard(&mut self) -> Mad {
        let mut req = Req::parse(&self.bytes());
        req.service_id = ServiceId(SERVICE_BASE + SERVICES + 5 + self.rng.below(1000));
        CmMessage::from(req).to_mad(self.rng.bits())
    }
}
