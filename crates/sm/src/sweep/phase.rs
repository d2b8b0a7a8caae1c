//! Order of the phases: a phase ends when none of its requests is pending.

use std::sync::Arc;

use weft_verbs::Duration;
use weft_wire::mad::subn::SmState;

use super::{Ask, Phase, Wanted, What};
use crate::graph::Graph;
use crate::manager::{Event, Job, Manager, Route, Routed, SweepCounts, Work};
use crate::subnet::lids::Rules;
use crate::subnet::{NodeIx, PortIx};

impl Manager {
    /// Moves on through the phases until a request or job is pending.
    pub(crate) fn advance(&mut self) {
        self.put_names_off();
        while self.wire.is_still() {
            match self.sweep.phase {
                Phase::Idle => {
                    if !self.begin_names() && !self.begin_wanted() && !self.begin_groups() {
                        return;
                    }
                }
                Phase::Light => self.end_light(),
                Phase::Discover => {
                    if !self.look_on() {
                        self.end_discovery();
                        self.begin_managers();
                    }
                }
                Phase::Managers => self.decide(),
                Phase::Configure if self.computing.is_some() => return,
                Phase::Configure => self.begin_tables(true),
                Phase::FreshTables => self.begin_activation(true),
                Phase::ActivateLinks => self.begin_tables(false),
                Phase::Tables => self.begin_multicast(Phase::Multicast),
                Phase::Multicast | Phase::Groups if self.growing.is_some() => return,
                Phase::Multicast | Phase::Groups if !self.sweep.mfts_written => self.write_multicast(),
                Phase::Multicast => self.begin_activation(false),
                Phase::Groups => self.sweep.phase = Phase::Idle,
                Phase::Names => self.end_names(),
                Phase::ActivateEnds => {
                    self.see_unready();
                    self.end_sweep();
                }
            }
        }
    }

    /// Begins the wanted sweep; `false` if none is wanted.
    fn begin_wanted(&mut self) -> bool {
        let discovering = self.state == SmState::DISCOVERING;
        if !discovering && self.state != SmState::MASTER {
            self.sweep.wanted = Wanted::default();
            return false;
        }
        if self.sweep.wanted == Wanted::default() || self.sweep.halted {
            return false;
        }
        let wanted = std::mem::take(&mut self.sweep.wanted);
        self.sweep.next = None;
        self.sweep.count += 1;
        self.sweep.sent_before = self.wire.counts.sent;
        (self.sweep.came, self.sweep.gone, self.sweep.lft_blocks) = (0, 0, 0);
        self.sweep.incomplete = None;
        let must = self.sweep.again || discovering || self.setup.force_heavy_sweep || self.subnet.own.is_none();
        self.sweep.heavy = wanted.heavy || must;
        self.tell(Event::SweepBegan { heavy: self.sweep.heavy });
        if self.sweep.heavy {
            self.sweep.heavy_count += 1;
            self.begin_discovery();
        } else if !wanted.light {
            self.begin_partial(wanted.switches.into_iter().collect(), wanted.ports.into_iter().collect());
        } else {
            self.sweep.wanted = Wanted { light: false, ..wanted };
            self.begin_light();
        }
        true
    }

    /// Asks every switch whether anything changed.
    fn begin_light(&mut self) {
        self.begin_looking(Phase::Light);
        let switches: Vec<NodeIx> =
            self.subnet.nodes().filter(|(_, node)| node.switch.is_some()).map(|(place, _)| place).collect();
        for node in switches {
            self.wire.ask(Ask { what: What::Changed, at: PortIx { node, port: 0 }, arg: 0 });
        }
        // Without a switch to report it, the own port shows whether there is a link.
        if let Some(own) = self.subnet.own {
            self.wire.ask(Ask { what: What::PortInfo, at: own, arg: 0 });
        }
        self.ask_managers();
    }

    /// Handles the SwitchInfo of a light sweep.
    pub(crate) fn on_light(&mut self, node: NodeIx, info: weft_wire::mad::subn::SwitchInfo) {
        let known = self.subnet.node(node).and_then(|node| node.switch.as_ref());
        let same = known.is_some_and(|switch| switch.info.linear_fdb_top == info.linear_fdb_top);
        if info.port_state_change || !same {
            self.sweep.wanted.switches.insert(node);
        }
    }

    fn end_light(&mut self) {
        let mut wanted = std::mem::take(&mut self.sweep.wanted);
        // A link at the own port that is up has to be active, whatever the switches report.
        wanted.ports.extend(self.subnet.own.filter(|own| self.is_unready(*own)));
        if wanted.heavy || self.sweep.reroute && wanted.switches.is_empty() && wanted.ports.is_empty() {
            self.tell(Event::SweepBegan { heavy: true });
            (self.sweep.heavy, self.sweep.incomplete) = (true, None);
            self.sweep.heavy_count += 1;
            self.begin_discovery();
        } else if wanted.switches.is_empty() && wanted.ports.is_empty() {
            self.look_for_greater();
            self.end_sweep();
        } else {
            self.begin_partial(wanted.switches.into_iter().collect(), wanted.ports.into_iter().collect());
        }
        self.sweep.wanted.light |= wanted.light;
    }

    fn begin_managers(&mut self) {
        self.sweep.phase = Phase::Managers;
        self.ask_managers();
    }

    /// Begins configuration: this manager is master.
    pub(crate) fn begin_configuration(&mut self) {
        self.sweep.phase = Phase::Configure;
        let setup = &self.setup;
        let reassign = setup.reassign_lids && !self.sweep.mastered;
        let rules = Rules { lmc: setup.lmc.min(7), lmc_esp0: setup.lmc_esp0, reassign };
        let (changed, none) = self.lids.assign(&mut self.subnet, rules);
        for guid in none {
            self.sweep.fail(|| format!("no LID is left for port 0x{guid:016x}"));
            self.tell(Event::NoLids { guid });
        }
        if changed {
            self.sweep.reroute = true;
            self.tell(Event::LidsChanged);
        }
        self.plan_partitions();
        self.compute_tables();
        self.configure_ports();
    }

    /// Starts a job that computes tables, if the fabric differs from the one they were computed for.
    fn compute_tables(&mut self) {
        if !self.sweep.reroute {
            return;
        }
        let graph = Graph::of(&self.subnet, self.setup.max_op_vls, &self.weights);
        let anew = std::mem::take(&mut self.sweep.anew);
        let forced = std::mem::take(&mut self.sweep.reroute) && (anew || !self.sweep.mastered);
        if !forced && graph == *self.graph && !self.tables.engine.is_empty() {
            return;
        }
        if graph.switches.is_empty() {
            (self.graph, self.tables) = (Arc::new(graph), Arc::default());
            self.places.clear();
            return;
        }
        self.job_count += 1;
        self.computing = Some(self.job_count);
        self.jobs.clear();
        let (graph, options, engines) = (Arc::new(graph), self.setup.routing.clone(), self.setup.engines.clone());
        let previous = Some((self.graph.clone(), self.tables.clone()));
        let previous = previous.filter(|(_, tables)| !anew && !tables.engine.is_empty());
        let route = Route { number: self.job_count, graph, options, engines, previous };
        self.jobs.push_back(Job(Work::Route(Box::new(route))));
    }

    pub(crate) fn on_routed(&mut self, done: Routed) {
        if self.computing != Some(done.number) {
            return;
        }
        self.computing = None;
        for refused in &done.routed.refused {
            self.tell(Event::EngineFailed { engine: refused.engine, why: refused.why.clone() });
        }
        let Some(tables) = done.routed.tables.filter(|tables| tables.lfts.len() == done.graph.switches.len()) else {
            self.sweep.fail(|| "no tables".to_owned());
            self.tell(Event::NoRouting);
            return;
        };
        let at = |guid: &u64| self.subnet.by_guid.get(guid).copied();
        let places = (0u32..).zip(&done.graph.switches);
        self.places = places.filter_map(|(place, switch)| Some((at(&switch.guid)?, place))).collect();
        self.tell(Event::Routed { engine: tables.engine });
        (self.graph, self.tables) = (done.graph, Arc::new(tables));
        self.administration.generation += 1;
    }

    /// Ends a sweep.
    pub(crate) fn end_sweep(&mut self) {
        self.sweep.phase = Phase::Idle;
        let heavy = self.sweep.heavy;
        let smps = self.wire.counts.sent - self.sweep.sent_before;
        let switches = self.subnet.nodes().filter(|(_, node)| node.switch.is_some()).count() as u32;
        let ends = self.subnet.by_port_guid.len() as u32 - switches.min(self.subnet.by_port_guid.len() as u32);
        let (came, gone, lft_blocks) = (self.sweep.came, self.sweep.gone, self.sweep.lft_blocks);
        self.tell(Event::SweepEnded(SweepCounts { heavy, switches, ends, smps, came, gone, lft_blocks }));
        let wait = match self.sweep.incomplete.take() {
            Some(what) => {
                self.sweep.failures += 1;
                self.sweep.is_up = false;
                self.tell(Event::Incomplete { what });
                self.sweep.wanted.heavy = false;
                self.sweep.again = true;
                Some(again_after(self.sweep.failures, self.setup.sweep_interval))
            }
            None => {
                (self.sweep.failures, self.sweep.again) = (0, false);
                Some(self.setup.sweep_interval).filter(|interval| !interval.is_zero())
            }
        };
        // While another master does not know of this one, this manager keeps writing over it.
        self.sweep.again |= self.state == SmState::MASTER && self.peers.rivals();
        let usurped = std::mem::take(&mut self.sweep.usurped);
        self.sweep.again |= usurped;
        if self.state == SmState::MASTER && self.sweep.failures == 0 {
            self.on_up();
        }
        self.tell_keys();
        self.end_administration();
        let soon = usurped.then(|| again_after(1, self.setup.sweep_interval));
        self.sweep.next = soon.or(wait).map(|wait| self.now + wait);
        self.hand_over_if_greater();
    }

    fn on_up(&mut self) {
        let first = !std::mem::replace(&mut self.sweep.mastered, true);
        let was_up = std::mem::replace(&mut self.sweep.is_up, true);
        if !was_up || self.sweep.written {
            self.tell(Event::SubnetUp);
        }
        self.sweep.written = false;
        if first {
            // Ports may have changed between their first read and their configuration, when switches had no manager to
            // report to.
            self.sweep.wanted.light = true;
        }
    }

    /// Begins a sweep when its time has come.
    pub(crate) fn on_sweep_timer(&mut self) {
        if self.sweep.next.is_none_or(|next| next > self.now) {
            return;
        }
        self.sweep.next = None;
        match self.sweep.again || self.state == SmState::DISCOVERING {
            true => self.sweep.wanted.heavy = true,
            false => self.sweep.wanted.light = true,
        }
    }
}

/// Returns the wait before unfinished work is tried again: longer after each failure, up to the sweep interval.
pub(super) fn again_after(failures: u32, interval: Duration) -> Duration {
    let wait = Duration::from_millis(250) * (1 << failures.min(6));
    if interval.is_zero() { wait } else { wait.min(interval) }
}
