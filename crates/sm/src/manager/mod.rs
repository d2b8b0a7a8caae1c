//! The manager itself: a state machine that takes MADs and time, and returns MADs to send, jobs to run and state to
//! save.
//!
//! Drive it like every state machine of this workspace: pass in what happened (`handle_*`, the commands), then fetch
//! the results (`poll_*`) until none is left. It reads no clock and starts no threads.

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

/// Events kept until fetched: beyond that, the oldest are dropped.
pub const EVENTS_MAX: usize = 1 << 16;
/// Answers to other managers and TrapRepress MADs kept until sent: beyond that they are dropped, and the peers ask
/// again.
pub const REPLIES_MAX: usize = 1 << 12;

/// SA queries answered before the manager looks for new ones.
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
    /// Keys changed since they were last saved.
    pub(crate) keys_changed: bool,
    pub(crate) graph: Arc<Graph>,
    /// Indexes of switches in the graph.
    pub(crate) places: BTreeMap<NodeIx, u32>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) weights: BTreeMap<(u64, u8), u16>,
    /// The routing job in progress.
    pub(crate) computing: Option<u64>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) job_count: u64,
    pub(crate) peers: Peers,
    pub(crate) traps: Traps,
    /// Ports of adapters whose clients should register again.
    pub(crate) reregister: BTreeSet<PortIx>,
    /// The partition plan.
    pub(crate) plan: Plan,
    /// VL setup by kind of port.
    pub(crate) lanes: qos::Setup,
    pub(crate) administration: Administration,
    pub(crate) forest: Arc<Forest>,
    /// Multicast tables of switches, by their indexes in the graph.
    pub(crate) mfts: Vec<BTreeMap<u16, PortMask>>,
    /// The multicast job in progress.
    pub(crate) growing: Option<u64>,
    /// PortGUIDs of ports that left since subscribers were last told.
    pub(crate) departed: Vec<u64>,
    replies: VecDeque<SmpOut>,
    events: VecDeque<Event>,
}

impl Manager {
    /// Creates a manager, which begins to discover at once.
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

    /// Handles an SMP: an answer, a trap, or a request of another manager.
    pub fn handle_smp(&mut self, now: Instant, from: &Peer, mad: &Mad) {
        self.now = self.now.max(now);
        self.on_smp(from, mad);
        self.advance();
    }

    /// Handles the timeout of one try of an SMP.
    pub fn handle_smp_timeout(&mut self, now: Instant, mad: &Mad) {
        self.now = self.now.max(now);
        self.on_smp_timeout(mad);
        self.advance();
    }

    /// Handles a GMP for the SA, or the answer to one of the SA's own.
    pub fn handle_gmp(&mut self, now: Instant, from: &Peer, bytes: &[u8]) {
        self.now = self.now.max(now);
        self.administer(|sa, now, world| sa.handle(now, world, from, bytes));
    }

    /// Handles the timeout of a GMP of the SA.
    pub fn handle_gmp_timeout(&mut self, now: Instant, _to: &Peer, bytes: &[u8]) {
        self.now = self.now.max(now);
        self.administration.sa.handle_gmp_timeout(now, bytes);
    }

    /// Handles the result of a job.
    pub fn handle_job(&mut self, now: Instant, done: JobDone) {
        self.now = self.now.max(now);
        match done.0 {
            Done::Routed(done) => self.on_routed(done),
            Done::Grown { number, forest } => self.on_grown(number, forest),
        }
        self.advance();
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.on_sweep_timer();
        self.on_peer_timer();
        self.administration.sa.handle_timeout(now);
        self.take_changes();
        self.advance();
    }

    /// Returns the time of the next [`Manager::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.sweep.next, self.peers.next_poll, self.administration.sa.poll_timeout()].into_iter().flatten().min()
    }

    /// Returns the next SMP to send.
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
                        // No route leads to the master any more.
                        self.on_missed();
                    }
                    self.advance();
                }
            }
        }
        None
    }

    /// Returns the next GMP to send.
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

    /// Returns the next job to run; its result goes to [`Manager::handle_job`].
    pub fn poll_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the port should advertise an SM (IsSM). A manager that cannot take a handover hides itself: one that
    /// never becomes master, one that yields while in standby, or one that is leaving.
    pub fn is_sm(&self) -> bool {
        let yields = self.setup.yields && self.state == SmState::STANDBY;
        let leaves = self.peers.leaving && self.state != SmState::MASTER;
        self.state != SmState::NOT_ACTIVE && !self.setup.never_master && !yields && !leaves
    }

    /// Requests a sweep, which begins once the present activity ends.
    pub fn sweep(&mut self, heavy: bool) {
        match heavy {
            true => self.sweep.wanted.heavy = true,
            false => self.sweep.wanted.light = true,
        }
        self.advance();
    }

    /// Takes over a reloaded configuration: a heavy sweep reads everything again and applies it.
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

    /// Turns sweeping, periodic and on events, on or off; sweeps requested while it is off begin when it is on again.
    pub fn set_sweeping(&mut self, on: bool) {
        self.sweep.halted = !on;
        self.advance();
    }

    /// Whether sweeping is on.
    pub fn is_sweeping(&self) -> bool {
        !self.sweep.halted
    }

    /// Asks every node for its NodeDescription again.
    pub fn read_names(&mut self) {
        self.sweep.nameless.extend(self.subnet.nodes().map(|(node, _)| node));
        self.advance();
    }

    /// Whether every discovered node was asked for its description; only then is a subnet that is up fully described.
    pub fn has_names(&self) -> bool {
        self.sweep.nameless.is_empty() && self.sweep.phase != Phase::Names
    }

    /// Changes the priority. A master hands over if another manager now outranks it.
    pub fn set_priority(&mut self, priority: u8) {
        self.setup.sm_priority = priority & 0xf;
        self.sweep(true);
    }

    /// Returns the subnet model.
    pub fn subnet(&self) -> &Subnet {
        &self.subnet
    }

    /// Returns the tables in force, or being written.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the graph for which the tables were computed.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the text of the guid2lid file; save it after [`Event::LidsChanged`].
    pub fn guid2lid(&self) -> String {
        self.lids.text()
    }

    /// Returns the text of the guid2mkey file; save it after [`Event::KeysChanged`].
    pub fn guid2mkey(&self) -> String {
        self.keys.text()
    }

    /// Returns the partition plan of the subnet.
    pub fn partitions(&self) -> &Plan {
        &self.plan
    }

    /// Returns the SA.
    pub fn administrator(&self) -> &Administrator {
        &self.administration.sa
    }

    /// Returns the text of the SA database; save it after [`Event::DataBaseChanged`].
    pub fn sa_db(&mut self) -> String {
        self.administer(|sa, now, world| sa.dump(now, world))
    }

    /// Returns the present setup.
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
