//! Verdicts: whether packets between two ports arrive, and the properties of their path, found without sending one.
//! Connected traffic relies on them, and reports its packets to the path's ports with [`Fabric::account`].

use crate::head::Head;
use crate::limits::{COPIES_MAX, HOPS_MAX};
use crate::node::lane_of;
use crate::port::NONE;
use crate::walk::{Next, Refusal, Why};
use crate::{Fabric, PortRef};
use weft_wire::lrh::{is_multicast, is_unicast};
use weft_wire::mad::{Rate, Speed};

/// Query for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathQuery {
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// P_Key that the packets carry.
    pub pkey: u16,
    /// Payload bytes of the longest packet; 0 asks for the largest that the path permits.
    pub payload: u32,
}

/// A path on which packets arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The port at which they arrive.
    pub to: PortRef,
    /// The ports on the path.
    pub path: Path,
    /// The smallest MTU on the path, 1 (256 bytes) to 5 (4096).
    pub mtu: u8,
    /// The slowest rate on the path.
    pub rate: Rate,
    /// Total latency of the cables.
    pub latency_ns: u64,
    /// Packets that the cables damage, per million.
    pub loss_ppm: u32,
    /// The [`Fabric::generation`] in which it is valid.
    pub generation: u64,
}

/// The ports that a packet passes, output and input in turn. Empty if it does not leave its port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    places: Box<[u32]>,
    sl: u8,
}

impl Path {
    /// Returns the number of cables on the path.
    pub fn hops(&self) -> usize {
        self.places.len() / 2
    }
}

/// Destinations of packets to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The ports at which a copy arrives, each once, without the sender's.
    pub to: Vec<PortRef>,
    /// The ports on the paths of all copies.
    pub path: Path,
}

/// Fastest rate of path records, for a path within one port.
const RATE_WITHIN: Rate = Rate::GBPS_1600;

impl Fabric {
    /// Returns whether and how packets from a port arrive by `query`; or the port that drops them, and the reason.
    pub fn verdict(&self, from: PortRef, query: &PathQuery) -> Result<Verdict, Refusal> {
        let refuse = |at: u32, why| Refusal { at: self.ports[at as usize].place(), why };
        let (start, head) = self.asked(from, query)?;
        if !is_unicast(query.dlid) {
            return Err(refuse(start, Why::NoRoute));
        }
        let mut walk = Walk { places: Vec::with_capacity(16), mtu: 5, rate: RATE_WITHIN, latency_ns: 0, loss_ppm: 0 };
        let mut next = self.start(start, &head);
        for _ in 0..=HOPS_MAX {
            match next.map_err(|(at, why)| refuse(at, why))? {
                Next::Here(at) => {
                    return Ok(walk.verdict(self.ports[at as usize].place(), query.sl, self.generation()));
                }
                Next::Out(out, _) => {
                    let at = self.ports[out as usize].peer;
                    if at == NONE {
                        return Err(refuse(out, Why::NoLink));
                    }
                    self.note(&mut walk, out, at);
                    next = self.land(at, &head);
                }
            }
        }
        Err(refuse(start, Why::Loop))
    }

    /// Returns where packets from a port to a group arrive; or why they do not leave it. Losses on the path are no
    /// error.
    pub fn group_verdict(&self, from: PortRef, query: &PathQuery) -> Result<Spread, Refusal> {
        let refuse = |(at, why): (u32, Why)| Refusal { at: self.ports[at as usize].place(), why };
        let (start, head) = self.asked(from, query)?;
        let port = &self.ports[start as usize];
        if !is_multicast(query.dlid) || port.kind == crate::topology::NodeKind::Switch {
            return Err(refuse((start, Why::NoRoute)));
        }
        let lane = lane_of(port.lanes_of_service_levels(), head.sl);
        self.check_lane(start, start, lane).and_then(|()| self.leave(start, &head)).map_err(refuse)?;
        let (mut places, mut to, mut outs) = (vec![start, port.peer], Vec::new(), Vec::new());
        // Ports that copies arrived at; from the last ones on, not yet examined.
        let mut work = vec![port.peer];
        while let Some(at) = work.pop() {
            match self.enter(at, &head).and_then(|()| self.branch(at, &head, &mut outs)) {
                Ok(true) => to.push(self.ports[at as usize].place()),
                Ok(false) => {}
                Err(_) => continue,
            }
            for out in outs.iter().filter(|out| self.may_copy(at, **out, &head).is_ok()) {
                let peer = self.ports[*out as usize].peer;
                if peer != NONE && places.len() / 2 < COPIES_MAX {
                    places.extend([*out, peer]);
                    work.push(peer);
                }
            }
        }
        to.sort_unstable();
        to.dedup();
        Ok(Spread { to, path: Path { places: places.into_boxed_slice(), sl: query.sl } })
    }

    /// Returns the port of a query, and the fields of its packets that switches examine.
    fn asked(&self, from: PortRef, query: &PathQuery) -> Result<(u32, Head), Refusal> {
        let start = self.place(from).ok_or(Refusal { at: from, why: Why::NoLink })?;
        let port = &self.ports[start as usize];
        if !port.pkeys().contains(&query.pkey) {
            return Err(Refusal { at: from, why: Why::Partition });
        }
        let head = Head {
            slid: port.info.lid,
            dlid: query.dlid,
            sl: query.sl & 0xf,
            management: false,
            pkey: query.pkey,
            src_qp: 2,
            dest_qp: 2,
            payload: query.payload,
            words: 0,
        };
        Ok((start, head))
    }

    /// Adds a cable to the path.
    fn note(&self, walk: &mut Walk, out: u32, at: u32) {
        let port = &self.ports[out as usize];
        let cable = &self.cables[port.cable as usize];
        walk.places.extend([out, at]);
        walk.mtu = walk.mtu.min(port.info.neighbor_mtu);
        walk.latency_ns += u64::from(cable.latency_ns);
        walk.loss_ppm = walk.loss_ppm.saturating_add(cable.errors_ppm).min(1_000_000);
        let rate = Rate::of_link(port.info.link_width_active, speed(port.active_speed)).unwrap_or_default();
        if rate.tenths() < walk.rate.tenths() {
            walk.rate = rate;
        }
    }

    /// Counts packets that passed along a path at every port on it. `words` are of four bytes, of all packets together.
    pub fn account(&mut self, path: &Path, packets: u64, words: u64) {
        self.account_all(path, packets, words, false);
    }

    /// Counts packets that passed to a group.
    pub fn account_group(&mut self, path: &Path, packets: u64, words: u64) {
        self.account_all(path, packets, words, true);
    }

    fn account_all(&mut self, path: &Path, packets: u64, words: u64, multicast: bool) {
        for pair in path.places.as_chunks::<2>().0 {
            for (place, sends) in pair.iter().zip([true, false]) {
                let Some(port) = self.ports.get_mut(*place as usize) else { continue };
                match sends {
                    true => port.counters.sent(packets, words, path.sl, multicast),
                    false => port.counters.received(packets, words, path.sl, multicast),
                }
            }
        }
    }
}

struct Walk {
    places: Vec<u32>,
    mtu: u8,
    rate: Rate,
    latency_ns: u64,
    loss_ppm: u32,
}

impl Walk {
    fn verdict(self, to: PortRef, sl: u8, generation: u64) -> Verdict {
        Verdict {
            to,
            path: Path { places: self.places.into_boxed_slice(), sl },
            mtu: self.mtu,
            rate: self.rate,
            latency_ns: self.latency_ns,
            loss_ppm: self.loss_ppm,
            generation,
        }
    }
}

/// Converts a speed to the wire's type.
fn speed(speed: crate::topology::Speed) -> Speed {
    Speed::ALL[speed as usize]
}
