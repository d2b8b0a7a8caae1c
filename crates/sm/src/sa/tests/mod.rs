//! Whole requests and responses, compared with OpenSM's on the same fabric.

mod fixture;
mod golden;
mod hostile;
mod life;
mod load;
mod paths;

use std::collections::BTreeMap;

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::topology::net::{NoFiles, read};
use weft_verbs::Instant;
use weft_wire::mad::sa::{ComponentMask, SaMad, records};
use weft_wire::mad::{Attribute, GSI_QKEY, Method, Status};
use zerocopy::{FromBytes, IntoBytes};

use super::Administrator;
use crate as sm;
use crate::io::Peer;
pub(super) use fixture::Fixture;

/// The LIDs that OpenSM assigned in the golden fabric, in PortGUID order: four switches, then hosts.
const LIDS: [u16; 10] = [2, 3, 4, 5, 1, 6, 7, 8, 9, 10];

/// The fabric of the golden responses.
pub(super) fn golden_fabric() -> Fixture {
    let topology = read("golden", include_str!("golden/fabric.net"), &mut NoFiles).expect("a network");
    let mut guids: Vec<u64> = Vec::new();
    for node in &topology.nodes {
        match node.kind {
            weft_fabric::topology::NodeKind::Switch => guids.push(node.guid),
            _ => guids.extend(node.ports.iter().map(|port| port.guid)),
        }
    }
    guids.sort_unstable();
    let lids: BTreeMap<u64, u16> = guids.into_iter().zip(LIDS).collect();
    let mut fixture = Fixture::new(&topology, |guid| lids[&guid]);
    // Partitions 0x7fff and 2 everywhere; 3 on the first hosts, with full membership on the first.
    for port in fixture.subnet.nodes.iter_mut().flatten().flat_map(|node| &mut node.ports) {
        port.pkeys = match port.guid {
            0x0002_c903_0a00_0001 => vec![0xffff, 0x8002, 0x8003],
            0x0002_c903_0a00_0011 => vec![0xffff, 0x8002, 0x0003],
            0 if port.neighbor.is_none() => Vec::new(),
            _ => vec![0xffff, 0x8002],
        };
    }
    fixture.partitions = BTreeMap::from([(0x7fff, 0), (2, 0), (3, 0)]);
    fixture
}

/// A two-level fat tree of switches with this radix; LIDs in GUID order.
pub(super) fn fat_tree(radix: u8) -> Fixture {
    let shape = Shape::FatTree { radix, levels: 2, hosts: None, hosts_per_leaf: None };
    Fixture::numbered(&Plan::new(shape).generate().expect("a topology"))
}

/// A response.
pub(super) struct Said {
    pub status: Status,
    pub method: Method,
    pub mad: SaMad,
    data: Vec<u8>,
}

impl Said {
    pub fn records<A: Attribute>(&self) -> Vec<A> {
        records(&self.data, self.mad.attribute_offset()).collect()
    }

    pub fn one<A: Attribute>(&self) -> A {
        assert_eq!(self.status, Status::SUCCESS);
        A::read(&self.data).expect("a record")
    }
}

/// Sends a request from the port with this LID.
pub(super) fn ask<A: Attribute>(
    sa: &mut Administrator,
    fixture: &Fixture,
    (lid, key): (u16, u64),
    method: Method,
    mask: ComponentMask,
    record: &A,
) -> Option<Said> {
    let mut mad = SaMad::request(method, 0x77, mask, record);
    mad.set_sm_key(key);
    if method == Method::GET_MULTI {
        mad.rmpp = weft_wire::mad::rmpp::RmppHeader::data(7, 1, 0);
    }
    let from = Peer { lid, qpn: 1, qkey: GSI_QKEY, ..Peer::default() };
    let (now, world) = (Instant(0), fixture.world());
    sa.handle(now, &world, &from, mad.as_bytes());
    sa.serve(now, &world, usize::MAX);
    // Leave reports in the output for tests that check them.
    let answers = |out: &crate::io::GmpOut| out.to == from && out.timeout.is_zero();
    let place = sa.out.iter().position(answers)?;
    let out = sa.out.remove(place)?;
    let mut whole = out.bytes.clone();
    whole.resize(whole.len().max(256), 0);
    let (mad, _) = SaMad::read_from_prefix(&whole).expect("a datagram");
    assert_eq!((mad.header.tid(), mad.sm_key()), (0x77, 0));
    let data = out.bytes.get(SaMad::DATA_AT..).expect("headers").to_vec();
    Some(Said { status: mad.header.status(), method: mad.header.method(), mad, data })
}

/// Requests a table, without the SM_Key.
pub(super) fn table<A: Attribute>(
    sa: &mut Administrator,
    fixture: &Fixture,
    mask: ComponentMask,
    record: &A,
) -> Vec<A> {
    let said = ask(sa, fixture, (1, 0), Method::GET_TABLE, mask, record).expect("an answer");
    assert_eq!((said.status, said.method), (Status::SUCCESS, Method::GET_TABLE_RESP));
    said.records()
}
