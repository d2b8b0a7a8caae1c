//! GuidInfoRecord (IBA 15.2.5.18): alias GUIDs of ports. Any port that shares a partition with a port can query, set
//! and delete the port's GUIDs. The administrator assigns a GUID for an entry set to 0.

use weft_wire::mad::Method;
use weft_wire::mad::sa::{ComponentMask, GuidInfoRecord};
use weft_wire::mad::subn::GUID_BLOCK;

use super::answer::{Answer, Outcome, Refusal};
use super::index::Entry;
use super::question::Question;
use super::world::World;
use super::{Administrator, Change};

/// Components that every change must name.
const CHANGE: ComponentMask = GuidInfoRecord::LID.or(GuidInfoRecord::BLOCK_NUM);
/// The entries of a block.
const ENTRIES: [ComponentMask; 8] = [
    GuidInfoRecord::GUID0,
    GuidInfoRecord::GUID1,
    GuidInfoRecord::GUID2,
    GuidInfoRecord::GUID3,
    GuidInfoRecord::GUID4,
    GuidInfoRecord::GUID5,
    GuidInfoRecord::GUID6,
    GuidInfoRecord::GUID7,
];
/// Company ID of the GUIDs that the administrator assigns.
const ASSIGNED: u64 = 0x00_1405 << 40;
/// GUIDs to try until a free one is found.
const TRIES_MAX: u32 = 1000;

impl Administrator {
    /// Answers GuidInfoRecord.
    pub(super) fn guid_info_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: GuidInfoRecord = question.record()?;
        if !matches!(question.mad.header.method(), Method::SET | Method::DELETE) {
            return self.query_guids(world, question, &asked, answer);
        }
        if !question.mask().contains(CHANGE) {
            return Err(Refusal::INSUFFICIENT);
        }
        let (place, entry) = self.index.at_lid(asked.lid).ok_or(Refusal::NO_RECORDS)?;
        let entry = *entry;
        if !self.index.share(place, question.requester) {
            return Err(Refusal::Silent);
        }
        let cap = world.subnet.port(entry.at).map_or(0, |port| port.info.guid_cap);
        if asked.block_num >= cap.div_ceil(GUID_BLOCK) {
            return Err(Refusal::NO_RECORDS);
        }
        if asked.block_num == 0 && question.mask().contains(GuidInfoRecord::GUID0) {
            // Entry 0 is the port's own GUID.
            return Err(Refusal::INVALID);
        }
        let first = usize::from(asked.block_num) * usize::from(GUID_BLOCK);
        let named: Vec<usize> = (0..ENTRIES.len())
            .filter(|at| question.mask().contains(ENTRIES[*at]) && first + at < usize::from(cap))
            .collect();
        let mut guids = self.guids(world, &entry);
        guids.resize(usize::from(cap.div_ceil(GUID_BLOCK)) * usize::from(GUID_BLOCK), 0);
        let changed = match question.mad.header.method() {
            Method::SET => self.set_guids(world, &entry, &asked, &mut guids, first, &named)?,
            _ => self.delete_guids(&entry, &mut guids, first, &named)?,
        };
        let mut told = asked;
        told.guids.iter_mut().zip(&guids[first..]).for_each(|(told, guid)| *told = *guid);
        if changed {
            self.aliases.insert(entry.guid, guids);
            self.changes.insert(Change::Guids { port_guid: entry.guid, block: asked.block_num });
            self.changes.insert(Change::Cache);
        }
        answer.push(&told);
        Ok(())
    }

    /// GUIDs of a port, its own first: as set here, otherwise as read from the port.
    fn guids(&self, world: &World<'_>, entry: &Entry) -> Vec<u64> {
        if let Some(guids) = self.aliases.get(&entry.guid) {
            return guids.clone();
        }
        let mut guids = world.subnet.port(entry.at).map_or(Vec::new(), |port| port.guids.clone());
        guids.resize(guids.len().max(1), 0);
        guids[0] = entry.guid;
        guids
    }

    fn query_guids(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &GuidInfoRecord,
        answer: &mut Answer,
    ) -> Outcome {
        let mask = question.mask();
        let lid = mask.contains(GuidInfoRecord::LID).then_some(asked.lid);
        let mut entries = self.ports_asked_for(lid);
        // The records come node by node.
        let node = |entry: &Entry| world.subnet.node(entry.at.node).map_or(0, |node| node.info.node_guid);
        entries.sort_by_cached_key(|entry| (crate::multicast::order(node(entry)), entry.at.port));
        for entry in entries {
            let Some((place, _)) = self.index.at_guid(entry.guid) else { continue };
            let cap = world.subnet.port(entry.at).map_or(0, |port| port.info.guid_cap);
            if !self.index.share(question.requester, place) {
                continue;
            }
            let guids = self.guids(world, &entry);
            for block_num in 0..cap.div_ceil(GUID_BLOCK) {
                let mut record = GuidInfoRecord { lid: entry.lid, block_num, guids: [0; 8] };
                let first = usize::from(block_num) * usize::from(GUID_BLOCK);
                record.guids.iter_mut().zip(guids.iter().skip(first)).for_each(|(to, from)| *to = *from);
                let named = ENTRIES.iter().zip(record.guids.iter().zip(&asked.guids));
                let fits = named.into_iter().all(|(entry, (guid, asked))| !mask.contains(*entry) || guid == asked);
                let block = !mask.contains(GuidInfoRecord::BLOCK_NUM) || asked.block_num == block_num;
                if fits && block && !answer.push(&record) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sets entries of a block and returns whether any changed. Skips a GUID that another port has.
    fn set_guids(
        &mut self,
        world: &World<'_>,
        entry: &Entry,
        asked: &GuidInfoRecord,
        guids: &mut [u64],
        first: usize,
        named: &[usize],
    ) -> Result<bool, Refusal> {
        let mut changed = false;
        for at in named {
            let Some(place) = guids.get_mut(first + at) else { continue };
            let wanted = match asked.guids[*at] {
                0 if *place != 0 => continue,
                0 => self.assigned_guid(world).ok_or(Refusal::NO_RESOURCES)?,
                wanted if wanted == *place || self.index.at_guid(wanted).is_some() => continue,
                wanted => wanted,
            };
            if *place != 0 {
                self.index.remove_alias(*place);
            }
            self.index.add_alias(entry.guid, wanted);
            *place = wanted;
            changed = true;
        }
        Ok(changed)
    }

    /// Deletes entries of a block and returns whether there were any. Refuses if one of them is in a multicast group.
    fn delete_guids(
        &mut self,
        entry: &Entry,
        guids: &mut [u64],
        first: usize,
        named: &[usize],
    ) -> Result<bool, Refusal> {
        let there = |at: &usize| guids.get(first + at).copied().filter(|guid| *guid != 0 && *guid != entry.guid);
        let going: Vec<u64> = named.iter().filter_map(there).collect();
        if going.iter().any(|guid| self.groups.iter().any(|group| group.member(*guid).is_some())) {
            return Err(Refusal::DENIED);
        }
        for guid in &going {
            self.index.remove_alias(*guid);
        }
        guids.iter_mut().filter(|guid| going.contains(guid)).for_each(|guid| *guid = 0);
        Ok(!going.is_empty())
    }

    /// Returns an unused GUID.
    fn assigned_guid(&mut self, world: &World<'_>) -> Option<u64> {
        for _ in 0..TRIES_MAX {
            self.guids_assigned = self.guids_assigned.checked_add(1)?;
            let byte = u64::from(world.settings.sm_assigned_guid) << 32;
            let guid = ASSIGNED | byte | u64::from(self.guids_assigned);
            if self.index.at_guid(guid).is_none() {
                return Some(guid);
            }
        }
        None
    }
}
