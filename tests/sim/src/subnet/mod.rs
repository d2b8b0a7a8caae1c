//! Subnet managers on a fabric under simulated time: each at a host's port, its datagrams carried as a system's MAD layer
//! carries them, lost, cut off and killed as a test says.

mod check;
mod driver;

pub use check::{Fault, check};
pub use driver::Driver;

use std::collections::BTreeMap;

use weft_fabric::topology::Topology;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Changes, Delivery, Fabric, MadOut, PortRef};
use weft_sm::Sequential;
use weft_sm::manager::{Event, Manager, Setup};
use weft_verbs::{Duration, Instant};
use weft_wire::mad::AttrId;
use weft_wire::mad::subn::{CapabilityMask, SmState, Smp};

use crate::Rng;

/// Datagrams that one instant may see: more, and something goes in circles.
const STEPS_MAX: u64 = 50_000_000;

/// A fabric and its managers.
pub struct World {
    /// The fabric.
    pub fabric: Fabric,
    /// The time.
    pub now: Instant,
    /// Managers by the ports that they are at.
    pub managers: BTreeMap<PortRef, Driver>,
    /// What they told, by whom.
    pub events: Vec<(PortRef, Event)>,
    /// Of a million datagrams that managers send or get, how many are lost.
    pub loss_ppm: u64,
    /// How often a host was asked to register again.
    pub reregistered: u64,
    /// Does something to what managers are delivered.
    pub twist: Option<fn(&mut Delivery)>,
    rng: Rng,
}

impl World {
    /// A fabric of this shape, without a manager.
    pub fn new(shape: Shape, seed: u64) -> World {
        World::of(&Plan::new(shape).generate().expect("a topology"), seed)
    }

    /// A fabric of this topology, without a manager.
    pub fn of(topology: &Topology, seed: u64) -> World {
        World {
            fabric: Fabric::new(topology, seed),
            now: Instant(0),
            managers: BTreeMap::new(),
            events: Vec::new(),
            loss_ppm: 0,
            reregistered: 0,
            twist: None,
            rng: Rng::new(seed),
        }
    }

    /// The port of the host of this number.
    pub fn host(&self, number: usize) -> PortRef {
        let mut hosts = (0..self.fabric.node_count())
            .filter(|node| self.fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Ca));
        PortRef::new(hosts.nth(number).expect("so many hosts"), 1)
    }

    /// The switch of this number, as a node.
    pub fn switch(&self, number: usize) -> u32 {
        let mut switches = (0..self.fabric.node_count())
            .filter(|node| self.fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Switch));
        switches.nth(number).expect("so many switches")
    }

    /// Start a manager at a port, with what it is told besides its GUID.
    pub fn start(&mut self, at: PortRef, change: impl FnOnce(&mut Setup)) {
        let mut setup = Setup::new(self.fabric.port_guid(at).expect("a port"));
        change(&mut setup);
        self.managers.insert(at, Driver::new(Manager::new(self.now, setup)));
        self.mark(at);
    }

    /// Kill a manager: nobody is told.
    pub fn kill(&mut self, at: PortRef) -> Option<Manager> {
        let driver = self.managers.remove(&at)?;
        self.fabric.set_capabilities(self.now, at, CapabilityMask::SM, false);
        Some(driver.manager)
    }

    /// The manager at a port.
    pub fn manager(&mut self, at: PortRef) -> &mut Manager {
        &mut self.managers.get_mut(&at).expect("a manager there").manager
    }

    /// The states of all managers.
    pub fn states(&self) -> Vec<SmState> {
        self.managers.values().map(|driver| driver.manager.status().state).collect()
    }

    /// Who is master.
    pub fn masters(&self) -> Vec<PortRef> {
        let masters = self.managers.iter().filter(|(_, driver)| driver.manager.status().state == SmState::MASTER);
        masters.map(|(at, _)| *at).collect()
    }

    /// How often an event was told that is like this.
    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| wanted(event)).count()
    }

    /// The last of what was told, for who has to find out why.
    pub fn log(&self) -> String {
        let last = self.events.iter().skip(self.events.len().saturating_sub(40));
        last.map(|(at, event)| format!("\n{at}: {event}")).collect()
    }

    /// Let time go on.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.fabric.handle_timeout(self.now);
            for driver in self.managers.values_mut() {
                driver.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    /// Let time go on until something holds, no longer than this; `false` if it never did.
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
        managers.chain(self.fabric.poll_timeout()).min()
    }

    /// Carry every datagram that is on its way now.
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
            match self.managers.get_mut(&delivery.port) {
                Some(driver) => driver.deliver(self.now, &delivery),
                None => self.refuse(&delivery),
            }
        }
        while let Some(event) = self.fabric.poll_event() {
            self.reregistered += u64::from(event.changes.contains(Changes::REREGISTER));
        }
        moved
    }

    /// What a manager has to send, compute and tell.
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

    /// A port says whether a manager is behind it.
    fn mark(&mut self, at: PortRef) {
        let Some(driver) = self.managers.get(&at) else { return };
        let is_sm = driver.manager.is_sm();
        let says = self.fabric.port_info(at).is_some_and(|info| info.capability_mask.contains(CapabilityMask::SM));
        if is_sm != says {
            self.fabric.set_capabilities(self.now, at, CapabilityMask::SM, is_sm);
        }
    }

    /// Where no program waits for a datagram, the system answers.
    fn refuse(&mut self, delivery: &Delivery) {
        let Some(mad) = weft_fabric::unmatched(&delivery.mad) else { return };
        let to = Driver::address(delivery);
        let _ = self.fabric.send(self.now, delivery.port, &MadOut { to, mad });
    }
}

/// What one host says of its name, as nobody would take it: names are asked for until it has been silent so often.
pub fn garble_a_name(delivery: &mut Delivery) {
    let smp = Smp::ref_from_mad(&delivery.mad);
    if smp.header.attr_id() == AttrId::NODE_DESCRIPTION && smp.data[..5] == *b"node3" {
        delivery.mad.header.set_tid(u64::MAX);
    }
}
