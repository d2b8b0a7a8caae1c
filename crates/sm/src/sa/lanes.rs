//! VL records: SLtoVLMappingTableRecord (IBA 15.2.5.4) and VLArbitrationTableRecord (15.2.5.9). Tables that are not set
//! read as zeros.

use weft_wire::mad::sa::{SlToVlTableRecord, VlArbitrationTableRecord};

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::index::Entry;
use super::pkeys;
use super::question::Question;
use super::world::World;
use crate::subnet::{Node, PortIx};

/// Blocks of a VL arbitration table, a quarter each.
const BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;

impl Administrator {
    /// End ports: the one with the requested LID, or all.
    pub(super) fn ports_asked_for(&self, lid: Option<u16>) -> Vec<Entry> {
        match lid {
            Some(lid) => self.index.at_lid(lid).map(|(_, entry)| *entry).into_iter().collect(),
            None => self.index.entries.clone(),
        }
    }

    /// Ports behind an end port: all ports of a switch, otherwise the port itself.
    pub(super) fn ports_of<'a>(
        &self,
        world: &World<'a>,
        question: &Question<'_>,
        entry: &Entry,
    ) -> Vec<(u8, &'a crate::subnet::Port)> {
        let node: Option<&Node> = world.subnet.node(entry.at.node);
        let own = self.index.entry(question.requester).map(|entry| entry.at);
        let keys = own.and_then(|at| world.subnet.port(at)).map_or(&[][..], |port| &port.pkeys);
        let ports = node.into_iter().flat_map(|node| (0..=u8::MAX).zip(&node.ports));
        let belongs = ports.filter(|(number, _)| entry.is_switch || *number == entry.at.port);
        let known = belongs.filter(|(number, port)| {
            own == Some(PortIx { node: entry.at.node, port: *number }) || pkeys::share(keys, &port.pkeys)
        });
        known.collect()
    }

    /// Answers SLtoVLMappingTableRecord.
    pub(super) fn sl_to_vl_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: SlToVlTableRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(SlToVlTableRecord::LID).then_some(asked.lid);
        let out = mask.contains(SlToVlTableRecord::OUTPUT_PORT_NUM).then_some(asked.output_port_num);
        let input = mask.contains(SlToVlTableRecord::INPUT_PORT_NUM).then_some(asked.input_port_num);
        let is = |wanted: Option<u8>, port: u8| wanted.is_none_or(|wanted| wanted == port);
        for entry in self.ports_asked_for(lid) {
            let inputs = match world.subnet.node(entry.at.node) {
                Some(node) if entry.is_switch => node.info.num_ports,
                _ => 0,
            };
            for (number, _) in self.ports_of(world, question, &entry) {
                for from in 0..=inputs {
                    if entry.is_switch && !(is(out, number) && is(input, from)) {
                        continue;
                    }
                    let vls = world.lanes.and_then(|lanes| lanes.sl_to_vl(entry.at.node, from, number));
                    let (input_port_num, output_port_num) = if entry.is_switch { (from, number) } else { (0, 0) };
                    let vls = vls.unwrap_or_default();
                    if !answer.push(&SlToVlTableRecord { lid: entry.lid, input_port_num, output_port_num, vls }) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Answers VLArbitrationTableRecord.
    pub(super) fn vl_arbitration_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: VlArbitrationTableRecord = question.record()?;
        let mask = question.mask();
        let lid = mask.contains(VlArbitrationTableRecord::LID).then_some(asked.lid);
        let out = mask.contains(VlArbitrationTableRecord::OUTPUT_PORT_NUM).then_some(asked.output_port_num);
        let wanted = mask.contains(VlArbitrationTableRecord::BLOCK_NUM).then_some(asked.block_num);
        for entry in self.ports_asked_for(lid) {
            for (number, _) in self.ports_of(world, question, &entry) {
                if entry.is_switch && out.is_some_and(|out| out != number) {
                    continue;
                }
                for block_num in BLOCKS.filter(|block| wanted.is_none_or(|wanted| wanted == *block)) {
                    let at = PortIx { node: entry.at.node, port: number };
                    let entries = world.lanes.and_then(|lanes| lanes.arbitration(at, block_num)).unwrap_or_default();
                    let record =
                        VlArbitrationTableRecord { lid: entry.lid, output_port_num: number, block_num, entries };
                    if !answer.push(&record) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
