//! Faults and their repair. Each fault strikes a route that packets use at that moment, and counts only if its effect
//! is visible afterwards.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::topology::{NodeKind, Speed, Width};
use weft_fabric::{Counter, PKEY_DEFAULT, PortRef, Why};
use weft_verbs::Duration;
use weft_wire::mad::AttrId;
use weft_wire::mad::subn::{LinearForwardingTable, PKeyTable};

use super::{FAULTS_PER_SEED, Storm, TRAINED, route};

/// Injects a fault; returns whether it struck.
type Strike = fn(&mut Storm, &[[PortRef; 2]]) -> bool;

/// A kind of fault, by its name.
pub struct Fault {
    /// For people.
    pub name: &'static str,
    /// Whether the fault loses packets.
    pub loses: bool,
    strike: Strike,
}

const fn fault(name: &'static str, loses: bool, strike: Strike) -> Fault {
    Fault { name, loses, strike }
}

/// All kinds.
pub const FAULTS: [Fault; 11] = [
    fault("cut", true, Storm::cut),
    fault("flap", true, Storm::flap),
    fault("errors", true, Storm::errors),
    // Management packets only.
    fault("drop", false, Storm::drop_management),
    fault("power off", true, Storm::power_off),
    fault("reboot", true, Storm::reboot),
    fault("re-route", false, Storm::re_route),
    fault("loop", true, Storm::make_loop),
    fault("P_Key", true, Storm::change_pkey),
    fault("latency", false, Storm::slow_down),
    fault("degrade", true, Storm::degrade),
];

/// Faults still to repair.
#[derive(Debug, Default)]
pub(super) struct Damage {
    cut: Vec<[PortRef; 2]>,
    rough: BTreeSet<PortRef>,
    slow: BTreeMap<PortRef, u32>,
    degraded: BTreeSet<PortRef>,
    off: BTreeSet<u32>,
    /// Hosts whose partition changed.
    partitions: BTreeSet<usize>,
}

impl Storm {
    /// Injects a fault, of the kind whose turn it is if possible; returns its kind.
    pub(super) fn strike(&mut self, turn: usize) -> usize {
        for attempt in 0..FAULTS_PER_SEED * FAULTS.len() {
            // Much may be broken already, with nothing left to strike.
            if attempt > 0 && attempt % FAULTS.len() == 0 {
                self.mend();
            }
            let kind = (turn + attempt) % FAULTS.len();
            let talker = &self.talkers[self.rng.below(self.talkers.len() as u64) as usize];
            let (from, peer) = (talker.host, talker.peers[0].lid);
            let way = route(&self.fabric, self.hosts[from].port, peer, PKEY_DEFAULT);
            if way.end.is_ok() && (FAULTS[kind].strike)(self, &way.links) {
                self.tally.struck[kind] += 1;
                return kind;
            }
        }
        panic!("nothing can be broken");
    }

    fn link(&mut self, way: &[[PortRef; 2]]) -> [PortRef; 2] {
        self.rng.pick(way)
    }

    /// Picks a switch on the route.
    fn switch(&mut self, way: &[[PortRef; 2]]) -> u32 {
        self.rng.pick(&way[1..])[0].node
    }

    fn cut(&mut self, way: &[[PortRef; 2]]) -> bool {
        let link = self.link(way);
        self.fabric.cut(self.now, link[0]).expect("a cable");
        self.damage.cut.push(link);
        self.fabric.peer(link[0]).is_none()
    }

    fn flap(&mut self, way: &[[PortRef; 2]]) -> bool {
        let (link, down) = (self.link(way), Duration::from_micros(self.rng.range(10, 5_000)));
        self.fabric.flap(self.now, link[0], down).expect("a cable");
        self.fabric.peer(link[0]).is_none()
    }

    fn errors(&mut self, way: &[[PortRef; 2]]) -> bool {
        let (link, ppm) = (self.link(way), self.rng.pick(&[20_000, 100_000, 400_000]));
        self.fabric.set_errors(link[0], ppm).expect("a cable");
        self.damage.rough.insert(link[0])
    }

    /// Makes a cable lose management datagrams, so that the manager must retry.
    fn drop_management(&mut self, way: &[[PortRef; 2]]) -> bool {
        let link = self.link(way);
        self.fabric.set_drop(Some(link[0]), 300_000).expect("a cable");
        self.damage.rough.insert(link[0]);
        let dropped = |storm: &Storm| link.map(|port| storm.fabric.counter(port, Counter::Vl15Dropped));
        let before = dropped(self);
        self.sweep();
        dropped(self) != before
    }

    fn power_off(&mut self, way: &[[PortRef; 2]]) -> bool {
        let node = self.switch(way);
        self.ledger.forget(&self.fabric, node);
        self.fabric.power_off(self.now, node).expect("a node");
        self.damage.off.insert(node)
    }

    fn reboot(&mut self, way: &[[PortRef; 2]]) -> bool {
        let (node, down) = (self.switch(way), Duration::from_micros(self.rng.range(10, 20_000)));
        self.ledger.forget(&self.fabric, node);
        self.fabric.reboot(self.now, node, down).expect("a node");
        !self.fabric.powered(node)
    }

    /// Makes the manager prefer other routes of the same length.
    fn re_route(&mut self, _: &[[PortRef; 2]]) -> bool {
        let before = self.tables();
        self.manager.turn += 1;
        self.sweep();
        self.tables() != before
    }

    /// Returns the switches' table entries for the hosts.
    fn tables(&self) -> Vec<Option<u8>> {
        let lids = self.hosts.iter().map(|host| host.lid);
        lids.flat_map(|lid| (0..self.fabric.node_count()).map(move |node| self.fabric.forwarding(node, lid))).collect()
    }

    /// Makes the entries for the LID at the route's end lead from switch to switch, and back to one that was visited.
    fn make_loop(&mut self, way: &[[PortRef; 2]]) -> bool {
        let (from, to) = (way[0][0], way[way.len() - 1][1]);
        let lid = self.fabric.port_info(to).expect("a port").lid;
        let (mut at, mut seen) = (way[0][1], BTreeSet::new());
        while seen.insert(at.node) {
            let ports = (1..=self.fabric.port_count(at.node)).map(|number| PortRef::new(at.node, number));
            let to_switch = |port: &PortRef| {
                let peer = self.fabric.peer(*port).filter(|_| self.fabric.speed(*port).is_some());
                peer.is_some_and(|peer| self.fabric.kind(peer.node) == Some(NodeKind::Switch))
            };
            let mut outs: Vec<_> = ports.filter(to_switch).collect();
            // Back to the previous switch only if there is no other.
            if outs.len() > 1 {
                outs.retain(|out| *out != at);
            }
            let out = if outs.is_empty() { at } else { self.rng.pick(&outs) };
            if !self.write_entry(at.node, lid, out.port) {
                return false;
            }
            at = self.fabric.peer(out).unwrap_or(out);
            if outs.is_empty() {
                break;
            }
        }
        route(&self.fabric, from, lid, PKEY_DEFAULT).end.is_err_and(|(_, why)| why == Why::Loop)
    }

    fn write_entry(&mut self, node: u32, lid: u16, port: u8) -> bool {
        let guid = self.topology.nodes[node as usize].guid;
        let block = (AttrId::LINEAR_FORWARDING_TABLE, u32::from(lid) / 64);
        self.managed(|manager, fabric, now| {
            manager.write(fabric, now, guid, block, |table: &mut LinearForwardingTable| {
                table.ports.0[usize::from(lid) % 64] = port;
            })
        })
    }

    /// Makes a host a limited member, or puts it into another partition, or two; the host learns of it at once, or
    /// later.
    fn change_pkey(&mut self, way: &[[PortRef; 2]]) -> bool {
        let to = way[way.len() - 1][1];
        let host = self.hosts.iter().position(|host| host.port == to).expect("one of ours");
        let pkeys = self.rng.pick(&[[0x7fff, 0], [0x8005, 0], [0x8005, PKEY_DEFAULT]]);
        // Without an answer, too: it may have been lost after the table was written.
        self.damage.partitions.insert(host);
        if !self.write_pkeys(host, pkeys) {
            return false;
        }
        if self.rng.chance(1, 2) {
            self.hosts[host].follow(&self.fabric);
        }
        self.fabric.pkeys(to)[0] == pkeys[0]
    }

    fn write_pkeys(&mut self, host: usize, pkeys: [u16; 2]) -> bool {
        let guid = self.topology.nodes[self.hosts[host].port.node as usize].guid;
        self.managed(|manager, fabric, now| {
            manager.write(fabric, now, guid, (AttrId::PKEY_TABLE, 0), |table: &mut PKeyTable| {
                table.pkeys[..2].copy_from_slice(&pkeys);
            })
        })
    }

    /// Updates the hosts' adapters with their partitions.
    pub(super) fn tell_hosts(&mut self) {
        for host in &self.damage.partitions {
            self.hosts[*host].follow(&self.fabric);
        }
    }

    fn slow_down(&mut self, way: &[[PortRef; 2]]) -> bool {
        let (link, ns) = (self.link(way), self.rng.pick(&[500, 20_000, 200_000]));
        self.fabric.set_latency(link[0], ns).expect("a cable");
        self.damage.slow.insert(link[0], ns) != Some(ns)
    }

    fn degrade(&mut self, way: &[[PortRef; 2]]) -> bool {
        let link = self.link(way);
        self.fabric.degrade(self.now, link[0], Some(Width::X1), Some(Speed::Sdr)).expect("a cable");
        self.damage.degraded.insert(link[0]);
        self.fabric.speed(link[0]).is_none()
    }

    /// Runs the manager on perfect cables: it asks once and expects immediate answers.
    fn managed<R>(
        &mut self,
        work: impl FnOnce(&mut super::Manager, &mut weft_fabric::Fabric, weft_verbs::Instant) -> R,
    ) -> R {
        let slow: Vec<_> = self.fabric.cables().filter(|cable| cable.latency_ns > 0 && cable.plugged).collect();
        for cable in &slow {
            self.fabric.set_latency(cable.ends[0], 0).expect("a cable");
        }
        let done = work(&mut self.manager, &mut self.fabric, self.now);
        for cable in &slow {
            self.fabric.set_latency(cable.ends[0], cable.latency_ns).expect("a cable");
        }
        self.hear();
        done
    }

    /// Lets the manager sweep the fabric and write what is missing.
    pub(super) fn sweep(&mut self) {
        self.managed(|manager, fabric, now| manager.sweep(fabric, now));
    }

    /// Repairs everything.
    pub(super) fn mend(&mut self) {
        let damage = std::mem::take(&mut self.damage);
        for [a, b] in damage.cut {
            self.fabric.join(self.now, a, b).expect("free ports");
        }
        for node in damage.off {
            self.fabric.power_on(self.now, node).expect("a node");
        }
        // Links that flap or train and nodes that boot need only time.
        self.pass(TRAINED);
        for port in damage.rough {
            self.fabric.set_errors(port, 0).expect("a cable");
            self.fabric.set_drop(Some(port), 0).expect("a cable");
        }
        for port in damage.slow.into_keys() {
            self.fabric.set_latency(port, 0).expect("a cable");
        }
        for port in damage.degraded {
            self.fabric.degrade(self.now, port, None, None).expect("a cable");
        }
        self.pass(TRAINED);
        self.sweep();
        for host in damage.partitions {
            assert!(self.write_pkeys(host, [PKEY_DEFAULT, 0]), "the manager reaches everybody");
            self.hosts[host].follow(&self.fabric);
        }
    }
}
