//! Subnet managers on a fabric in simulated time: each at a host's port, with datagrams carried as a system's MAD layer
//! carries them. Tests lose datagrams, cut cables and kill managers.

mod check;
mod driver;

pub use check::{Fault, check};
pub use driver::Driver;

use std::collections::BTreeMap;

use weft_daemon::ipoib::{Effect, Interfaces};
use weft_fabric::topology::Topology;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Changes, Delivery, Fabric, MadOut, PortRef};
use weft_sm::Sequential;
use weft_sm::manager::{Event, Manager, Setup};
use weft_verbs::{Duration, Instant};
use weft_wire::mad::AttrId;
use weft_wire::mad::subn::{CapabilityMask, SmState, Smp};

use crate::Rng;

/// Maximum number of datagrams at one instant, against endless loops.
const STEPS_MAX: u64 = 50_000_000;

/// A fabric and its managers.
pub struct World {
    /// The fabric.
    pub fabric: Fabric,
    /// The time.
    pub now: Instant,
    /// Managers by port.
    pub managers: BTreeMap<PortRef, Driver>,
    /// Events, each with the port of its manager.
    pub events: Vec<(PortRef, Event)>,
    /// Datagrams to and from managers that are lost, per million.
    pub loss_ppm: u64,
    /// Number of requests to hosts to register again.
    pub reregistered: u64,
    /// IPoIB interfaces of hosts.
    pub interfaces: Interfaces,
    /// Actions of the interfaces for their kernels, in order.
    pub effects: Vec<Effect>,
    /// Alters the datagrams that managers receive.
    pub twist: Option<fn(&mut Delivery)>,
    rng: Rng,
}

impl World {
    /// Creates a fabric of this shape, without a manager.
    pub fn new(shape: Shape, seed: u64) -> World {
        World::of(&Plan::new(shape).generate().expect("a topology"), seed)
    }

    /// Creates a fabric of this topology, without a manager.
    pub fn of(topology: &Topology, seed: u64) -> World {
        World {
            fabric: Fabric::new(topology, seed),
            now: Instant(0),
            managers: BTreeMap::new(),
            events: Vec::new(),
            loss_ppm: 0,
            reregistered: 0,
            interfaces: Interfaces::default(),
            effects: Vec::new(),
            twist: None,
            rng: Rng::new(seed),
        }
    }

    /// Returns the port of the host with this number.
    pub fn host(&self, number: usize) -> PortRef {
        let mut hosts = (0..self.fabric.node_count())
            .filter(|node| self.fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Ca));
        PortRef::new(hosts.nth(number).expect("so many hosts"), 1)
    }

    /// Returns the node index of the switch with this number.
    pub fn switch(&self, number: usize) -> u32 {
        let mut switches = (0..self.fabric.node_count())
            .filter(|node| self.fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Switch));
        switches.nth(number).expect("so many switches")
    }

    /// Starts a manager at a port; `change` edits its settings.
    pub fn start(&mut self, at: PortRef, change: impl FnOnce(&mut Setup)) {
        let mut setup = Setup::new(self.fabric.port_guid(at).expect("a port"));
        change(&mut setup);
        self.managers.insert(at, Driver::new(Manager::new(self.now, setup)));
        self.mark(at);
    }

    /// Kills a manager; it sends no notice.
    pub fn kill(&mut self, at: PortRef) -> Option<Manager> {
        let driver = self.managers.remove(&at)?;
        self.fabric.set_capabilities(self.now, at, CapabilityMask::SM, false);
        Some(driver.manager)
    }

    /// Returns the manager at a port.
    pub fn manager(&mut self, at: PortRef) -> &mut Manager {
        &mut self.managers.get_mut(&at).expect("a manager there").manager
    }

    /// Returns the states of all managers.
    pub fn states(&self) -> Vec<SmState> {
        self.managers.values().map(|driver| driver.manager.status().state).collect()
    }

    /// Returns the ports of the masters.
    pub fn masters(&self) -> Vec<PortRef> {
        let masters = self.managers.iter().filter(|(_, driver)| driver.manager.status().state == SmState::MASTER);
        masters.map(|(at, _)| *at).collect()
    }

    /// Returns the number of events that match.
    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| wanted(event)).count()
    }

    /// Returns the latest events, for failure messages.
    pub fn log(&self) -> String {
        let last = self.events.iter().skip(self.events.len().saturating_sub(40));
        last.map(|(at, event)| format!("\n{at}: {event}")).collect()
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.fabric.handle_timeout(self.now);
            for driver in self.managers.values_mut() {
                driver.handle_timeout(self.now);
            }
            self.interfaces.handle_timeout(self.now, &mut self.fabric);
            self.settle();
        }
        self.now = end;
    }

    /// Lets time pass until a condition holds, up to a limit; `false` if it never held.
    pub fn until(&mut self, limit: Duration, holds: impl Fn(&World) -> bool) -> bool {
        let end = self.now + limit;
        self.settle();
        while !holds(self) {
            let Some(next) = self.next().filter(|next| *next <= end) else { return false };
            self.pass(next.since(self.now));
        }
        true
    }

    fn next(&self) -> Option<Instant> {
        let managers = self.managers.values().filter_map(Driver::poll_timeout);
        managers.chain(self.fabric.poll_timeout()).chain(self.interfaces.poll_timeout()).min()
    }

    /// Delivers every datagram that is under way now.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("datagrams go in circles");
    }

    fn step(&mut self) -> bool {
        let mut moved = false;
        let places: Vec<PortRef> = self.managers.keys().copied().collect();
        for at in places {
            moved |= self.carry(at);
        }
        while let Some(mut delivery) = self.fabric.poll_delivery() {
            moved = true;
            if let Some(twist) = self.twist {
                twist(&mut delivery);
            }
            if self.lost() {
                continue;
            }
            if self.interfaces.handle_delivery(self.now, &mut self.fabric, &delivery) {
                continue;
            }
            match self.managers.get_mut(&delivery.port) {
                Some(driver) => driver.deliver(self.now, &delivery),
                None => self.refuse(&delivery),
            }
        }
        while let Some(event) = self.fabric.poll_event() {
            self.interfaces.follow_port(self.now, &mut self.fabric, event.port);
            if event.changes.contains(Changes::REREGISTER) {
                self.reregistered += 1;
                self.interfaces.reregister(self.now, &mut self.fabric, event.port);
            }
            moved = true;
        }
        moved | self.carry_ip()
    }

    /// Carries the packets of interfaces hop by hop, and takes their actions.
    fn carry_ip(&mut self) -> bool {
        let mut moved = false;
        while let Some((from, mut packet)) = self.interfaces.poll_packet() {
            moved = true;
            let mut arrived = Vec::new();
            // The fabric counts a packet that it drops.
            let _ = self.fabric.forward(self.now, from, &mut packet, |arrival, bytes| {
                arrived.push((arrival.port, bytes.to_vec()));
            });
            for (at, bytes) in arrived {
                self.interfaces.handle_link_packet(self.now, &mut self.fabric, at, &bytes);
            }
        }
        while let Some(effect) = self.interfaces.poll_effect() {
            self.effects.push(effect);
        }
        moved
    }

    /// Lets a manager send, compute and report events.
    fn carry(&mut self, at: PortRef) -> bool {
        let Some(driver) = self.managers.get_mut(&at) else { return false };
        let mut moved = false;
        driver.pump(self.now);
        while let Some(job) = driver.manager.poll_job() {
            let done = job.run(&Sequential);
            driver.manager.handle_job(self.now, done);
            moved = true;
        }
        while let Some(event) = driver.manager.poll_event() {
            self.events.push((at, event));
            moved = true;
        }
        let mut out: Vec<MadOut> = Vec::new();
        while let Some(mad) = driver.poll_transmit() {
            out.push(mad);
        }
        self.mark(at);
        for mad in out {
            moved = true;
            if !self.lost() {
                // A host without power sends nothing.
                let _ = self.fabric.send(self.now, at, &mad);
            }
        }
        moved
    }

    fn lost(&mut self) -> bool {
        self.loss_ppm != 0 && self.rng.below(1_000_000) < self.loss_ppm
    }

    /// Sets a port's IsSM capability bit to whether a manager is behind it.
    fn mark(&mut self, at: PortRef) {
        let Some(driver) = self.managers.get(&at) else { return };
        let is_sm = driver.manager.is_sm();
        let says = self.fabric.port_info(at).is_some_and(|info| info.capability_mask.contains(CapabilityMask::SM));
        if is_sm != says {
            self.fabric.set_capabilities(self.now, at, CapabilityMask::SM, is_sm);
        }
    }

    /// Answers a datagram as the system does if no program waits for it.
    fn refuse(&mut self, delivery: &Delivery) {
        let Some(mad) = weft_fabric::unmatched(&delivery.mad) else { return };
        let to = Driver::address(delivery);
        let _ = self.fabric.send(self.now, delivery.port, &MadOut { to, mad });
    }
}

/// Makes one host's NodeDescription responses match no request. The manager repeats such a query only a few times.
pub fn garble_a_name(delivery: &mut Delivery) {
    let smp = Smp::ref_from_mad(&delivery.mad);
    if smp.header.attr_id() == AttrId::NODE_DESCRIPTION && smp.data[..5] == *b"node3" {
        delivery.mad.header.set_tid(u64::MAX);
    }
}
