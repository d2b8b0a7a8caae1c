//! Runs a manager on a simulated fabric within this process, to learn what it would do with a fabric description.
//! Nothing leaves the process, and simulated time passes as fast as the work is done.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_fabric::topology::{NodeKind, Topology};
use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_sm::io::Peer;
use weft_sm::manager::{Event, Manager, Setup};
use weft_verbs::Instant;
use weft_wire::mad::{Mad, SMI_QPN};

use super::threads::Threads;

/// Time limit for the subnet to come up, by the fabric's clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// Seed of the fabric: the result is always the same.
const SEED: u64 = 1;

/// Result of a simulate.
pub struct Simulation {
    /// The manager, with the subnet up unless it failed.
    pub manager: Manager,
    /// The manager's events.
    pub events: Vec<Event>,
    /// Number of SMPs that the manager sent.
    pub smps: u64,
    /// Whether the subnet came up.
    pub is_up: bool,
}

struct Stage {
    fabric: Fabric,
    port: PortRef,
    now: Instant,
    /// Requests in flight, by the lower half of their transaction IDs.
    waiting: BTreeMap<u32, Mad>,
    smps: u64,
}

/// Runs the manager of `setup` on the first host of a fabric until the subnet is up.
///
/// # Errors
/// The fabric has no host.
pub fn rehearse(topology: &Topology, setup: impl FnOnce(u64) -> Setup) -> Result<Simulation, String> {
    let place = topology.nodes.iter().position(|node| node.kind == NodeKind::Ca && !node.ports.is_empty());
    let place = place.ok_or("the fabric has no host that a manager could run on")?;
    let guid = topology.nodes[place].ports[0].guid;
    let now = Instant(0);
    let mut stage = Stage {
        fabric: Fabric::new(topology, SEED),
        port: PortRef::new(place as u32, 1),
        now,
        waiting: BTreeMap::new(),
        smps: 0,
    };
    let mut manager = Manager::new(now, setup(guid));
    let mut events = Vec::new();
    let mut is_up = false;
    let is_done = |manager: &Manager, is_up| is_up && manager.has_names();
    while !is_done(&manager, is_up) && stage.now.since(Instant(0)) < PATIENCE {
        let moved = stage.carry(&mut manager);
        while let Some(event) = manager.poll_event() {
            is_up |= matches!(event, Event::SubnetUp);
            events.push(event);
        }
        if !moved && !is_done(&manager, is_up) && !stage.wait(&mut manager) {
            break;
        }
    }
    Ok(Simulation { manager, events, smps: stage.smps, is_up })
}

impl Stage {
    /// Delivers pending datagrams and jobs; false if there were none.
    fn carry(&mut self, manager: &mut Manager) -> bool {
        let mut moved = false;
        while let Some(smp) = manager.poll_smp() {
            moved = true;
            self.smps += 1;
            if !smp.timeout.is_zero() {
                self.waiting.insert(smp.mad.header.tid() as u32, smp.mad);
            }
            let out = MadOut { to: MadAddress::smi(smp.dlid), mad: smp.mad };
            // A request that cannot be sent stays unanswered.
            let _ = self.fabric.send(self.now, self.port, &out);
        }
        // No other node is on this fabric, so GMPs of subnet administration have no receiver.
        while manager.poll_gmp().is_some() {}
        while let Some(delivery) = self.fabric.poll_delivery() {
            if delivery.port != self.port || delivery.dest_qp != SMI_QPN {
                continue;
            }
            moved = true;
            self.waiting.remove(&(delivery.mad.header.tid() as u32));
            let from = Peer { lid: delivery.slid, qpn: delivery.src_qp, ..Peer::default() };
            manager.handle_smp(self.now, &from, &delivery.mad);
        }
        while let Some(job) = manager.poll_job() {
            moved = true;
            let done = job.run(&Threads::all());
            manager.handle_job(self.now, done);
        }
        moved
    }

    /// Advances the clock; false if no event is left.
    fn wait(&mut self, manager: &mut Manager) -> bool {
        if !self.waiting.is_empty() {
            for (_, mad) in std::mem::take(&mut self.waiting) {
                manager.handle_smp_timeout(self.now, &mad);
            }
            return true;
        }
        let next = [manager.poll_timeout(), self.fabric.poll_timeout()].into_iter().flatten().min();
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        if self.fabric.poll_timeout().is_some_and(|at| at <= self.now) {
            self.fabric.handle_timeout(self.now);
        }
        if manager.poll_timeout().is_some_and(|at| at <= self.now) {
            manager.handle_timeout(self.now);
        }
        true
    }
}
