//! A policy resolved against the ports of a subnet: group members are known in advance, so that lookups are fast.

use weft_wire::mad::subn::NodeType;

use super::{MatchRule, Policy, PortGroup, QosLevel, contains};
use crate::partition::{FULL, Plan};
use crate::subnet::{Node, Port, Subnet};

/// A path query, as far as a policy considers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Question {
    /// PortGUID of the source.
    pub source: u64,
    /// PortGUID of the destination.
    pub destination: u64,
    /// The ServiceID, if the query has one.
    pub service_id: Option<u64>,
    /// The QoS class, if the query has one.
    pub qos_class: Option<u16>,
    /// The P_Key, if the query has one.
    pub pkey: Option<u16>,
}

/// A policy resolved against the ports of a subnet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    policy: Policy,
    /// PortGUIDs, sorted.
    ports: Vec<u64>,
    /// Members of each group, a bit for each port.
    groups: Vec<Vec<u64>>,
}

impl Policy {
    /// Resolves the groups to ports.
    pub fn bind(&self, subnet: &Subnet, plan: &Plan) -> Bound {
        let own = subnet.own.and_then(|own| Some(subnet.port(own)?.guid));
        let ends: Vec<_> = subnet.end_ports().map(|(_, node, port)| (node, port)).collect();
        let ports = ends.iter().map(|(_, port)| port.guid).collect();
        let mut groups = vec![vec![0; ends.len().div_ceil(64)]; self.groups.len()];
        for (bits, group) in groups.iter_mut().zip(&self.groups) {
            for (place, (node, port)) in ends.iter().enumerate() {
                if is_in(group, node, port, plan, own) {
                    bits[place / 64] |= 1 << (place % 64);
                }
            }
        }
        Bound { policy: self.clone(), ports, groups }
    }

    /// Returns likely mistakes of a policy with these partitions, a line each.
    pub fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = Vec::new();
        for rule in &self.rules {
            let Some(level) = self.levels.get(rule.level) else { continue };
            if !rule.pkeys.is_empty()
                && !plan.partitions.iter().any(|known| contains(&rule.pkeys, u64::from(known.key)))
            {
                warnings.push(format!("line {}: no partition has a P_Key of this rule", rule.line));
            }
            for partition in plan.partitions.iter().filter(|known| contains(&rule.pkeys, u64::from(known.key))) {
                if let Some(sl) = level.sl.filter(|sl| *sl != partition.sl) {
                    let (name, own) = (&partition.name, partition.sl);
                    let line = rule.line;
                    warnings.push(format!("line {line}: service level {sl} is not that of partition {name}, {own}"));
                }
            }
        }
        warnings
    }
}

impl Bound {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the level that applies to a path.
    pub fn level_for(&self, question: &Question) -> Option<&QosLevel> {
        let source = self.ports.binary_search(&question.source).ok();
        let destination = self.ports.binary_search(&question.destination).ok();
        let rule = self.policy.rules.iter().find(|rule| self.matches(rule, question, source, destination));
        self.policy.levels.get(rule.map_or(self.policy.default, |rule| rule.level))
    }

    fn matches(
        &self,
        rule: &MatchRule,
        question: &Question,
        source: Option<usize>,
        destination: Option<usize>,
    ) -> bool {
        let of = |groups: &[usize], port| groups.is_empty() || groups.iter().any(|group| self.is_in(*group, port));
        let (from, to) = (of(&rule.sources, source), of(&rule.destinations, destination));
        let ends = if rule.either { from || to } else { from && to };
        let says = |ranges, number: Option<u64>| matches(ranges, number);
        ends && says(&rule.classes, question.qos_class.map(u64::from))
            && says(&rule.services, question.service_id)
            && says(&rule.pkeys, question.pkey.map(|pkey| u64::from(pkey & !FULL)))
    }

    fn is_in(&self, group: usize, port: Option<usize>) -> bool {
        let word = |port: usize| self.groups.get(group)?.get(port / 64).map(|word| word >> (port % 64) & 1 != 0);
        port.and_then(word).unwrap_or(false)
    }
}

/// Whether a number is in the ranges; a query without the number matches only if there are no ranges.
fn matches(ranges: &super::Ranges, number: Option<u64>) -> bool {
    ranges.is_empty() || number.is_some_and(|number| contains(ranges, number))
}

fn is_in(group: &PortGroup, node: &Node, port: &Port, plan: &Plan, own: Option<u64>) -> bool {
    let kind = match node.info.node_type {
        NodeType::CA => group.cas,
        NodeType::SWITCH => group.switches,
        NodeType::ROUTER => group.routers,
        _ => false,
    };
    let number = if node.info.node_type == NodeType::SWITCH { 0 } else { port.info.local_port_num };
    let named = || {
        let text = node.description.text();
        group.names.iter().any(|(name, wanted)| *wanted == number && *name == text)
    };
    let in_partition = || {
        let partitions = plan.partitions.iter();
        let mut wanted = partitions
            .filter(|known| contains(&group.pkeys, u64::from(known.key)) || group.partitions.contains(&known.name));
        wanted.any(|known| known.member(port.guid, node.info.node_type).is_some())
    };
    kind || group.myself && own == Some(port.guid)
        || contains(&group.guids, port.guid)
        || named()
        || (!group.pkeys.is_empty() || !group.partitions.is_empty()) && in_partition()
}
