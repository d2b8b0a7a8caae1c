//! Turns rules into partitions: merges rules with the same key, chooses missing keys, and lets later rules override
//! earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use weft_wire::mad::subn::NodeType;

use super::config::{Config, DEFAULT_KEY, GroupFlags, Membership, Rule, Who};
use super::groups::{Group, broadcast, further};

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// P_Key without the membership bit.
    pub key: u16,
    /// Its name: that of the first rule with this key.
    pub name: String,
    /// Service level.
    pub sl: u8,
    /// Groups that exist without members.
    pub groups: Vec<Group>,
    all: Option<Entry>,
    cas: Option<Entry>,
    switches: Option<Entry>,
    routers: Option<Entry>,
    guids: BTreeMap<u64, Entry>,
}

/// Membership from a rule, with its position: of two entries for one port, the later counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub order: u32,
    pub membership: Membership,
    pub index0: bool,
}

/// Relevant options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// PortGUID of the manager's own port.
    pub own: Option<u64>,
    /// If off, all service levels are 0.
    pub qos: bool,
    /// Packet lifetime of groups.
    pub packet_life: u8,
}

impl Partition {
    fn new(key: u16, name: &str) -> Partition {
        Partition {
            key,
            name: name.to_owned(),
            sl: 0,
            groups: Vec::new(),
            all: None,
            cas: None,
            switches: None,
            routers: None,
            guids: BTreeMap::new(),
        }
    }

    /// Returns the membership of a port, if any.
    pub fn member(&self, guid: u64, kind: NodeType) -> Option<Membership> {
        self.entry(guid, kind).map(|entry| entry.membership)
    }

    /// Yields the GUIDs in the rules, present on the subnet or not.
    pub fn named(&self) -> impl Iterator<Item = u64> {
        self.guids.keys().copied()
    }

    pub(super) fn entry(&self, guid: u64, kind: NodeType) -> Option<Entry> {
        let by_kind = match kind {
            NodeType::CA => self.cas,
            NodeType::SWITCH => self.switches,
            NodeType::ROUTER => self.routers,
            _ => None,
        };
        [self.all, by_kind, self.guids.get(&guid).copied()].into_iter().flatten().max()
    }

    fn add(&mut self, who: Who, entry: Entry, own: Option<u64>) {
        match who {
            Who::All => self.all = Some(entry),
            Who::Cas => self.cas = Some(entry),
            Who::Switches => self.switches = Some(entry),
            Who::Routers => self.routers = Some(entry),
            Who::Myself => self.guids.extend(own.map(|own| (own, entry))),
            Who::Guid(guid) => {
                self.guids.insert(guid, entry);
            }
        }
    }
}

/// Returns the partitions of a configuration in the order in which OpenSM places their keys: by the bytes of the key,
/// the low byte first. `former` has the names and keys that the manager chose before.
pub(super) fn resolve(config: &Config, settings: Settings, former: &BTreeMap<String, u16>) -> Vec<Partition> {
    let mut resolver = Resolver {
        settings,
        former,
        partitions: Vec::new(),
        by_key: BTreeMap::new(),
        by_name: BTreeMap::new(),
        groups: BTreeSet::new(),
        order: 2,
        made_up: 0,
    };
    resolver.found(DEFAULT_KEY, "Default");
    let (everybody, rules): (_, &[Rule]) = match config {
        Config::Absent | Config::Broken => (Membership::Full, &[]),
        Config::Rules(rules) => (Membership::Limited, rules),
    };
    if let Some(default) = resolver.partitions.first_mut() {
        default.add(Who::All, Entry { order: 0, membership: everybody, index0: false }, settings.own);
        let myself = Entry { order: 1, membership: Membership::Full, index0: false };
        default.add(Who::Myself, myself, settings.own);
        if everybody == Membership::Full {
            default.groups.extend(broadcast(DEFAULT_KEY, GroupFlags::default(), settings.packet_life));
        }
    }
    rules.iter().for_each(|rule| resolver.rule(rule));
    let mut partitions = resolver.partitions;
    partitions.sort_by_key(|partition| partition.key.swap_bytes());
    partitions
}

struct Resolver<'a> {
    settings: Settings,
    former: &'a BTreeMap<String, u16>,
    partitions: Vec<Partition>,
    /// Indexes by key, and by name (the first of each name): a file may have millions of rules.
    by_key: BTreeMap<u16, usize>,
    by_name: BTreeMap<String, usize>,
    /// Groups that rules added, by the partition's key and the MGID.
    groups: BTreeSet<(u16, [u8; 16])>,
    order: u32,
    made_up: u16,
}

impl Resolver<'_> {
    fn rule(&mut self, rule: &Rule) {
        let settings = self.settings;
        let first = self.order;
        self.order = first.saturating_add(u32::try_from(rule.members.len()).unwrap_or(u32::MAX));
        let Some(place) = self.partition(rule) else { return };
        let Some(partition) = self.partitions.get_mut(place) else { return };
        let groups = &mut self.groups;
        let sl = if settings.qos { rule.flags.sl } else { 0 };
        partition.sl = sl;
        let flags = GroupFlags { sl, ..rule.flags };
        if rule.ipoib {
            add_groups(partition, groups, broadcast(partition.key, flags, settings.packet_life));
        }
        for group in &rule.groups {
            // A group's own service level stays; one inherited from the partition follows the partition's.
            let own = if group.flags.sl == rule.flags.sl { sl } else { group.flags.sl };
            let group = super::config::Group { flags: GroupFlags { sl: own, ..group.flags }, ..*group };
            add_groups(partition, groups, further(partition.key, &group, flags, settings.packet_life));
        }
        for (order, member) in (first..).zip(&rule.members) {
            let entry = Entry { order, membership: member.membership, index0: rule.index0 };
            partition.add(member.who, entry, settings.own);
        }
    }

    /// Adds a partition, and returns its index.
    fn found(&mut self, key: u16, name: &str) -> usize {
        let place = self.partitions.len();
        self.partitions.push(Partition::new(key, name));
        self.by_key.entry(key).or_insert(place);
        self.by_name.entry(name.to_owned()).or_insert(place);
        place
    }

    /// Returns the index of a rule's partition, a new or an existing one; `None` if no key is left.
    fn partition(&mut self, rule: &Rule) -> Option<usize> {
        let known = match rule.key {
            Some(key) => self.by_key.get(&key).copied().ok_or(key),
            None => match self.by_name.get(&rule.name).copied().filter(|_| !rule.name.is_empty()) {
                Some(place) => Ok(place),
                None => Err(self.make_up(&rule.name)?),
            },
        };
        Some(known.unwrap_or_else(|key| match &*rule.name {
            "" => self.found(key, &format!("{key:04x}")),
            name => self.found(key, name),
        }))
    }

    fn make_up(&mut self, name: &str) -> Option<u16> {
        let free = |key: &u16| !self.by_key.contains_key(key);
        if let Some(key) = self.former.get(name).copied().filter(free) {
            return Some(key);
        }
        let key = (self.made_up + 1..DEFAULT_KEY).find(free)?;
        self.made_up = key;
        Some(key)
    }
}

fn add_groups(partition: &mut Partition, known: &mut BTreeSet<(u16, [u8; 16])>, groups: Vec<Group>) {
    for group in groups {
        if known.insert((partition.key, group.mgid)) {
            partition.groups.push(group);
        }
    }
}
