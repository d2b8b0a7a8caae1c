//! PortInfoRecord (IBA 15.2.5.3): one record for every port of every node.

use weft_wire::mad::sa::{ComponentMask, PortInfoRecord, Record};
use weft_wire::mad::subn::{CapabilityMask, LinkSpeed, PortInfo};

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::facts::base_lid;
use super::pkeys;
use super::question::Question;
use super::world::World;
use crate::subnet::{Node, NodeIx, Port, PortIx};

/// Components compared separately, or without meaning.
const APART: ComponentMask = PortInfoRecord::LID
    .or(PortInfoRecord::OPTIONS)
    .or(PortInfoRecord::CAPABILITY_MASK)
    .or(PortInfoRecord::CAPABILITY_MASK2)
    .or(PortInfoRecord::RESERVED2)
    .or(PortInfoRecord::RESERVED3)
    .or(PortInfoRecord::RESERVED4)
    .or(PortInfoRecord::RESERVED5)
    .or(PortInfoRecord::RESERVED7);
/// Options bit: compare capabilities as a mask, and report speeds unchanged.
const ENHANCED: u8 = 0x80;
/// AttributeModifier bit: compare capabilities as a mask (IBA 15.4.6, for requests without the options).
const COMPARE_AS_MASK: u32 = 1 << 31;

impl Administrator {
    /// Answers PortInfoRecord.
    pub(super) fn port_info_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        let asked: PortInfoRecord = question.record()?;
        let Some(requester) = self.index.entry(question.requester) else { return Ok(()) };
        let own = world.subnet.port(requester.at).map_or(&[][..], |port| &port.pkeys);
        let enhanced = question.mad.header.attr_mod() & COMPARE_AS_MASK != 0;
        let tell = Tell { asked: &asked, mask: question.mask(), own, requester: requester.at, enhanced };
        if tell.mask.contains(PortInfoRecord::LID) {
            if let Some((_, entry)) = self.index.at_lid(asked.lid) {
                tell.node(world, entry.at.node, answer);
            }
            return Ok(());
        }
        for node in &self.index.nodes {
            if !tell.node(world, *node, answer) {
                break;
            }
        }
        Ok(())
    }
}

/// The request and its sender.
struct Tell<'a> {
    asked: &'a PortInfoRecord,
    mask: ComponentMask,
    /// The requester's P_Keys and port.
    own: &'a [u16],
    requester: PortIx,
    /// Whether to compare capabilities as a mask.
    enhanced: bool,
}

impl Tell<'_> {
    /// Adds the ports of a node. Returns whether more records are useful.
    fn node(&self, world: &World<'_>, at: NodeIx, answer: &mut Answer) -> bool {
        let Some(node) = world.subnet.node(at) else { return true };
        (0..=u8::MAX).zip(&node.ports).skip(usize::from(node.switch.is_none())).all(|(number, port)| {
            let known = pkeys::share(self.own, &port.pkeys) || self.requester == PortIx { node: at, port: number };
            match known.then(|| self.record(node, number, port)).flatten() {
                Some(record) => answer.push(&record),
                None => true,
            }
        })
    }

    /// The record of a port if it matches the request.
    fn record(&self, node: &Node, number: u8, port: &Port) -> Option<PortInfoRecord> {
        let end = if node.switch.is_some() { node.ports.first()? } else { port };
        let (lid, base) = (base_lid(end), &end.info);
        let lids = lid..=lid.saturating_add((1 << base.lmc.min(7)) - 1);
        if self.mask.contains(PortInfoRecord::LID) && !lids.contains(&self.asked.lid) {
            return None;
        }
        let record = PortInfoRecord { lid, port_num: number, options: 0, port_info: port.info };
        let fits = PortInfoRecord::fits(self.mask.without(APART), &self.asked.encode(), &record.encode());
        if !fits || !self.capabilities_fit(&port.info) {
            return None;
        }
        let options = if self.mask.contains(PortInfoRecord::OPTIONS) { self.asked.options } else { 0 };
        let plain = options & ENHANCED == 0;
        let extended = base.capability_mask.contains(CapabilityMask::EXTENDED_SPEEDS);
        let mut record = PortInfoRecord { options, ..record };
        if plain && extended && !port.info.link_speed_ext_active.is_empty() {
            // A requester that does not know extended speeds sees the fastest legacy speed.
            record.port_info.link_speed_active |= LinkSpeed::QDR;
            record.port_info.link_speed_enabled |= LinkSpeed::QDR;
            record.port_info.link_speed_supported |= LinkSpeed::QDR;
        }
        Some(record)
    }

    /// Whether the capabilities are equal, or, compared as a mask, include all requested ones.
    fn capabilities_fit(&self, info: &PortInfo) -> bool {
        let wanted = &self.asked.port_info;
        let enhanced =
            self.enhanced || self.mask.contains(PortInfoRecord::OPTIONS) && self.asked.options & ENHANCED != 0;
        let (first, second) = match enhanced {
            true => (
                info.capability_mask.contains(wanted.capability_mask),
                info.capability_mask2.contains(wanted.capability_mask2),
            ),
            false => (info.capability_mask == wanted.capability_mask, info.capability_mask2 == wanted.capability_mask2),
        };
        (first || !self.mask.contains(PortInfoRecord::CAPABILITY_MASK))
            && (second || !self.mask.contains(PortInfoRecord::CAPABILITY_MASK2))
    }
}
