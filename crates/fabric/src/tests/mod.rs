//! The fabric as its users drive it: a small one, read and configured by SMPs as a subnet manager does.

mod agents;
mod cables;
mod guards;
mod hops;
mod hostile;
mod multicast;
mod partitions;
mod perf;
mod refusals;
mod routes;
mod tap;
mod traps;

use crate::topology::{Cable, End, Node, NodeKind, Port, Speed, Topology, Width};
use crate::{Delivery, Fabric, MadAddress, MadOut, PathQuery, PortRef, Refusal, Verdict};
use weft_verbs::{Duration, Instant};
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::perf::CLASS_VERSION;
use weft_wire::mad::subn::{LinearForwardingTable, PKeyTable, PhysState, PortInfo, PortState, Smp, SwitchInfo};
use weft_wire::mad::{AttrId, Attribute, Class, Mad, MadHeader, Method, Status};

/// Indexes of the nodes: two switches, joined at their ports 3, each with two hosts at ports 1 and 2.
const S0: u32 = 0;
const S1: u32 = 1;
const H0: u32 = 2;
const H1: u32 = 3;
const H2: u32 = 4;
const H3: u32 = 5;
/// LIDs that [`Lab::up`] assigns, by node index.
const LIDS: [u16; 6] = [1, 2, 4, 5, 6, 7];
/// Directed route from the first host to each node, by node index.
const WAYS: [&[u8]; 6] = [&[1], &[1, 3], &[], &[1, 2], &[1, 3, 1], &[1, 3, 2]];

fn node(kind: NodeKind, name: &str, guid: u64, ports: u8) -> Node {
    let port = |number| {
        let guid = if kind == NodeKind::Switch { guid } else { guid + u64::from(number) };
        Port::infiniband(guid, Width::X4, Speed::Ndr)
    };
    Node {
        kind,
        name: name.to_owned(),
        host: String::new(),
        description: name.to_owned(),
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id: 7,
        adapter: String::new(),
        enhanced_port0: false,
        lmc_max: 2,
        ports: (1..=ports).map(port).collect(),
    }
}

fn small() -> Topology {
    let mut nodes = vec![node(NodeKind::Switch, "s0", 0x100, 4), node(NodeKind::Switch, "s1", 0x200, 4)];
    nodes.extend((0..4).map(|place| node(NodeKind::Ca, &format!("h{place}"), 0x1000 * (place + 1), 2)));
    let end = |node, port| End { node, port };
    let cables = vec![
        Cable::new(end(S0, 3), end(S1, 3)),
        Cable::new(end(H0, 1), end(S0, 1)),
        Cable::new(end(H1, 1), end(S0, 2)),
        Cable::new(end(H2, 1), end(S1, 1)),
        Cable::new(end(H3, 1), end(S1, 2)),
    ];
    Topology { title: "small".to_owned(), nodes, cables }
}

struct Lab {
    fabric: Fabric,
    now: Instant,
    tid: u64,
}

impl Lab {
    /// Creates the small fabric in its power-on state.
    fn new() -> Lab {
        let topology = small();
        topology.check().expect("a fabric that can be");
        Lab { fabric: Fabric::new(&topology, 7), now: Instant(0), tid: 0 }
    }

    /// Creates the small fabric as configured by a manager at the first host.
    fn up() -> Lab {
        let mut lab = Lab::new();
        for place in [H0, S0, S1, H1, H2, H3] {
            lab.set_port(place, 0, |info| {
                info.lid = LIDS[place as usize];
                info.master_sm_lid = LIDS[H0 as usize];
                info.neighbor_mtu = 5;
                info.subnet_timeout = 1;
            });
        }
        for (switch, ports) in [(S0, [0, 3, 1, 2, 3, 3]), (S1, [3, 0, 3, 3, 1, 2])] {
            let mut table = LinearForwardingTable { ports: weft_wire::mad::Block([0xff; 64]) };
            LIDS.iter().zip(ports).for_each(|(lid, port)| table.ports[usize::from(*lid)] = port);
            lab.set(switch, AttrId::LINEAR_FORWARDING_TABLE, 0, &table);
            let info: SwitchInfo = lab.get(switch, AttrId::SWITCH_INFO, 0);
            lab.set(
                switch,
                AttrId::SWITCH_INFO,
                0,
                &SwitchInfo { linear_fdb_top: 63, port_state_change: true, ..info },
            );
        }
        lab.activate();
        lab
    }

    /// Brings every link to Active.
    fn activate(&mut self) {
        for state in [PortState::ARMED, PortState::ACTIVE] {
            for (place, ports) in [(S0, 1..=3), (S1, 1..=3), (H0, 1..=1), (H1, 1..=1), (H2, 1..=1), (H3, 1..=1)] {
                for number in ports {
                    if self.info(place, number).port_state != state && self.info(place, number).port_state.0 >= 2 {
                        self.set_port(place, number, |info| {
                            info.port_state = state;
                            info.neighbor_mtu = 5;
                        });
                    }
                }
            }
        }
        while self.fabric.poll_event().is_some() {}
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.fabric.handle_timeout(self.now);
    }

    /// Sends a directed SMP from the first host; returns the answer.
    fn smp(&mut self, place: u32, mut smp: Smp) -> Option<Smp> {
        self.tid += 1;
        smp.header.set_tid(self.tid);
        let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
        self.fabric.send(self.now, PortRef::new(H0, 1), &out).expect("a way from the first host");
        let mut back = None;
        while let Some(delivery) = self.fabric.poll_delivery() {
            if delivery.mad.header.tid() == self.tid {
                assert_eq!(delivery.port, PortRef::new(H0, 1), "from node {place}");
                back = Some(Smp::from_mad(delivery.mad));
            }
        }
        back
    }

    fn ask(&mut self, place: u32, method: Method, attr: AttrId, modifier: u32, data: &[u8; 64]) -> Option<Smp> {
        self.ask_as(0, place, method, attr, modifier, data)
    }

    fn ask_as(
        &mut self,
        mkey: u64,
        place: u32,
        method: Method,
        attr: AttrId,
        modifier: u32,
        data: &[u8; 64],
    ) -> Option<Smp> {
        let mut smp = Smp::directed(method, 0, attr, modifier, mkey, WAYS[place as usize]).expect("a short way");
        smp.data = *data;
        self.smp(place, smp)
    }

    fn get<A: Attribute>(&mut self, place: u32, attr: AttrId, modifier: u32) -> A {
        let smp = self.ask(place, Method::GET, attr, modifier, &[0; 64]).expect("an answer");
        assert_eq!(smp.status(), Status::SUCCESS, "Get({attr:?}) at {place}");
        smp.attribute().expect("64 bytes")
    }

    fn set<A: Attribute>(&mut self, place: u32, attr: AttrId, modifier: u32, attribute: &A) -> Smp {
        let mut data = [0; 64];
        attribute.write(&mut data);
        let smp = self.ask(place, Method::SET, attr, modifier, &data).expect("an answer");
        assert_eq!(smp.status(), Status::SUCCESS, "Set({attr:?}) {modifier:#x} at {place}");
        smp
    }

    /// Changes PortInfo as managers do: Get, modify, Set.
    fn try_port(&mut self, place: u32, number: u8, change: impl FnOnce(&mut PortInfo)) -> Smp {
        let mut info: PortInfo = self.get(place, AttrId::PORT_INFO, number.into());
        info.port_state = PortState::NO_CHANGE;
        info.port_physical_state = PhysState::NO_CHANGE;
        if info.lid == 0 {
            (info.lid, info.master_sm_lid) = (LIDS[place as usize], LIDS[H0 as usize]);
        }
        change(&mut info);
        self.ask(place, Method::SET, AttrId::PORT_INFO, number.into(), &info.encode()).expect("an answer")
    }

    fn set_port(&mut self, place: u32, number: u8, change: impl FnOnce(&mut PortInfo)) {
        let smp = self.try_port(place, number, change);
        assert_eq!(smp.status(), Status::SUCCESS, "Set(PortInfo) of port {number} at {place}");
    }

    fn set_pkeys(&mut self, place: u32, number: u8, keys: &[u16]) {
        let mut table = PKeyTable::default();
        table.pkeys[..keys.len()].copy_from_slice(keys);
        self.set(place, AttrId::PKEY_TABLE, u32::from(number) << 16, &table);
    }

    fn info(&self, place: u32, number: u8) -> PortInfo {
        self.fabric.port_info(PortRef::new(place, number)).expect("a port")
    }

    fn states(&self, place: u32, number: u8) -> (PortState, PhysState) {
        let info = self.info(place, number);
        (info.port_state, info.port_physical_state)
    }

    /// Sends a datagram by LID from port 1 of a host; returns the resulting deliveries.
    fn lid(&mut self, from: u32, to: MadAddress, mad: Mad) -> Vec<Delivery> {
        self.fabric.send(self.now, PortRef::new(from, 1), &MadOut { to, mad }).expect("a host's port");
        std::iter::from_fn(|| self.fabric.poll_delivery()).collect()
    }

    /// Sends a host's request to the performance management agent of a LID; returns the answer.
    fn perf<A: Attribute>(&mut self, from: u32, lid: u16, method: Method, attr: AttrId, asked: &A) -> Option<Mad> {
        self.tid += 1;
        let header = MadHeader::new(Class::PERF, CLASS_VERSION, method, self.tid, attr);
        let mut mad = Mad { header, data: [0; 232] };
        asked.write(&mut mad.data[40..]);
        self.lid(from, MadAddress::gsi(lid, 0xffff), mad).pop().map(|delivery| delivery.mad)
    }

    fn verdict(&self, from: u32, to: u32) -> Result<Verdict, Refusal> {
        let query = PathQuery { dlid: LIDS[to as usize], sl: 0, pkey: 0xffff, payload: 0 };
        self.fabric.verdict(PortRef::new(from, 1), &query)
    }
}
