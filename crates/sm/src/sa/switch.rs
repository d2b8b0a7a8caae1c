//! Switch records: SwitchInfoRecord (IBA 15.2.5.5) and forwarding tables (15.2.5.6 and .8).

use weft_wire::mad::Block;
use weft_wire::mad::sa::{
    ComponentMask, LinearForwardingTableRecord, MulticastForwardingTableRecord, Record, SwitchInfoRecord,
};
use weft_wire::mad::subn::{LFT_BLOCK, LFT_NO_PATH, MFT_BLOCK, MFT_PORTS};

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::index::Entry;
use super::question::Question;
use super::world::World;
use crate::multicast::MLID_FIRST;
use crate::subnet::SwitchState;

impl Administrator {
    /// Switches that the requester may know of, with their state: the one with the requested LID, or all.
    fn switches_asked_for<'a>(
        &mut self,
        world: &World<'a>,
        question: &Question<'_>,
        lid: Option<u16>,
    ) -> Vec<(Entry, &'a SwitchState)> {
        let places: Vec<u32> = match lid {
            Some(lid) => self.index.at_lid(lid).map(|(place, _)| place).into_iter().collect(),
            None => (0..self.index.entries.len() as u32).collect(),
        };
        let mut switches = Vec::new();
        for place in places {
            let Some(entry) = self.index.entry(place).copied().filter(|entry| entry.is_switch) else { continue };
            let state = world.subnet.node(entry.at.node).and_then(|node| node.switch.as_ref());
            if let Some(state) = state.filter(|_| self.index.share(question.requester, place)) {
                switches.push((entry, state));
            }
        }
        switches
    }

    /// Answers SwitchInfoRecord.
    pub(super) fn switch_info_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: SwitchInfoRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(SwitchInfoRecord::LID).then_some(asked.lid);
        let apart = SwitchInfoRecord::LID | SwitchInfoRecord::RESERVED1 | SwitchInfoRecord::RESERVED2;
        for (entry, state) in self.switches_asked_for(world, question, lid) {
            let record = SwitchInfoRecord { lid: entry.lid, switch_info: state.info };
            if SwitchInfoRecord::fits(mask.without(apart), &asked.encode(), &record.encode()) && !answer.push(&record) {
                break;
            }
        }
        Ok(())
    }

    /// Answers LinearForwardingTableRecord.
    pub(super) fn lft_records(&mut self, world: &World<'_>, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: LinearForwardingTableRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(LinearForwardingTableRecord::LID).then_some(asked.lid);
        let block = mask.contains(LinearForwardingTableRecord::BLOCK_NUM).then_some(asked.block_num);
        for (entry, state) in self.switches_asked_for(world, question, lid) {
            // Only the part in use.
            let last = state.info.linear_fdb_top / LFT_BLOCK;
            for number in 0..=last {
                if block.is_some_and(|block| block != number) {
                    continue;
                }
                let record = LinearForwardingTableRecord {
                    lid: entry.lid,
                    block_num: number,
                    ports: lft_block(&state.lft, number),
                };
                if !answer.push(&record) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Answers MulticastForwardingTableRecord.
    pub(super) fn mft_records(&mut self, world: &World<'_>, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: MulticastForwardingTableRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(MulticastForwardingTableRecord::LID).then_some(asked.lid);
        for (entry, state) in self.switches_asked_for(world, question, lid) {
            let ports = world.subnet.node(entry.at.node).map_or(0, |node| node.info.num_ports);
            let filled = state.mft.iter().rev().find(|(_, mask)| **mask != [0; 4]);
            let Some(last) = filled.map(|(mlid, _)| mlid.saturating_sub(MLID_FIRST) / MFT_BLOCK) else { continue };
            for block in 0..=last {
                for position in 0..=ports / MFT_PORTS {
                    if named(mask, &asked, block, position)
                        && !answer.push(&mft_block(entry.lid, state, block, position))
                    {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a block of a multicast table was requested.
fn named(mask: ComponentMask, asked: &MulticastForwardingTableRecord, block: u16, position: u8) -> bool {
    (!mask.contains(MulticastForwardingTableRecord::BLOCK_NUM) || asked.block_num == block)
        && (!mask.contains(MulticastForwardingTableRecord::POSITION) || asked.position == position)
}

/// A block of a forwarding table.
fn lft_block(lft: &[u8], number: u16) -> Block<64> {
    let mut block = Block([LFT_NO_PATH; 64]);
    let first = usize::from(number) * usize::from(LFT_BLOCK);
    block.0.iter_mut().zip(lft.iter().skip(first)).for_each(|(to, from)| *to = *from);
    block
}

/// A block of a multicast forwarding table: sixteen ports of 32 LIDs.
fn mft_block(lid: u16, state: &SwitchState, block: u16, position: u8) -> MulticastForwardingTableRecord {
    let mut record = MulticastForwardingTableRecord { lid, position, block_num: block, ..Default::default() };
    let first = MLID_FIRST.saturating_add(block * MFT_BLOCK);
    for (place, mlid) in record.masks.iter_mut().zip(first..) {
        let mask = state.mft.get(&mlid).copied().unwrap_or_default();
        let word = mask.get(usize::from(position / 4)).copied().unwrap_or(0);
        *place = (word >> (position % 4 * 16)) as u16;
    }
    record
}
