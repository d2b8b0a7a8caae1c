//! The fabric as its owner drives it: datagrams in, datagrams and events out, time passed in.

use crate::cable::Cable;
use crate::event::{Changes, Event};
use crate::flight::{Flight, Replica, Timer, Timers};
use crate::limits::DELIVERIES_MAX;
use crate::node::Node;
use crate::packet::Packet;
use crate::pending_traps::Raised;
use crate::pma::Sampling;
use crate::port::Port;
use crate::rng::Rng;
use crate::state::PhysEvent;
use crate::tap::Tap;
use crate::topology::{LinkLayer, NodeKind, Topology};
use crate::{Delivery, EthernetPorts, MadOut, PortRef, SendError};
use std::collections::{BTreeMap, VecDeque};
use weft_verbs::Instant;

/// A running fabric.
///
/// Drive it like every state machine here: pass in inputs ([`Fabric::send`], the faults, [`Fabric::handle_timeout`] at
/// [`Fabric::poll_timeout`]), then fetch the outputs ([`Fabric::poll_delivery`], [`Fabric::poll_event`]) until there
/// are none left.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Vec<Port>,
    pub(crate) cables: Vec<Cable>,
    pub(crate) rng: Rng,
    /// Management datagrams lost on each cable, per million.
    pub(crate) drop_ppm: u32,
    pub(crate) timers: Timers,
    pub(crate) flight: Flight,
    pub(crate) raised: VecDeque<Raised>,
    pub(crate) trap_tid: u64,
    /// Samplings of performance management agents, by port.
    pub(crate) samplings: BTreeMap<u32, Sampling>,
    /// Change of a port's physical state that waits until the answer has left by that port.
    pub(crate) deferred: Option<(u32, PhysEvent)>,
    pub(crate) copies: Vec<Replica>,
    pub(crate) tap: Tap,
    /// Ports outside the fabric.
    pub(crate) ethernet: EthernetPorts,
    generation: u64,
    deliveries: VecDeque<Delivery>,
    changed: VecDeque<u32>,
}

impl Fabric {
    /// Creates a fabric with every node powered, every cable plugged, and every link trained: the state that a subnet
    /// manager finds. `seed` decides which packets cables damage.
    ///
    /// Cables that [`Topology::check`] would refuse are left out: those with an end that is no port or is taken.
    pub fn new(topology: &Topology, seed: u64) -> Fabric {
        let mut fabric = Fabric {
            now: Instant::default(),
            nodes: Vec::with_capacity(topology.nodes.len()),
            ports: Vec::with_capacity(topology.nodes.iter().map(|node| node.ports.len() + 1).sum()),
            cables: Vec::with_capacity(topology.cables.len()),
            rng: Rng::new(seed),
            drop_ppm: 0,
            timers: Timers::default(),
            flight: Flight::default(),
            raised: VecDeque::new(),
            trap_tid: 0,
            samplings: BTreeMap::new(),
            deferred: None,
            copies: Vec::new(),
            tap: Tap::default(),
            ethernet: EthernetPorts::new(topology),
            generation: 0,
            deliveries: VecDeque::new(),
            changed: VecDeque::new(),
        };
        for (place, spec) in (0..).zip(&topology.nodes) {
            let first = fabric.ports.len() as u32;
            let base = if spec.kind == NodeKind::Switch { first } else { first.wrapping_sub(1) };
            let node = Node::new(spec, base);
            let numbers = node.first_port()..=spec.port_count();
            fabric.ports.extend(numbers.map(|number| Port::new(spec, place, base, number)));
            fabric.nodes.push(node);
        }
        for spec in &topology.cables {
            fabric.install(spec);
        }
        fabric.ports.iter_mut().for_each(Port::link_ethernet);
        fabric.settle();
        fabric
    }

    /// Discards the events so far, since no host was there yet.
    fn settle(&mut self) {
        self.raised.clear();
        while self.poll_event().is_some() {}
    }

    /// Sends a datagram of a host. [`Fabric::poll_delivery`] returns the resulting deliveries; lost datagrams give no
    /// error.
    pub fn send(&mut self, now: Instant, from: PortRef, out: &MadOut) -> Result<(), SendError> {
        self.advance(now);
        let place = self.sender(from)?;
        let mut packet = Packet::outgoing(&self.ports[place as usize], out)?;
        if self.ports[place as usize].link_layer == LinkLayer::Ethernet {
            self.send_over_ethernet(from, out);
            return Ok(());
        }
        // Switches change the header of a directed route on the way.
        let sent = self.is_tapped().then(|| packet.clone());
        self.originate(place, &mut packet)?;
        sent.iter().for_each(|sent| self.tap_sent(from, sent));
        self.send_raised();
        Ok(())
    }

    /// Returns the port that a host sends through.
    fn sender(&self, from: PortRef) -> Result<u32, SendError> {
        let place = self.place(from).filter(|place| !self.ports[*place as usize].is_external());
        let place = place.ok_or(SendError::NoSuchPort(from))?;
        if self.nodes[from.node as usize].powered { Ok(place) } else { Err(SendError::PoweredOff(from)) }
    }

    /// Handles everything due up to `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, timer)) = self.timers.due(now) {
            // Consequences are timed from when this was due.
            self.advance(at);
            match timer {
                Timer::Train(cable) => self.on_trained(cable, at),
                Timer::Rejoin(cable) => self.on_rejoin(cable, at),
                Timer::Boot(node) => self.on_boot(node, at),
                Timer::Traps(node) => self.on_traps(node),
                Timer::Sample(agent) => self.on_sampling(agent),
                Timer::Land(slot) => {
                    if let Some((place, mut packet)) = self.flight.land(slot)
                        && self.nodes[self.ports[place as usize].node as usize].powered
                    {
                        self.arrive(place, &mut packet);
                    }
                }
                Timer::Agent(slot) => {
                    if let Some((place, mut packet)) = self.flight.land(slot)
                        && self.nodes[self.ports[place as usize].node as usize].powered
                    {
                        self.manage_now(place, &mut packet);
                    }
                }
            }
            self.send_raised();
        }
        self.advance(now);
    }

    /// Returns when [`Fabric::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns the next datagram for the agents of a host.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        if self.is_tapped() && self.link_layer(delivery.port) == Some(LinkLayer::InfiniBand) {
            self.tap_received(&delivery);
        }
        Some(delivery)
    }

    /// Returns the next change of a port. Changes of one port that were not fetched become one event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let place = self.changed.pop_front()?;
        let port = &mut self.ports[place as usize];
        Some(Event { port: port.place(), changes: std::mem::take(&mut port.changes) })
    }

    /// Returns a number that increases with every change that may affect a verdict. Verdicts of the current generation
    /// are valid.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Starts a new generation of verdicts.
    pub(crate) fn bump(&mut self) {
        self.generation += 1;
    }

    /// Reports changes of a port to its host.
    pub(crate) fn tell(&mut self, place: u32, changes: Changes) {
        let port = &mut self.ports[place as usize];
        if port.changes.is_empty() && !changes.is_empty() {
            self.changed.push_back(place);
        }
        port.changes |= changes;
    }

    /// Queues a datagram for the agents of a host.
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        if self.deliveries.len() < DELIVERIES_MAX {
            self.deliveries.push_back(delivery);
        } else if let Some(place) = self.place(delivery.port) {
            let counter = if delivery.dest_qp == 0 { crate::Counter::Vl15Dropped } else { crate::Counter::Qp1Dropped };
            self.ports[place as usize].counters.count(counter);
        }
    }

    /// Returns the index of a port, if it exists.
    pub(crate) fn place(&self, port: PortRef) -> Option<u32> {
        self.nodes.get(port.node as usize)?.place(port.port)
    }
}
