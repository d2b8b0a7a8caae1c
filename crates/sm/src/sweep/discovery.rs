//! Discovery: asks the node at the end of each cable, and reads each node and each port once.

use smallvec::SmallVec;
use weft_wire::mad::subn::{
    CapabilityMask, GuidInfo, NodeDescription, NodeInfo, NodeType, PKeyTable, PortInfo, PortState, SmState, SwitchInfo,
};

use super::{Ask, Doubt, Isolated, Phase, What};
use crate::manager::{Event, Manager};
use crate::subnet::{NodeIx, PortIx, Route};

impl Manager {
    /// Whether the cable at a port was seen in this sweep.
    pub(crate) fn is_linked(&self, at: PortIx) -> bool {
        self.sweep.marks.get(at.node.0 as usize).is_some_and(|mark| mark.is_linked(at.port))
    }

    pub(super) fn ask(&mut self, what: What, at: PortIx, arg: u32) {
        self.wire.ask(Ask { what, at, arg });
    }

    pub(crate) fn ask_node(&mut self, what: What, node: NodeIx) {
        // Any port of a switch will do; for other nodes, use the port that was found.
        let port =
            self.subnet.node(node).filter(|node| node.switch.is_none()).map_or(0, |node| node.info.local_port_num);
        self.ask(what, PortIx { node, port }, 0);
    }

    /// Discovers everything, beginning at the manager's own port.
    pub(crate) fn begin_discovery(&mut self) {
        self.begin_looking(Phase::Discover);
        self.sweep.isolated.clear();
        self.sweep.risen.clear();
        (self.sweep.later, self.sweep.nearing) = Default::default();
        self.ask(What::OwnNode, self.subnet.own.unwrap_or(PortIx { node: NodeIx(0), port: 0 }), 0);
    }

    /// Begins to read nodes: no cable has been seen yet in this sweep.
    pub(crate) fn begin_looking(&mut self, phase: Phase) {
        self.sweep.phase = phase;
        self.sweep.look += 1;
        self.sweep.marks.iter_mut().for_each(|mark| mark.linked = [0; 4]);
        self.sweep.doubts.clear();
    }

    /// Handles the NodeInfo from the end of the cable at `from`, or from the manager's own node if there is no cable.
    pub(crate) fn on_node_info(&mut self, from: Option<PortIx>, info: &NodeInfo) {
        let port = info.local_port_num;
        let sane = info.node_guid != 0 && info.num_ports > 0 && info.num_ports < 255 && port <= info.num_ports;
        if !sane || port == 0 && info.node_type != NodeType::SWITCH {
            return;
        }
        let Some(node) = self.found_node(from, info) else { return };
        let at = PortIx { node, port };
        match from {
            Some(from) if !self.join(from, at, info.node_guid) => return,
            Some(_) => {}
            None => self.subnet.own = Some(at),
        }
        let end = if info.node_type == NodeType::SWITCH { PortIx { node, port: 0 } } else { at };
        if !self.subnet.name_port(end, info.port_guid) {
            let first = self.subnet.by_port_guid.get(&info.port_guid).map(|at| self.subnet.call(*at));
            let second = self.subnet.call(from.unwrap_or(end));
            self.tell(Event::DuplicateGuid { guid: info.port_guid, first: first.unwrap_or_default(), second });
            if let Some(from) = from {
                self.subnet.unlink(from);
                self.sweep.isolated.insert(from, Isolated::Duplicate);
            }
            return;
        }
        let look = self.sweep.look;
        if self.sweep.mark(node).read != look {
            self.read_node(node);
        } else if info.node_type != NodeType::SWITCH {
            self.ask(What::PortInfo, at, 0);
        }
    }

    /// Returns the node with this GUID, a new one if it is unknown.
    fn found_node(&mut self, from: Option<PortIx>, info: &NodeInfo) -> Option<NodeIx> {
        let known = self.subnet.by_guid.get(&info.node_guid).copied();
        let fits = known
            .and_then(|node| self.subnet.node(node))
            .is_some_and(|node| (node.info.node_type, node.info.num_ports) == (info.node_type, info.num_ports));
        if let Some(node) = known.filter(|_| !fits) {
            let now = self.sweep.look;
            if self.sweep.mark(node).read == now {
                let first = self.subnet.call(PortIx { node, port: 0 });
                let second = from.map(|from| self.subnet.call(from)).unwrap_or_default();
                self.tell(Event::DuplicateGuid { guid: info.node_guid, first, second });
                if let Some(from) = from {
                    self.sweep.isolated.insert(from, Isolated::Duplicate);
                }
                return None;
            }
            self.lose_node(node);
        }
        let route = self.route_beyond(from);
        let look = self.sweep.look;
        if let Some(node) = known.filter(|_| fits) {
            if self.sweep.mark(node).read != look && self.sweep.heavy {
                let held = self.subnet.node_mut(node)?;
                (held.route, held.info) = (route, *info);
            }
            return Some(node);
        }
        let node = self.subnet.insert(*info, route)?;
        *self.sweep.mark(node) = super::Mark { fresh: true, ..super::Mark::default() };
        self.sweep.cleared.remove(&node);
        self.sweep.came += 1;
        self.sweep.reroute = true;
        Some(node)
    }

    fn route_beyond(&self, from: Option<PortIx>) -> Route {
        let Some(from) = from else { return Route::new() };
        let mut path = [0; 64];
        let hops = self.subnet.write_route(from, &mut path).unwrap_or(0);
        let mut route: Route = SmallVec::from_slice(&path[1..=usize::from(hops.min(62))]);
        route.push(from.port);
        route
    }

    /// Records a cable between two ports; `false` if that is impossible or needs another read.
    fn join(&mut self, from: PortIx, at: PortIx, guid: u64) -> bool {
        let other = self.subnet.port(at).and_then(|port| port.neighbor).filter(|other| *other != from);
        if let Some(other) = other.filter(|_| self.is_linked(at)) {
            let doubt = Doubt { guid, seems: at, first: other, second: from };
            self.sweep.doubts.push(doubt);
            self.ask(What::Verify, other, self.sweep.doubts.len() as u32 - 1);
            return false;
        }
        if from.node == at.node && from.port == at.port {
            return false;
        }
        if self.subnet.port(from).is_some_and(|port| port.neighbor != Some(at)) {
            self.sweep.reroute = true;
        }
        self.subnet.link(from, at);
        self.sweep.mark(from.node).set_linked(from.port);
        self.sweep.mark(at.node).set_linked(at.port);
        true
    }

    /// Handles the second answer of the first of two ports that seemed to lead to the same one.
    pub(crate) fn on_verified(&mut self, ask: Ask, info: Option<&NodeInfo>) {
        let Some(doubt) = self.sweep.doubts.get(ask.arg as usize).copied() else { return };
        let stands = info.is_some_and(|info| info.node_guid == doubt.guid && info.local_port_num == doubt.seems.port);
        if stands {
            let (first, second) = (self.subnet.call(doubt.first), self.subnet.call(doubt.second));
            self.sweep.isolated.insert(doubt.second, Isolated::Duplicate);
            self.tell(Event::DuplicateGuid { guid: doubt.guid, first, second });
        } else {
            // The cable was moved during discovery.
            self.subnet.unlink(doubt.first);
            self.sweep.mark(doubt.seems.node).linked = [0; 4];
            self.ask(What::NodeInfo, doubt.second, 0);
            self.sweep.wanted.heavy = true;
        }
    }

    /// Reads a node: everything still unknown, and everything that may have changed.
    pub(super) fn read_node(&mut self, node: NodeIx) {
        let look = self.sweep.look;
        self.sweep.mark(node).read = look;
        let Some(held) = self.subnet.node(node) else { return };
        let (is_switch, info) = (held.switch.is_some(), held.info);
        if held.description == NodeDescription::default() {
            self.sweep.nameless.insert(node);
        }
        match is_switch {
            true => self.ask_node(What::SwitchInfo, node),
            false => {
                let linked = (1..=info.num_ports).find(|port| self.is_linked(PortIx { node, port: *port }));
                self.ask(What::PortInfo, PortIx { node, port: linked.unwrap_or(info.local_port_num) }, 0);
            }
        }
    }

    pub(crate) fn on_switch_info(&mut self, node: NodeIx, info: SwitchInfo) {
        let master = self.state == SmState::MASTER;
        self.keep_switch_info(node, info);
        if master && info.port_state_change {
            return self.ask_node(What::ClearChange, node);
        }
        self.read_ports(node);
    }

    /// Reads the ports of a switch, which from now on reports further changes.
    pub(crate) fn on_cleared(&mut self, node: NodeIx, info: SwitchInfo) {
        self.keep_switch_info(node, info);
        self.read_ports(node);
    }

    /// Records the SwitchInfo of a switch; one that reports another table size has lost its tables.
    fn keep_switch_info(&mut self, node: NodeIx, info: SwitchInfo) {
        let Some(switch) = self.subnet.node_mut(node).and_then(|node| node.switch.as_mut()) else { return };
        let lost = switch.info.linear_fdb_top != info.linear_fdb_top && !switch.lft.is_empty();
        switch.info = info;
        if lost {
            self.forget_tables(node);
        }
    }

    /// Forgets the tables of a switch.
    pub(crate) fn forget_tables(&mut self, node: NodeIx) {
        if let Some(switch) = self.subnet.node_mut(node).and_then(|node| node.switch.as_mut()) {
            switch.lft.clear();
            switch.mft.clear();
        }
        self.sweep.mark(node).fresh = true;
        self.sweep.reroute = true;
        self.sweep.cleared.remove(&node);
        self.sweep.lanes.retain(|at, _| at.node != node);
    }

    fn read_ports(&mut self, node: NodeIx) {
        let ports = self.subnet.node(node).map_or(0, |node| node.info.num_ports);
        (0..=ports).for_each(|port| self.ask(What::PortInfo, PortIx { node, port }, 0));
    }

    pub(crate) fn on_port_info(&mut self, at: PortIx, mut info: PortInfo) {
        info.client_reregister = false;
        self.see_key(at, &info, false);
        let is_own = self.is_own(at);
        let Some(node) = self.subnet.node(at.node) else { return };
        let is_switch = node.switch.is_some();
        let Some(port) = self.subnet.port_mut(at) else { return };
        let seen = |info: &PortInfo| (info.port_state >= PortState::INIT, info.vl_cap, info.link_width_active);
        let speed = |info: &PortInfo| weft_wire::mad::Speed::active(info);
        self.sweep.reroute |= seen(&port.info) != seen(&info) || speed(&port.info) != speed(&info);
        // A switch that lost its LID rebooted, even if LinearFDBTop is right: that alone may have been set again.
        let booted = at.port == 0 && is_switch && port.lid != 0 && info.lid != port.lid;
        let before = std::mem::replace(&mut port.info, info);
        if info.port_state == PortState::INIT {
            port.pkeys.clear();
            self.sweep.lanes.remove(&at);
        }
        if !is_switch && info.port_state == PortState::INIT {
            self.reregister.insert(at);
        }
        if booted {
            self.forget_tables(at.node);
        }
        if at.port == 0 || !is_switch && !is_own {
            return self.read_end(at, &before, &info);
        }
        if is_own {
            self.read_end(at, &before, &info);
        }
        if info.port_state < PortState::INIT {
            return self.on_link_down(at);
        }
        if self.is_linked(at) {
            return self.look_across(at);
        }
        let known = self.subnet.port(at).is_some_and(|port| port.neighbor.is_some());
        if self.sweep.heavy || info.port_state == PortState::INIT || !known {
            return self.ask(What::NodeInfo, at, 0);
        }
        // The other end may be the only sign of a link that fell back during bring-up.
        let neighbor = self.subnet.port(at).and_then(|port| port.neighbor);
        if let Some(end) = neighbor.filter(|end| self.sweep.risen.remove(end)) {
            self.ask(What::PortInfo, end, 0);
        }
    }

    /// Reads the other end again if a link fell back after that end was read.
    fn look_across(&mut self, at: PortIx) {
        let Some(port) = self.subnet.port(at).filter(|port| port.info.port_state == PortState::INIT) else { return };
        let stale = |end: &PortIx| self.subnet.port(*end).is_some_and(|end| end.info.port_state > PortState::INIT);
        if let Some(end) = port.neighbor.filter(stale) {
            self.ask(What::PortInfo, end, 0);
        }
    }

    /// Detects another manager: a port with another master or a wrong LID was configured by it, and the rest of what it
    /// wrote is unknown. Until the first complete sweep, only a port that this manager has set proves that.
    pub(super) fn see_usurper(&mut self, at: PortIx, before: &PortInfo, info: &PortInfo) {
        let (given, own) = (self.subnet.port(at).map_or(0, |port| port.lid), self.own_lid());
        let other =
            info.master_sm_lid != own && info.master_sm_lid != 0 || given != 0 && info.lid != 0 && info.lid != given;
        let was_set = given != 0 && before.lid == given && before.master_sm_lid == own;
        let ruled = self.state == SmState::MASTER && (self.sweep.mastered || was_set);
        if !other || !ruled || self.sweep.usurped {
            return;
        }
        self.sweep.usurped = true;
        if self.sweep.phase == Phase::Light {
            self.sweep.wanted.heavy = true;
        }
        self.forget_all();
    }

    /// Reads the other tables of an end port.
    fn read_end(&mut self, at: PortIx, before: &PortInfo, info: &PortInfo) {
        self.see_usurper(at, before, info);
        match info.capability_mask.contains(CapabilityMask::SM) {
            true if self.is_own(at) => {}
            true => self.peers.seen(at),
            false => self.on_peer_gone(at),
        }
        let Some(port) = self.subnet.port(at) else { return };
        let (guid, unknown) = (port.guid, port.pkeys.is_empty());
        if unknown {
            self.ask(What::PKeys, at, 0);
        }
        // A port that restarted has lost its assigned GUIDs.
        let given = self.administration.sa.guids_of(guid).map_or(0, <[u64]>::len);
        if info.port_state == PortState::INIT && given > 1 && self.state == SmState::MASTER {
            (0..given.div_ceil(8) as u32).for_each(|block| self.ask(What::SetGuids, at, block));
        }
    }

    pub(crate) fn on_link_down(&mut self, at: PortIx) {
        self.sweep.isolated.remove(&at);
        let Some(other) = self.subnet.unlink(at) else { return };
        self.sweep.reroute = true;
        if let Some(port) = self.subnet.port_mut(other) {
            port.info.port_state = PortState::DOWN;
        }
        if !self.sweep.heavy {
            // Requests still queued take other routes.
            self.subnet.find_ways();
        }
    }

    pub(crate) fn on_pkeys(&mut self, ask: Ask, table: &PKeyTable) {
        let blocks = self.pkey_blocks(ask.at);
        let Some(port) = self.subnet.port_mut(ask.at) else { return };
        if ask.arg as usize * 32 != port.pkeys.len() {
            return;
        }
        port.pkeys.extend_from_slice(&table.pkeys);
        let full = table.pkeys.last().is_some_and(|key| *key != 0);
        if full && ask.arg + 1 < blocks {
            self.ask(What::PKeys, ask.at, ask.arg + 1);
        }
    }

    /// Returns the number of blocks of a port's P_Key table.
    pub(crate) fn pkey_blocks(&self, at: PortIx) -> u32 {
        let Some(node) = self.subnet.node(at.node) else { return 0 };
        let entries = match &node.switch {
            Some(switch) if at.port != 0 => switch.info.partition_enforcement_cap,
            _ => node.info.partition_cap,
        };
        u32::from(entries).div_ceil(32)
    }

    pub(crate) fn on_guids(&mut self, ask: Ask, table: &GuidInfo) {
        let Some(port) = self.subnet.port_mut(ask.at) else { return };
        let first = ask.arg as usize * 8;
        if first < 256 {
            port.guids.resize(port.guids.len().max(first + 8), 0);
            port.guids[first..first + 8].copy_from_slice(&table.guids);
        }
    }

    /// Handles a port whose link is up but whose peer does not answer.
    pub(crate) fn on_silent_end(&mut self, at: PortIx) {
        if self.is_linked(at) {
            return;
        }
        let text = self.subnet.call(at);
        self.subnet.unlink(at);
        self.sweep.isolated.insert(at, Isolated::Silent);
        self.sweep.reroute = true;
        self.sweep.fail(|| format!("the node behind {text} does not answer"));
        self.tell(Event::Silent { at: text });
    }

    /// Handles a known node that does not answer: the next sweep is heavy.
    pub(crate) fn on_silent_node(&mut self, ask: Ask) {
        let at = self.subnet.call(ask.at);
        self.sweep.fail(|| format!("{at} does not answer"));
        self.sweep.wanted.heavy = true;
    }

    /// Removes a node that left.
    pub(crate) fn lose_node(&mut self, at: NodeIx) {
        let Some(node) = self.subnet.remove(at) else { return };
        let lid = node.ports.iter().map(|port| port.lid).find(|lid| *lid != 0).unwrap_or(0);
        let name = self.subnet.name(&node).into_owned();
        self.tell(Event::Gone { guid: node.info.node_guid, name, lid });
        self.reregister.retain(|port| port.node != at);
        self.sweep.nameless.remove(&at);
        self.sweep.isolated.retain(|port, _| port.node != at);
        self.sweep.unsure.retain(|(node, _)| *node != at);
        self.sweep.risen.retain(|port| port.node != at);
        self.sweep.lanes.retain(|port, _| port.node != at);
        for port in 0..=u8::MAX {
            self.sweep.stubborn.remove(&PortIx { node: at, port });
        }
        self.sweep.cleared.remove(&at);
        self.departed.extend(node.ports.iter().map(|port| port.guid).filter(|guid| *guid != 0));
        *self.sweep.mark(at) = super::Mark::default();
        self.peers.forget_node(at);
        self.sweep.gone += 1;
        self.sweep.reroute = true;
    }

    /// Ends discovery, when all requests are answered: nodes and cables not seen are gone.
    pub(crate) fn end_discovery(&mut self) {
        if self.sweep.heavy {
            let stale: Vec<PortIx> = (0u32..)
                .zip(&self.subnet.nodes)
                .filter_map(|(place, node)| Some((NodeIx(place), node.as_ref()?)))
                .flat_map(|(node, held)| {
                    let linked = (0..=u8::MAX).zip(&held.ports).filter(|(_, port)| port.neighbor.is_some());
                    linked.map(move |(port, _)| PortIx { node, port })
                })
                .filter(|at| !self.is_linked(*at))
                .collect();
            for at in stale {
                self.subnet.unlink(at);
                self.sweep.reroute = true;
            }
        }
        for node in self.subnet.find_ways() {
            self.lose_node(node);
        }
        self.find_reborn();
    }

    /// Detects switches that restarted: none of their links is configured, whatever their tables seem to be.
    fn find_reborn(&mut self) {
        let look = self.sweep.look;
        let reborn: Vec<NodeIx> = self
            .subnet
            .nodes()
            .filter(|(node, held)| {
                let read = self.sweep.marks.get(node.0 as usize).is_some_and(|mark| mark.read == look);
                let mut links = held.ports.iter().skip(1).filter(|port| port.neighbor.is_some()).peekable();
                let known = held.switch.as_ref().is_some_and(|switch| !switch.lft.is_empty());
                read && known && links.peek().is_some() && links.all(|port| port.info.port_state == PortState::INIT)
            })
            .map(|(node, _)| node)
            .collect();
        reborn.into_iter().for_each(|node| self.forget_tables(node));
    }
}
