//! Plan of a subnet's partitions: the P_Key table of every end port, the enforcement at switch ports that face hosts,
//! and the multicast groups that exist from the start.

use std::collections::BTreeMap;

use weft_wire::mad::subn::NodeType;

use super::config::{Config, Membership};
pub use super::groups::{BROADCAST, Group};
use super::keys::{FULL, Keys, Wanted, place};
use super::resolve::{Entry, Partition, Settings, resolve};
use crate::options::{Options, PartEnforce};
use crate::subnet::{Node, Port, PortIx, Subnet};

/// Plan of a subnet's partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Partitions that have members, in order of their keys' byte-swapped values.
    pub partitions: Vec<Partition>,
    /// P_Key tables of end ports, by PortGUID.
    pub ports: BTreeMap<u64, Keys>,
    /// Enforcement at switch ports that face adapters and routers.
    pub enforced: BTreeMap<PortIx, Enforced>,
    /// Groups that exist from the start, grouped by partition.
    pub groups: Vec<Group>,
    /// P_Keys that the manager chose, by partition name.
    made_up: BTreeMap<String, u16>,
}

/// Enforcement at a switch port that faces a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Enforced {
    /// P_Keys that may pass; empty if nothing is enforced, and then the table stays as it is.
    pub table: Vec<u16>,
    /// Filter packets from the host.
    pub inbound: bool,
    /// Filter packets to the host.
    pub outbound: bool,
    /// The switch has too few entries, and lets every packet pass.
    pub overflowed: bool,
}

impl Plan {
    /// Computes the plan. Indexes and chosen keys of a former plan stay.
    pub fn new(config: &Config, subnet: &Subnet, options: &Options, former: Option<&Plan>) -> Plan {
        let own = subnet.own.and_then(|own| Some(subnet.port(own)?.guid));
        let settings = Settings { own, qos: options.qos.qos, packet_life: options.device.subnet_timeout };
        let none = Plan::default();
        let former = former.unwrap_or(&none);
        let mut partitions = resolve(config, settings, &former.made_up);
        let mut plan = Plan { made_up: made_up(config, &partitions), ..Plan::default() };
        let mut peopled = vec![false; partitions.len()];
        for (at, node, port) in subnet.end_ports() {
            let keys = port_keys((node, port), &partitions, &mut peopled, options, former.ports.get(&port.guid));
            if node.info.node_type != NodeType::SWITCH {
                plan.enforced.extend(enforced(subnet, at, &keys, options.partitions.enforcement()));
            }
            plan.ports.insert(port.guid, keys);
        }
        let mut has_members = peopled.into_iter();
        partitions.retain(|_| has_members.next().unwrap_or(false));
        plan.groups = partitions.iter().flat_map(|partition| partition.groups.iter().copied()).collect();
        plan.partitions = partitions;
        plan
    }

    /// Returns the table of an end port, by PortGUID.
    pub fn table(&self, guid: u64) -> &[u16] {
        self.ports.get(&guid).map_or(&[], |keys| &keys.table)
    }

    /// Returns the partition of a P_Key, with or without the membership bit.
    pub fn partition(&self, pkey: u16) -> Option<&Partition> {
        let order = (pkey & !FULL).swap_bytes();
        let place = self.partitions.binary_search_by_key(&order, |partition| partition.key.swap_bytes()).ok()?;
        self.partitions.get(place)
    }

    /// Returns the P_Key by which two end ports may communicate, with the full-membership bit: the first in the tables.
    /// `None` if they share no partition.
    pub fn shared(&self, a: u64, b: u64) -> Option<u16> {
        let (a, b) = (self.table(a), self.table(b));
        let meets = |key: &u16| {
            b.iter().any(|other| key & !FULL != 0 && (key ^ other) & !FULL == 0 && (key | other) & FULL != 0)
        };
        a.iter().find(|key| meets(key)).map(|key| key | FULL)
    }

    /// Returns the end ports whose table differs in another plan, with the old and the new table; a port missing from
    /// one plan has an empty table there.
    pub fn differences<'a>(&'a self, new: &'a Plan) -> Vec<(u64, &'a [u16], &'a [u16])> {
        let mut guids: Vec<u64> = self.ports.keys().chain(new.ports.keys()).copied().collect();
        guids.sort_unstable();
        guids.dedup();
        let both = guids.into_iter().map(|guid| (guid, self.table(guid), new.table(guid)));
        both.filter(|(_, old, new)| old != new).collect()
    }
}

/// Returns the keys of rules that give none, by name.
fn made_up(config: &Config, partitions: &[Partition]) -> BTreeMap<String, u16> {
    let Config::Rules(rules) = config else { return BTreeMap::new() };
    let names = rules.iter().filter(|rule| rule.key.is_none() && !rule.name.is_empty()).map(|rule| &rule.name);
    // Of several partitions with one name, the first counts.
    let keys: BTreeMap<&String, u16> = partitions.iter().rev().map(|known| (&known.name, known.key)).collect();
    names.filter_map(|name| Some((name.clone(), *keys.get(name)?))).collect()
}

fn port_keys(
    (node, port): (&Node, &Port),
    partitions: &[Partition],
    peopled: &mut [bool],
    options: &Options,
    former: Option<&Keys>,
) -> Keys {
    let both = options.partitions.allow_both_pkeys;
    let mut wanted = Vec::new();
    let mut first: Option<(Entry, u16)> = None;
    for (partition, peopled) in partitions.iter().zip(peopled) {
        let Some(entry) = partition.entry(port.guid, node.info.node_type) else { continue };
        *peopled = true;
        let (limited, full) = match entry.membership {
            Membership::Limited => (true, false),
            Membership::Full => (false, true),
            Membership::Both => (both, true),
        };
        wanted.extend(limited.then_some(partition.key));
        wanted.extend(full.then_some(partition.key | FULL));
        if entry.index0 && first.is_none_or(|(before, _)| before < entry) {
            first = Some((entry, if limited { partition.key } else { partition.key | FULL }));
        }
    }
    let index0 = first.map_or(0, |(_, key)| key);
    let wanted = Wanted { keys: &wanted, index0, room: node.info.partition_cap, both };
    let keep = options.partitions.keep_pkey_indexes;
    let (present, history): (&[u16], &[(u16, u16)]) =
        if keep { (&port.pkeys, former.map_or(&[], |keys| &keys.history)) } else { (&[], &[]) };
    place(wanted, present, history)
}

/// Returns the enforcement at the switch port that a host is attached to.
fn enforced(subnet: &Subnet, host: PortIx, keys: &Keys, enforce: PartEnforce) -> Option<(PortIx, Enforced)> {
    let peer = subnet.port(host)?.neighbor?;
    let room = usize::from(subnet.node(peer.node)?.switch.as_ref()?.info.partition_enforcement_cap);
    if room == 0 {
        return None;
    }
    if enforce == PartEnforce::Off {
        return Some((peer, Enforced::default()));
    }
    let full = |key: u16| keys.table.contains(&(key | FULL));
    let counts = |key: &u16| key & !FULL != 0 && (key & FULL != 0 || !full(*key));
    let mut table: Vec<u16> = keys.table.iter().copied().filter(counts).collect();
    let overflowed = table.len() > room;
    table.truncate(room);
    let inbound = !overflowed && matches!(enforce, PartEnforce::Both | PartEnforce::In);
    let outbound = !overflowed && matches!(enforce, PartEnforce::Both | PartEnforce::Out);
    Some((peer, Enforced { table, inbound, outbound, overflowed }))
}
