//! Subnet managers, partitions and multicast groups: the master, P_Key memberships, and the groups' trees.

use std::collections::{BTreeMap, BTreeSet};

use weft_diags::ibnet::{Kind, PortRef};
use weft_fabric::topology::counted;

use super::finding::Section;
use super::survey::Survey;

/// SMInfo:SMState of the master.
const MASTER: u8 = 3;
/// The P_Key that every port should have.
const DEFAULT_PKEY: u16 = 0x7fff;
/// The bit of full members.
const FULL: u16 = 0x8000;

/// Checks the subnet managers.
pub fn managers(survey: &Survey) -> Section {
    let mut section = Section::new("subnet managers");
    let masters: Vec<_> = survey.managers.iter().filter(|m| m.state == MASTER).collect();
    let standby = survey.managers.len() - masters.len();
    section.looked_at = format!("{} of them", survey.managers.len());
    let label = |at: PortRef| survey.label(at);
    match &masters[..] {
        [] => section.error("no subnet manager is master".to_owned()),
        [one] => {
            let text = format!("{} is master, priority {}; {standby} wait", label(one.at), one.priority);
            section.note(text);
        }
        several => {
            let names: Vec<String> = several.iter().map(|m| label(m.at)).collect();
            section.error(format!("{} subnet managers are master: {}", several.len(), names.join(", ")));
        }
    }
    let mut named: BTreeMap<u16, Vec<PortRef>> = BTreeMap::new();
    for (index, node) in survey.fabric.nodes() {
        for port in node.ports().filter(|p| if node.is_switch() { p.num == 0 } else { p.remote.is_some() }) {
            named.entry(port.sm_lid()).or_default().push(PortRef { node: index, port: port.num });
        }
    }
    let master_lid = masters.first().and_then(|m| survey.fabric.port(m.at)).map(|p| p.lid);
    for (lid, ports) in named.iter().filter(|(lid, _)| Some(**lid) != master_lid) {
        let (count, first) = (ports.len(), ports.first().map_or_else(String::new, |&at| label(at)));
        let ports = counted(count, "port");
        section.error(format!("{ports} ({first}, ...) take LID {lid} for the subnet manager's"));
    }
    section
}

/// Checks partition tables.
pub fn partitions(survey: &Survey) -> Section {
    let mut section = Section::new("partitions");
    let mut partitions: BTreeMap<u16, (BTreeSet<PortRef>, BTreeSet<PortRef>)> = BTreeMap::new();
    for (&at, keys) in &survey.pkeys {
        if survey.fabric.node(at.node).kind == Kind::SWITCH {
            continue;
        }
        if survey.fabric.port(at).is_none_or(|port| port.remote.is_none()) {
            continue;
        }
        if !keys.iter().any(|key| key & !FULL == DEFAULT_PKEY) {
            section.error(format!("{} is not in the default partition: it cannot be managed", survey.label(at)));
        }
        for key in keys {
            let (full, limited) = partitions.entry(key & !FULL).or_default();
            if key & FULL != 0 {
                full.insert(at)
            } else {
                limited.insert(at)
            };
        }
    }
    section.looked_at = format!("{} of them", partitions.len());
    for (key, (full, limited)) in &partitions {
        if full.is_empty() && limited.len() > 1 {
            section.warning(format!("0x{key:04x}: {} limited members and no full one: none can talk", limited.len()));
        } else {
            section.note(format!("0x{key:04x}: {} full, {} limited members", full.len(), limited.len()));
        }
    }
    section
}

/// Checks that each group's tables form a tree.
pub fn groups(survey: &Survey) -> Section {
    let mut section = Section::new("multicast");
    let mlids: BTreeSet<u16> = survey.groups.values().flat_map(|groups| groups.keys().copied()).collect();
    section.looked_at = format!("{} groups", mlids.len());
    for mlid in mlids {
        group(survey, &mut section, mlid);
    }
    section
}

fn group(survey: &Survey, section: &mut Section, mlid: u16) {
    let ports = |switch: usize| survey.groups.get(&switch).and_then(|groups| groups.get(&mlid));
    let (mut switches, mut links) = (BTreeSet::new(), BTreeSet::new());
    for (&switch, groups) in &survey.groups {
        let Some(out) = groups.get(&mlid) else { continue };
        switches.insert(switch);
        for &port in out.iter().filter(|&&port| port != 0) {
            let at = PortRef { node: switch, port };
            let Some(remote) = survey.fabric.port(at).and_then(|p| p.remote) else {
                section.error(format!("group 0x{mlid:04x} is sent out of {}, which has no cable", survey.label(at)));
                continue;
            };
            if survey.fabric.node(remote.node).kind != Kind::SWITCH {
                continue;
            }
            let back = ports(remote.node).is_some_and(|ports| ports.contains(&remote.port));
            if back {
                links.insert(at.min(remote));
            } else {
                let (from, to) = (survey.label(at), survey.label(remote));
                section.error(format!("group 0x{mlid:04x} goes from {from} to {to}, and not back"));
            }
        }
    }
    // Links that connect all switches form a tree exactly if there is one link fewer than switches.
    if links.len() >= switches.len() && !switches.is_empty() {
        section.error(format!("group 0x{mlid:04x} goes round: {} links join {} switches", links.len(), switches.len()));
    } else if links.len() + 1 < switches.len() {
        section.error(format!(
            "group 0x{mlid:04x} is in {} parts that do not reach each other",
            switches.len() - links.len()
        ));
    }
}
