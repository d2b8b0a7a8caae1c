//! P_KeyTableRecord (IBA 15.2.5.11): the P_Key tables of ports, for trusted requests.

use weft_wire::mad::sa::PKeyTableRecord;
use weft_wire::mad::subn::PKEY_BLOCK;

use super::Administrator;
use super::answer::{Answer, Outcome, Refusal};
use super::question::Question;
use super::world::World;

/// The first entry of a table before any write.
const DEFAULT: u16 = 0xffff;

impl Administrator {
    /// Answers P_KeyTableRecord.
    pub(super) fn pkey_table_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        if !question.trusted {
            return Err(Refusal::INVALID);
        }
        let asked: PKeyTableRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(PKeyTableRecord::LID).then_some(asked.lid);
        let block = mask.contains(PKeyTableRecord::BLOCK_NUM).then_some(asked.block_num);
        let wanted = mask.contains(PKeyTableRecord::PORT_NUM).then_some(asked.port_num);
        for entry in self.ports_asked_for(lid) {
            let node = world.subnet.node(entry.at.node);
            for (number, port) in self.ports_of(world, question, &entry) {
                if entry.is_switch && wanted.is_some_and(|wanted| wanted != number) {
                    continue;
                }
                // The tables of a switch's external ports have their own size; that of port 0 is like an adapter's.
                let enforced =
                    node.and_then(|node| node.switch.as_ref()).map(|switch| switch.info.partition_enforcement_cap);
                let own = node.map_or(0, |node| node.info.partition_cap);
                let entries = enforced.filter(|_| number != 0).unwrap_or(own);
                let idle = port.pkeys.is_empty() && port.neighbor.is_none() && number != 0;
                let known = if idle { 0 } else { entries.div_ceil(PKEY_BLOCK).max(1) };
                let blocks = block.map_or(0..known, |block| block..block.saturating_add(1));
                for block_num in blocks {
                    let mut pkeys = [0; 32];
                    let first = usize::from(block_num) * usize::from(PKEY_BLOCK);
                    if port.pkeys.is_empty() && first == 0 {
                        // A table not yet written has its initial contents (IBA 10.9.2).
                        pkeys[0] = DEFAULT;
                    }
                    pkeys.iter_mut().zip(port.pkeys.iter().skip(first)).for_each(|(to, from)| *to = *from);
                    if !answer.push(&PKeyTableRecord { lid: entry.lid, block_num, port_num: number, pkeys }) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
