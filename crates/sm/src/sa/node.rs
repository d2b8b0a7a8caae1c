//! NodeRecord (IBA 15.2.5.2): one record for each end port of a node.

use weft_wire::mad::sa::{ComponentMask, NodeRecord, Record};

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::index::Entry;
use super::question::Question;
use super::world::World;
use crate::subnet::NodeIx;

/// Components compared separately, or without meaning.
const APART: ComponentMask = NodeRecord::LID.or(NodeRecord::RESERVED1).or(NodeRecord::NODE_DESCRIPTION);

impl Administrator {
    /// Answers NodeRecord.
    pub(super) fn node_records(&mut self, world: &World<'_>, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: NodeRecord = question.record()?;
        let mask = question.mask();
        for at in self.nodes_asked_for(world, &asked, mask) {
            let Some(node) = world.subnet.node(at) else { continue };
            for port in &node.ports {
                // Switch ports other than port 0 have no GUID.
                let Some((place, entry)) = self.index.at_guid(port.guid).filter(|(_, entry)| entry.at.node == at)
                else {
                    continue;
                };
                let entry = *entry;
                let mut info = node.info;
                (info.port_guid, info.local_port_num) = (entry.guid, entry.at.port);
                let record = NodeRecord { lid: entry.lid, node_info: info, node_description: node.description };
                if entry.guid == port.guid
                    && fits(&asked, mask, &record, &entry)
                    && self.index.share(question.requester, place)
                    && !answer.push(&record)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Candidate nodes, in response order.
    fn nodes_asked_for(&self, world: &World<'_>, asked: &NodeRecord, mask: ComponentMask) -> Vec<NodeIx> {
        let at = |entry: Option<(u32, &Entry)>| entry.map(|(_, entry)| entry.at.node).into_iter().collect();
        if mask.contains(NodeRecord::LID) {
            return at(self.index.at_lid(asked.lid));
        }
        if mask.contains(NodeRecord::PORT_GUID) {
            return at(self.index.at_guid(asked.node_info.port_guid));
        }
        if mask.contains(NodeRecord::NODE_GUID) {
            return world.subnet.by_guid.get(&asked.node_info.node_guid).copied().into_iter().collect();
        }
        self.index.nodes.clone()
    }
}

fn fits(asked: &NodeRecord, mask: ComponentMask, record: &NodeRecord, entry: &Entry) -> bool {
    let named = mask.contains(NodeRecord::NODE_DESCRIPTION);
    (!mask.contains(NodeRecord::LID) || entry.lids().contains(&asked.lid))
        && (!named || asked.node_description.as_bytes() == record.node_description.as_bytes())
        && NodeRecord::fits(mask.without(APART), &asked.encode(), &record.encode())
}
