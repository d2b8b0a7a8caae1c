//! The manager itself: one value that is told of datagrams and time, and says what is to be sent, computed and kept.
//!
//! Drive it as every state machine here: tell it what happened (`handle_*`, the commands), then fetch what came of it
//! (`poll_*`) until there is nothing left. It reads no clock and starts nothing.

mod administration;
mod configured;
mod event;
mod job;
pub(crate) mod keys;
mod peers;
mod setup;
mod smp;
mod status;
mod traps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_verbs::Instant;
use weft_wire::mad::Mad;
use weft_wire::mad::subn::SmState;

pub use crate::sweep::WireCounts;
pub use event::{Event, Level, SweepCounts};
pub(crate) use job::{Done, Route, Routed, Trees, Work};
pub use job::{Job, JobDone};
pub use setup::Setup;
pub use status::Status;

use crate::graph::Graph;
use crate::io::{GmpOut, Peer, SmpOut};
use crate::multicast::{Forest, PortMask};
use crate::partition::Plan;
use crate::qos;
use crate::sa::Administrator;
use crate::subnet::lids::Lids;
use crate::subnet::{NodeIx, PortIx, Subnet};
use crate::sweep::{Phase, Sweep, What, Wire};
use crate::tables::Tables;
use administration::Administration;
use keys::Keys;
use peers::Peers;
use traps::Traps;

/// Events that nobody fetched: the oldest are lost.
pub const EVENTS_MAX: usize = 1 << 16;
/// Answers to other managers and represses that nobody fetched: more are lost, and asked for again.
pub const REPLIES_MAX: usize = 1 << 12;

/// Questions to the administrator that are answered before others are looked for.
const QUESTIONS_AT_ONCE: usize = 16;

/// A subnet manager and administrator.
pub struct Manager {
    pub(crate) now: Instant,
    pub(crate) setup: Setup,
    pub(crate) state: SmState,
    pub(crate) subnet: Subnet,
    pub(crate) wire: Wire,
    pub(crate) sweep: Sweep,
    pub(crate) lids: Lids,
    pub(crate) keys: Keys,
    /// They are others than those that were kept.
    pub(crate) keys_changed: bool,
    pub(crate) graph: Arc<Graph>,
    /// Places of nodes in the graph.
    pub(crate) places: BTreeMap<NodeIx, u32>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) weights: BTreeMap<(u64, u8), u16>,
    /// The job that is out.
    pub(crate) computing: Option<u64>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) job_count: u64,
    pub(crate) peers: Peers,
    pub(crate) traps: Traps,
    /// Ports of adapters whose programs are to register again.
    pub(crate) reregister: BTreeSet<PortIx>,
    /// What partitions come to.
    pub(crate) plan: Plan,
    /// Lanes by kind of port.
    pub(crate) lanes: qos::Setup,
    pub(crate) administration: Administration,
    pub(crate) forest: Arc<Forest>,
    /// Multicast tables of switches, by their places in the graph.
    pub(crate) mfts: Vec<BTreeMap<u16, PortMask>>,
    /// The job that grows trees.
    pub(crate) growing: Option<u64>,
    /// PortGUIDs of who went since subscribers were last told.
    pub(crate) departed: Vec<u64>,
    replies: VecDeque<SmpOut>,
    events: VecDeque<Event>,
}

impl Manager {
    /// A manager that begins to discover at once.
    pub fn new(now: Instant, setup: Setup) -> Manager {
        let lids = if setup.reassign_lids { Lids::default() } else { Lids::parse(&setup.guid2lid) };
        let mut manager = Manager {
            now,
            state: SmState::DISCOVERING,
            subnet: Subnet::default(),
            wire: Wire::new(setup.max_wire_smps),
            sweep: Sweep::default(),
            lids,
            keys: Keys::parse(&setup.guid2mkey),
            keys_changed: false,
            graph: Arc::default(),
            places: BTreeMap::new(),
            tables: Arc::default(),
            weights: BTreeMap::new(),
            computing: None,
            jobs: VecDeque::new(),
            job_count: 0,
            peers: Peers::default(),
            traps: Traps::default(),
            reregister: BTreeSet::new(),
            plan: Plan::default(),
            lanes: qos::Setup::new(&setup.options),
            administration: Administration::new(&setup),
            forest: Arc::default(),
            mfts: Vec::new(),
            growing: None,
            departed: Vec::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            setup,
        };
        manager.subnet.names.clone_from(&manager.setup.names);
        manager.weights =
            manager.setup.hop_weights.iter().map(|(guid, port, weight)| ((*guid, *port), *weight)).collect();
        manager.tell(Event::State(SmState::DISCOVERING));
        manager.sweep.wanted.heavy = true;
        manager.advance();
        manager
    }

    /// A datagram of subnet management came: an answer, a trap, a question of another manager.
    pub fn handle_smp(&mut self, now: Instant, from: &Peer, mad: &Mad) {
        self.now = self.now.max(now);
        self.on_smp(from, mad);
        self.advance();
    }

    /// Nobody answered a try of this.
    pub fn handle_smp_timeout(&mut self, now: Instant, mad: &Mad) {
        self.now = self.now.max(now);
        self.on_smp_timeout(mad);
        self.advance();
    }

    /// A datagram for the administrator came, or an answer to one of its own.
    pub fn handle_gmp(&mut self, now: Instant, from: &Peer, bytes: &[u8]) {
        self.now = self.now.max(now);
        self.administer(|sa, now, world| sa.handle(now, world, from, bytes));
    }

    /// Nobody answered one of the administrator's.
    pub fn handle_gmp_timeout(&mut self, now: Instant, _to: &Peer, bytes: &[u8]) {
        self.now = self.now.max(now);
        self.administration.sa.handle_gmp_timeout(now, bytes);
    }

    /// A job is done.
    pub fn handle_job(&mut self, now: Instant, done: JobDone) {
        self.now = self.now.max(now);
        match done.0 {
            Done::Routed(done) => self.on_routed(done),
            Done::Grown { number, forest } => self.on_grown(number, forest),
        }
        self.advance();
    }

    /// Time went on.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.on_sweep_timer();
        self.on_peer_timer();
        self.administration.sa.handle_timeout(now);
        self.take_changes();
        self.advance();
    }

    /// When [`Manager::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.sweep.next, self.peers.next_poll, self.administration.sa.poll_timeout()].into_iter().flatten().min()
    }

    /// The next SMP to be sent.
    pub fn poll_smp(&mut self) -> Option<SmpOut> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        while let Some((ask, number)) = self.wire.next() {
            match self.datagram(ask, number) {
                Some(out) => {
                    let timeout = self.try_timeout(ask.what);
                    return Some(SmpOut { dlid: out.dlid, mad: out.mad, timeout, retries: 0 });
                }
                None => {
                    self.wire.take(number);
                    self.wire.counts.sent -= 1;
                    if ask.what == What::Poll {
                        // There is no way to the master any more.
                        self.on_missed();
                    }
                    self.advance();
                }
            }
        }
        None
    }

    /// The next datagram of the administrator to be sent.
    pub fn poll_gmp(&mut self) -> Option<GmpOut> {
        loop {
            if let Some(out) = self.administration.sa.poll_gmp() {
                return Some(out);
            }
            if self.administration.sa.waiting() == 0 || self.is_naming() {
                return None;
            }
            self.renew_own();
            self.administer(|sa, now, world| sa.serve(now, world, QUESTIONS_AT_ONCE));
            self.take_changes();
            self.advance();
        }
    }

    /// Work to be done: [`Manager::handle_job`] is told of it.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Something happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the port is to say that a manager is behind it. Who is nobody to hand over to is not to be found: one that
    /// never is master, one that yields while it stands by, one that goes.
    pub fn is_sm(&self) -> bool {
        let yields = self.setup.yields && self.state == SmState::STANDBY;
        let leaves = self.peers.leaving && self.state != SmState::MASTER;
        self.state != SmState::NOT_ACTIVE && !self.setup.never_master && !yields && !leaves
    }

    /// Sweep now, or as soon as what is going on is over.
    pub fn sweep(&mut self, heavy: bool) {
        match heavy {
            true => self.sweep.wanted.heavy = true,
            false => self.sweep.wanted.light = true,
        }
        self.advance();
    }

    /// The configuration was read anew: all is looked at again and set as it is to be now.
    pub fn reload(&mut self, setup: Setup) {
        self.wire.set_limit(setup.max_wire_smps);
        self.weights = setup.hop_weights.iter().map(|(guid, port, weight)| ((*guid, *port), *weight)).collect();
        self.lanes = qos::Setup::new(&setup.options);
        self.administration.reload(&setup);
        self.setup = setup;
        self.subnet.names.clone_from(&self.setup.names);
        (self.sweep.reroute, self.sweep.anew) = (true, true);
        self.sweep(true);
    }

    /// Look at the subnet from time to time and when something happens, or only when told; what is asked for meanwhile is done
    /// when it is on again.
    pub fn set_sweeping(&mut self, on: bool) {
        self.sweep.halted = !on;
        self.advance();
    }

    /// Whether the subnet is looked at.
    pub fn is_sweeping(&self) -> bool {
        !self.sweep.halted
    }

    /// Ask every node for its name again.
    pub fn read_names(&mut self) {
        self.sweep.nameless.extend(self.subnet.nodes().map(|(node, _)| node));
        self.advance();
    }

    /// Whether everybody who was found was asked for its name: a subnet that is up has all that belongs to it then.
    pub fn has_names(&self) -> bool {
        self.sweep.nameless.is_empty() && self.sweep.phase != Phase::Names
    }

    /// Have another priority from now on. Who is master hands over if another comes first now.
    pub fn set_priority(&mut self, priority: u8) {
        self.setup.sm_priority = priority & 0xf;
        self.sweep(true);
    }

    /// What is known of the subnet.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// The tables that are in force, or being written.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The graph that they were computed for.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The text of the guid2lid file, to be kept after [`Event::LidsChanged`].
    pub fn guid2lid(&self) -> String {
        self.lids.text()
    }

    /// The text of the guid2mkey file, to be kept after [`Event::KeysChanged`].
    pub fn guid2mkey(&self) -> String {
        self.keys.text()
    }

    /// What the partitions of the subnet come to.
    pub fn partitions(&self) -> &Plan {
        &self.plan
    }

    /// The administrator.
    pub fn administrator(&self) -> &Administrator {
        &self.administration.sa
    }

    /// The text of the administrator's data base, to be kept after [`Event::DataBaseChanged`].
    pub fn sa_db(&mut self) -> String {
        self.administer(|sa, now, world| sa.dump(now, world))
    }

    /// What it works by.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn tell(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(crate) fn reply(&mut self, dlid: u16, mad: Mad) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back(SmpOut { dlid, mad, timeout: weft_verbs::Duration::ZERO, retries: 0 });
        }
    }
}
