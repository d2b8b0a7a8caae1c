//! Dry run of a partition change: its effects before it goes live, and likely mistakes.

use std::collections::BTreeMap;

use weft_wire::mad::subn::{NodeType, PortInfo};
use weft_wire::mad::{Rate, Speed};

use super::config::{Config, DEFAULT_KEY, Membership};
use super::keys::FULL;
use super::plan::{Group, Plan};
use super::resolve::Partition;
use crate::options::Options;
use crate::subnet::{Node, Port, Subnet};

/// Port names in one line of a report; further ports are only counted.
const NAMES_MAX: usize = 8;

/// Report on a partition change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Changes, a line each.
    pub changes: Vec<String>,
    /// Likely mistakes, a line each.
    pub warnings: Vec<String>,
}

/// Compares two configurations on a subnet, without sending anything.
pub fn check(old: &Config, new: &Config, subnet: &Subnet, options: &Options) -> Report {
    let before = Plan::new(old, subnet, options, None);
    let after = Plan::new(new, subnet, options, Some(&before));
    let mut report = Report::default();
    members(&before, &after, subnet, &mut report);
    groups(&before, &after, &mut report);
    reach(&before, &after, subnet, &mut report);
    default_rule(new, &mut report);
    for partition in &after.partitions {
        judge(partition, subnet, &mut report);
    }
    room(&after, subnet, &mut report);
    report
}

/// Describes a port for people.
fn name(node: &Node, port: &Port) -> String {
    let number = port.info.local_port_num;
    let text = node.description.text();
    match node.info.node_type {
        NodeType::SWITCH => format!("{text} ({:#018x})", port.guid),
        _ => format!("{text} port {number} ({:#018x})", port.guid),
    }
}

/// Joins names, up to the limit.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn spelled(partition: &Partition) -> String {
    format!("{} ({:#06x})", partition.name, partition.key)
}

/// Reports ports that join, leave, become full or limited, by partition.
fn members(before: &Plan, after: &Plan, subnet: &Subnet, report: &mut Report) {
    let mut keys: BTreeMap<u16, String> = BTreeMap::new();
    for partition in before.partitions.iter().chain(&after.partitions) {
        keys.insert(partition.key, spelled(partition));
    }
    for (key, spelled) in keys {
        let mut changes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (_, node, port) in subnet.end_ports() {
            let of = |plan: &Plan| plan.partition(key).and_then(|known| known.member(port.guid, node.info.node_type));
            let what = match (of(before), of(after)) {
                (old, new) if old == new => continue,
                (_, None) => "leave it",
                (None, Some(Membership::Full)) => "become full members",
                (None, Some(Membership::Limited)) => "become limited members",
                (None, Some(Membership::Both)) => "become full and limited members",
                (Some(_), Some(Membership::Full)) => "be full members from now on",
                (Some(_), Some(Membership::Limited)) => "be limited members from now on",
                (Some(_), Some(Membership::Both)) => "be full and limited members from now on",
            };
            changes.entry(what).or_default().push(name(node, port));
        }
        for (what, names) in changes {
            report.changes.push(format!("partition {spelled}: {} {what}: {}", ports(names.len()), list(&names)));
        }
    }
}

fn ports(count: usize) -> String {
    if count == 1 { "1 port would".to_owned() } else { format!("{count} ports would") }
}

fn groups(before: &Plan, after: &Plan, report: &mut Report) {
    let spell = |group: &Group| {
        let mgid = std::net::Ipv6Addr::from(group.mgid);
        format!("{mgid} (P_Key {:#06x}, MTU {}, rate {}, SL {})", group.pkey, group.mtu, group.rate, group.sl)
    };
    for group in before.groups.iter().filter(|group| !after.groups.contains(group)) {
        report.changes.push(format!("multicast group {} goes", spell(group)));
    }
    for group in after.groups.iter().filter(|group| !before.groups.contains(group)) {
        report.changes.push(format!("multicast group {} comes", spell(group)));
    }
}

/// Counts pairs of hosts that reach each other: by classes of equal tables, which is fast on large subnets.
fn reach(before: &Plan, after: &Plan, subnet: &Subnet, report: &mut Report) {
    let pairs = |plan: &Plan| -> (u64, u64) {
        let mut classes: BTreeMap<&[u16], (u64, u64)> = BTreeMap::new();
        for (_, node, port) in subnet.end_ports().filter(|(_, node, _)| node.info.node_type != NodeType::SWITCH) {
            let _ = node;
            classes.entry(plan.table(port.guid)).or_insert((port.guid, 0)).1 += 1;
        }
        let classes: Vec<(u64, u64)> = classes.into_values().collect();
        let (mut meet, mut all) = (0, 0);
        for (place, (guid, count)) in classes.iter().enumerate() {
            for (other, others) in classes.iter().skip(place) {
                let pairs = if guid == other { count * (count - 1) / 2 } else { count * others };
                all += pairs;
                meet += if plan.shared(*guid, *other).is_some() { pairs } else { 0 };
            }
        }
        (meet, all)
    };
    let ((old, _), (new, all)) = (pairs(before), pairs(after));
    if old != new {
        report.changes.push(format!("of {all} pairs of hosts, {new} would reach each other instead of {old}"));
    }
    if new == 0 && all > 0 {
        report.warnings.push("no two hosts would reach each other".to_owned());
    }
}

fn default_rule(new: &Config, report: &mut Report) {
    if *new == Config::Broken {
        report
            .warnings
            .push("the file cannot be used: everybody would be a full member of the default partition".to_owned());
    }
    if !new.has_default_rule() {
        let what = "no rule for the default partition: every host would be a limited member there, and reach the manager only; write Default=0x7fff : ALL=full ;";
        report.warnings.push(what.to_owned());
    }
}

/// Reports likely mistakes in a partition.
fn judge(partition: &Partition, subnet: &Subnet, report: &mut Report) {
    let spelled = spelled(partition);
    let mut members = 0;
    let mut speakers = 0;
    let mut slow: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, node, port) in subnet.end_ports() {
        let Some(membership) = partition.member(port.guid, node.info.node_type) else { continue };
        if node.info.node_type == NodeType::SWITCH {
            continue;
        }
        members += 1;
        speakers += usize::from(membership != Membership::Limited);
        for group in &partition.groups {
            if let Some(why) = kept_out(group, &port.info) {
                slow.entry(why).or_default().push(name(node, port));
            }
        }
    }
    if members > 1 && speakers == 0 && partition.key != DEFAULT_KEY {
        report
            .warnings
            .push(format!("partition {spelled}: all members are limited, so no two of them reach each other"));
    }
    for (why, mut names) in slow {
        names.dedup();
        report.warnings.push(format!("partition {spelled}: {why}: {}", list(&names)));
    }
    let unknown: Vec<String> = partition
        .named()
        .filter(|guid| !subnet.by_port_guid.contains_key(guid))
        .map(|guid| {
            let node =
                if subnet.by_guid.contains_key(&guid) { ", which is a node's GUID: PortGUIDs count" } else { "" };
            format!("{guid:#018x}{node}")
        })
        .collect();
    if !unknown.is_empty() {
        report.warnings.push(format!("partition {spelled}: not on this subnet: {}", list(&unknown)));
    }
}

/// Returns the reason why a port cannot join a group.
fn kept_out(group: &Group, info: &PortInfo) -> Option<String> {
    if info.mtu_cap != 0 && info.mtu_cap < group.mtu {
        return Some(format!("MTU {} of its groups is above that of ports, which could not join", group.mtu));
    }
    let port = Rate::of_link(info.link_width_active, Speed::active(info)?)?;
    let wanted = Rate(group.rate);
    (port.tenths() < wanted.tenths()).then(|| {
        format!("rate {} ({wanted} Gb/s) of its groups is above that of ports, which could not join", group.rate)
    })
}

/// Reports P_Keys for which a port's table has no room.
fn room(plan: &Plan, subnet: &Subnet, report: &mut Report) {
    for (_, node, port) in subnet.end_ports() {
        let Some(keys) = plan.ports.get(&port.guid).filter(|keys| !keys.left_out.is_empty()) else { continue };
        let left: Vec<String> = keys.left_out.iter().map(|key| format!("{:#06x}", key | FULL)).collect();
        let room = node.info.partition_cap;
        report.warnings.push(format!(
            "{}: the P_Key table has {room} entries, no room for {}",
            name(node, port),
            list(&left)
        ));
    }
    let overflowed = plan.enforced.iter().filter(|(_, enforced)| enforced.overflowed);
    for (at, _) in overflowed {
        let switch = subnet.node(at.node).map_or(String::new(), |node| node.description.text().into_owned());
        report.warnings.push(format!("{switch} port {}: too few P_Key entries to enforce partitions there", at.port));
    }
}
