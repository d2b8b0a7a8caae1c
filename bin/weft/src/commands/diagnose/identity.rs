//! Identities: duplicate or missing GUIDs, LIDs and names.

use std::collections::BTreeMap;

use weft_diags::ibnet::PortRef;
use weft_fabric::topology::counted;

use super::finding::Section;
use super::survey::Survey;

/// Checks for duplicate and missing identities.
pub fn check(survey: &Survey) -> Section {
    let mut section = Section::new("GUIDs, LIDs, names");
    let fabric = &survey.fabric;
    section.looked_at = counted(fabric.node_count(), "node");
    for (first, second) in fabric.conflicts() {
        let (first, second) = (survey.label(*first), survey.label(*second));
        section.error(format!("one node answers behind {first} and behind {second}: two nodes have its GUID"));
    }
    let mut lids: BTreeMap<u16, PortRef> = BTreeMap::new();
    let mut guids: BTreeMap<u64, PortRef> = BTreeMap::new();
    let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, node) in fabric.nodes() {
        names.entry(node.called(&survey.names)).or_default().push(index);
        for port in node.ports() {
            let is_end = if node.is_switch() { port.num == 0 } else { port.remote.is_some() };
            if !is_end {
                continue;
            }
            let at = PortRef { node: index, port: port.num };
            lid(survey, &mut section, &mut lids, at, (port.lid, port.lmc));
            if let Some(first) = guids.insert(port.guid, at) {
                let (a, b) = (survey.label(first), survey.label(at));
                section.error(format!("port GUID 0x{:016x} is that of {a} and of {b}", port.guid));
            }
        }
    }
    for (name, nodes) in names.iter().filter(|(_, nodes)| nodes.len() > 1) {
        section.warning(format!("{} nodes are called \"{name}\": tools cannot tell them apart", nodes.len()));
    }
    section
}

fn lid(survey: &Survey, section: &mut Section, lids: &mut BTreeMap<u16, PortRef>, at: PortRef, (lid, lmc): (u16, u8)) {
    if lid == 0 {
        section.error(format!("{} has no LID: no subnet manager has been there", survey.label(at)));
        return;
    }
    for lid in (u32::from(lid)..u32::from(lid) + (1 << lmc)).filter_map(|lid| u16::try_from(lid).ok()) {
        if let Some(first) = lids.insert(lid, at) {
            section.error(format!("LID {lid} is that of {} and of {}", survey.label(first), survey.label(at)));
        }
    }
}
