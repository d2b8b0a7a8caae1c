//! Queries the tables of all nodes, with many requests in flight at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use weft_diags::ib::address::PortId;
use weft_diags::ib::batch::{Asker, Question};
use weft_diags::ib::fields::subn::sm_info;
use weft_diags::ib::port::{MadError, Port};
use weft_diags::ib::smp;
use weft_diags::ibnet::{Node, PortRef};

use super::survey::{GROUPS_MAX, MLID_MIN, Manager, Survey};

/// Bytes of a block of a table.
const BLOCK: usize = smp::DATA_LEN;
/// P_Keys in a block.
const PKEYS: usize = BLOCK / 2;
/// Multicast groups in a block, and ports of a switch that one position covers.
const GROUPS: usize = BLOCK / 2;
const POSITION: usize = 16;
/// PortInfo:CapabilityMask of a port that manages the subnet.
const IS_SM: u32 = 1 << 1;

/// The part of a table that a request is about.
#[derive(Clone, Copy, Debug)]
enum About {
    /// A block of a linear forwarding table.
    Linear { switch: usize, block: usize },
    /// A block of a multicast forwarding table, for 16 ports.
    Groups { switch: usize, block: usize, position: usize },
    /// A block of a P_Key table.
    Pkeys { at: PortRef, block: usize },
    /// SMInfo.
    Manager(PortRef),
    /// SLtoVL from a switch's port to another.
    Lanes { switch: usize, into: u8, out: u8 },
}

impl About {
    fn node(self) -> usize {
        match self {
            About::Linear { switch, .. } | About::Groups { switch, .. } | About::Lanes { switch, .. } => switch,
            About::Pkeys { at, .. } | About::Manager(at) => at.node,
        }
    }
}

/// Requests to send, and the survey that their answers fill.
struct Tables<'a> {
    survey: &'a mut Survey,
    queue: VecDeque<(Question, About)>,
    /// Nodes that have not answered; no further requests go to them.
    silent: BTreeSet<usize>,
    /// Switches whose forwarding table lacks a block.
    broken: BTreeSet<usize>,
}

impl Survey {
    /// Queries forwarding tables, P_Key tables and SMInfo.
    ///
    /// # Errors
    /// The port can no longer receive.
    pub fn ask_tables(&mut self, port: &mut Port) -> io::Result<()> {
        let mut queue = VecDeque::new();
        for (index, node) in self.fabric.nodes() {
            if node.is_switch() {
                linear(&mut queue, index, node);
                groups(&mut queue, index, node);
            }
            pkeys(&mut queue, index, node);
            managers(&mut queue, index, node);
        }
        self.ask(port, queue)?;
        self.groups.values_mut().for_each(|groups| groups.retain(|_, ports| !ports.is_empty()));
        self.groups.values_mut().flat_map(BTreeMap::values_mut).for_each(|ports| ports.sort_unstable());
        self.managers.sort_unstable_by_key(|manager| manager.at);
        Ok(())
    }

    /// Queries the SLtoVL tables of switches, for links to other switches.
    ///
    /// # Errors
    /// The port can no longer receive.
    pub fn ask_lanes(&mut self, port: &mut Port) -> io::Result<()> {
        let mut queue = VecDeque::new();
        for (switch, node) in self.fabric.nodes().filter(|(_, node)| node.is_switch()) {
            let wired = || node.external_ports().filter_map(|p| Some((p.num, p.remote?)));
            for (out, _) in wired().filter(|(_, remote)| self.fabric.node(remote.node).is_switch()) {
                for (into, _) in wired().filter(|(into, _)| *into != out) {
                    let modifier = u32::from(into) << 8 | u32::from(out);
                    let question = Question::smp(Survey::address(node), smp::SL2VL_TABLE, modifier);
                    queue.push_back((question, About::Lanes { switch, into, out }));
                }
            }
        }
        self.ask(port, queue)
    }

    fn ask(&mut self, port: &mut Port, queue: VecDeque<(Question, About)>) -> io::Result<()> {
        let mut tables = Tables { survey: self, queue, silent: BTreeSet::new(), broken: BTreeSet::new() };
        port.ask_all(&mut tables, super::IN_FLIGHT as usize)?;
        let broken = std::mem::take(&mut tables.broken);
        // The checks would take a hole in a table for missing routes.
        self.lfts.retain(|switch, _| !broken.contains(switch));
        self.groups.retain(|switch, _| !broken.contains(switch));
        Ok(())
    }
}

fn linear(queue: &mut VecDeque<(Question, About)>, switch: usize, node: &Node) {
    for block in 0..=usize::from(node.linear_top()) / BLOCK {
        let question = Question::smp(Survey::address(node), smp::LINEAR_FORWARDING, block as u32);
        queue.push_back((question, About::Linear { switch, block }));
    }
}

fn groups(queue: &mut VecDeque<(Question, About)>, switch: usize, node: &Node) {
    let known = usize::from(node.multicast_cap()).min(GROUPS_MAX);
    let top = usize::from(node.multicast_top().saturating_sub(MLID_MIN)) + 1;
    let known = if node.multicast_top() >= MLID_MIN { known.min(top) } else { known };
    for block in 0..known.div_ceil(GROUPS) {
        for position in 0..(usize::from(node.num_ports) + 1).div_ceil(POSITION) {
            let modifier = (block | position << 28) as u32;
            let question = Question::smp(Survey::address(node), smp::MULTICAST_FORWARDING, modifier);
            queue.push_back((question, About::Groups { switch, block, position }));
        }
    }
}

fn pkeys(queue: &mut VecDeque<(Question, About)>, index: usize, node: &Node) {
    let numbers: Vec<u8> = match node.is_switch() {
        true => vec![0],
        false => node.external_ports().map(|p| p.num).collect(),
    };
    let rows = usize::from(node.info.u16(28)).max(1);
    for number in numbers {
        let modifier = if node.is_switch() { 0 } else { u32::from(number) << 16 };
        let at = PortRef { node: index, port: number };
        for block in 0..rows.div_ceil(PKEYS) {
            let question = Question::smp(Survey::address(node), smp::PKEY_TABLE, modifier | block as u32);
            queue.push_back((question, About::Pkeys { at, block }));
        }
    }
}

fn managers(queue: &mut VecDeque<(Question, About)>, index: usize, node: &Node) {
    for of in node.ports().filter(|p| p.capability_mask() & IS_SM != 0) {
        let to = PortId::lid(if node.is_switch() { node.sma_lid } else { of.lid });
        if to.lid != 0 && (!node.is_switch() || of.num == 0) {
            let at = PortRef { node: index, port: of.num };
            queue.push_back((Question::smp(to, smp::SM_INFO, 0), About::Manager(at)));
        }
    }
}

impl Asker for Tables<'_> {
    type About = (About, Question);

    fn next(&mut self) -> Option<(Question, Self::About)> {
        loop {
            let (question, about) = self.queue.pop_front()?;
            if !self.silent.contains(&about.node()) {
                return Some((question, (about, question)));
            }
        }
    }

    fn on_answer(&mut self, (about, question): Self::About, answer: Result<&[u8], MadError>) {
        match answer {
            Ok(bytes) => self.take(about, bytes.get(..BLOCK).unwrap_or_default()),
            Err(error) => self.miss(about, &question, &error),
        }
    }
}

impl Tables<'_> {
    fn take(&mut self, about: About, bytes: &[u8]) {
        match about {
            About::Linear { switch, block } => {
                let len = usize::from(self.survey.fabric.node(switch).linear_top()) + 1;
                let table = self.survey.lfts.entry(switch).or_insert_with(|| vec![super::net::NOWHERE; len]);
                let rest = table.iter_mut().skip(block * BLOCK);
                rest.zip(bytes).for_each(|(entry, port)| *entry = *port);
            }
            About::Groups { switch, block, position } => {
                let groups = self.survey.groups.entry(switch).or_default();
                let masks = bytes.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]]));
                for (i, mask) in masks.enumerate().filter(|(_, mask)| *mask != 0) {
                    let ports =
                        (0..POSITION).filter(|bit| mask >> bit & 1 != 0).map(|bit| (position * POSITION + bit) as u8);
                    groups.entry(MLID_MIN + (block * GROUPS + i) as u16).or_default().extend(ports);
                }
            }
            About::Pkeys { at, .. } => {
                let keys = bytes.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]]));
                self.survey.pkeys.entry(at).or_default().extend(keys.filter(|key| key & 0x7fff != 0));
            }
            About::Manager(at) => {
                let (priority, state) = (sm_info::SM_PRIORITY.value(bytes) as u8, sm_info::SM_STATE.value(bytes) as u8);
                self.survey.managers.push(Manager { at, priority, state });
            }
            About::Lanes { switch, into, out } => {
                let row = std::array::from_fn(|pair| bytes.get(pair).copied().unwrap_or(0));
                self.survey.lanes.insert((switch, into, out), row);
            }
        }
    }

    /// Records a request without an answer; a silent node is recorded once.
    fn miss(&mut self, about: About, question: &Question, error: &MadError) {
        let node = about.node();
        match about {
            About::Manager(_) => return,
            About::Pkeys { at, block } if block > 0 && error.status != 0 => {
                self.survey.pkeys.entry(at).or_default();
                return;
            }
            About::Linear { switch, .. } | About::Groups { switch, .. } => drop(self.broken.insert(switch)),
            About::Pkeys { .. } | About::Lanes { .. } => {}
        }
        if error.status == 0 && !self.silent.insert(node) {
            return;
        }
        let name = self.survey.fabric.node(node).called(&self.survey.names);
        let Question { attribute, modifier, .. } = question;
        self.survey.silent.push(format!("{name}: attribute 0x{attribute:x}, {modifier}"));
    }
}
