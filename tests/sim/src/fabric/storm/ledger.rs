//! An independent model of what each packet must do and each port must count, from the visible ports and tables. It
//! predicts each packet's route before the packet leaves, and compares the sums of all routes with the ports' counters.

use std::collections::BTreeMap;

use weft_fabric::topology::NodeKind;
use weft_fabric::{Counter, Fabric, PacketInfo, PortRef, Refusal, Why, pkeys_match};
use weft_wire::mad::subn::PortState;

/// Links that a packet crosses before the model declares a loop.
const LINKS_MAX: usize = 65;

/// A packet's route: the links that it crosses, each from a port to a port, and how it ends.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub links: Vec<[PortRef; 2]>,
    pub end: Result<PortRef, (PortRef, Why)>,
}

/// Returns the route of a packet that a host sends to a LID, given the current ports and tables.
pub(super) fn route(fabric: &Fabric, from: PortRef, dlid: u16, pkey: u16) -> Route {
    let mut links = Vec::new();
    let end = follow(fabric, from, dlid, pkey, &mut links);
    Route { links, end }
}

fn follow(
    fabric: &Fabric,
    from: PortRef,
    dlid: u16,
    pkey: u16,
    links: &mut Vec<[PortRef; 2]>,
) -> Result<PortRef, (PortRef, Why)> {
    if !fabric.pkeys(from).contains(&pkey) {
        return Err((from, Why::Dropped));
    }
    let state = |port: PortRef, links: &[[PortRef; 2]]| {
        let state = fabric.port_info(port).map_or(PortState::DOWN, |info| info.port_state);
        // Data packets make an armed port active.
        let woken = state == PortState::ARMED && links.iter().any(|link| link[1] == port);
        if woken { PortState::ACTIVE } else { state }
    };
    let mut out = from;
    loop {
        let there = fabric.peer(out).filter(|_| fabric.speed(out).is_some());
        let at = there.ok_or((out, Why::NoLink))?;
        if state(out, links) != PortState::ACTIVE {
            return Err((out, Why::NotActive));
        }
        let entered = state(at, links);
        links.push([out, at]);
        if links.len() == LINKS_MAX {
            return Err((from, Why::Loop));
        }
        if entered != PortState::ACTIVE && entered != PortState::ARMED {
            return Err((at, Why::NotActive));
        }
        if fabric.kind(at.node) != Some(NodeKind::Switch) {
            let here = fabric.port_info(at).is_some_and(|info| info.lid == dlid);
            return match fabric.pkeys(at).iter().any(|own| pkeys_match(*own, pkey)) {
                _ if !here => Err((at, Why::NotHere)),
                true => Ok(at),
                false => Err((at, Why::Partition)),
            };
        }
        let number = fabric.forwarding(at.node, dlid).filter(|number| *number <= fabric.port_count(at.node));
        let number = number.ok_or((at, Why::NoRoute))?;
        assert_ne!(number, 0, "LID {dlid} is a host's");
        if number == at.port {
            return Err((at, Why::Loop));
        }
        out = PortRef::new(at.node, number);
    }
}

/// Expected counters of the ports since power-on.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Words sent and received, by port and service level.
    words: BTreeMap<(PortRef, u8), [u64; 2]>,
    /// Packets sent, received, and lost on their cable, of ports that have lost power since.
    past: BTreeMap<PortRef, [u64; 3]>,
}

/// Returns the packets that a port sent, received, and that were lost on the cable to it.
fn counted(fabric: &Fabric, port: PortRef) -> [u64; 3] {
    let traffic = fabric.traffic(port);
    let lost = fabric.counter(port, Counter::SymbolErrors) + fabric.counter(port, Counter::Vl15Dropped);
    [traffic.xmit_packets, traffic.rcv_packets, lost]
}

impl Ledger {
    /// Enters a packet with a predicted route: it ended there, or a cable on its route damaged it.
    pub fn enter(&mut self, fabric: &Fabric, route: &Route, info: &PacketInfo, ended: Result<PortRef, Refusal>) {
        let told = route.end.map_err(|(at, why)| Refusal { at, why });
        let (sl, words) = (info.sl, u64::from(info.words));
        let crossed = match ended {
            ended if ended == told => route.links.len(),
            Err(Refusal { at, why: Why::Damaged }) => {
                // A packet in a loop passes here several times.
                let out = fabric.peer(at).expect("the other end of the cable");
                let before = self.words.get(&(out, sl)).map_or(0, |words| words[0]);
                let times = (fabric.traffic_of_level(out, sl).0 - before) / words;
                let passes = route.links.iter().enumerate().filter(|(_, link)| **link == [out, at]);
                let last = passes.map(|(place, _)| place).nth((times as usize).wrapping_sub(1));
                let last = last.unwrap_or_else(|| panic!("damaged at {at}, which is not on {route:?}"));
                self.words.entry((out, sl)).or_default()[0] += words;
                last
            }
            other => panic!("{other:?}, by the tables: {route:?}"),
        };
        for [out, at] in &route.links[..crossed] {
            self.words.entry((*out, sl)).or_default()[0] += words;
            self.words.entry((*at, sl)).or_default()[1] += words;
        }
    }

    /// Saves the counters of a node that is about to lose power; its ports then restart at zero.
    pub fn forget(&mut self, fabric: &Fabric, node: u32) {
        for number in 1..=fabric.port_count(node) {
            let port = PortRef::new(node, number);
            let past = self.past.entry(port).or_default();
            past.iter_mut().zip(counted(fabric, port)).for_each(|(past, counted)| *past += counted);
        }
        self.words.retain(|(port, _), _| port.node != node);
    }

    /// Checks that every port counted the packets that passed it, and that each packet that left one end of a cable
    /// came to the other or was lost there. Returns the number of packets.
    pub fn check(&self, fabric: &Fabric) -> u64 {
        for ((port, sl), words) in &self.words {
            assert_eq!(fabric.traffic_of_level(*port, *sl), (words[0], words[1]), "{port}, service level {sl}");
        }
        let all = |port: PortRef| {
            let past = self.past.get(&port).copied().unwrap_or_default();
            let now = counted(fabric, port);
            std::array::from_fn::<u64, 3, _>(|at| past[at] + now[at])
        };
        let mut packets = 0;
        for [a, b] in fabric.cables().map(|cable| cable.ends) {
            let (of_a, of_b) = (all(a), all(b));
            assert_eq!(of_a[0], of_b[1] + of_b[2], "sent by {a}, received and lost at {b}");
            assert_eq!(of_b[0], of_a[1] + of_a[2], "sent by {b}, received and lost at {a}");
            packets += of_a[0] + of_b[0];
        }
        packets
    }
}
