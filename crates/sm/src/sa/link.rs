//! LinkRecord (IBA 15.2.5.13): every cable, once from each end.

use weft_wire::mad::sa::LinkRecord;

use super::Administrator;
use super::answer::{Answer, Outcome};
use super::facts::base_lid;
use super::pkeys;
use super::question::Question;
use super::world::World;
use crate::subnet::{NodeIx, PortIx};

/// LID of a port, or of its switch.
fn lid_of(world: &World<'_>, at: PortIx) -> Option<u16> {
    let node = world.subnet.node(at.node)?;
    let port = if node.switch.is_some() { 0 } else { at.port };
    Some(base_lid(node.ports.get(usize::from(port))?))
}

impl Administrator {
    /// Answers LinkRecord.
    pub(super) fn link_records(&mut self, world: &World<'_>, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let asked: LinkRecord = question.record()?;
        let mask = question.mask();
        let node = |lid: u16| self.index.at_lid(lid).map(|(_, entry)| *entry);
        let named = |component, lid: u16| mask.contains(component).then(|| node(lid));
        let (from, to) = (named(LinkRecord::FROM_LID, asked.from_lid), named(LinkRecord::TO_LID, asked.to_lid));
        if from == Some(None) || to == Some(None) {
            return Ok(());
        }
        let (from, to) = (from.flatten(), to.flatten());
        let requester = self.index.entry(question.requester).map(|entry| entry.at);
        let own = requester.and_then(|at| world.subnet.port(at)).map_or(&[][..], |port| &port.pkeys);
        let nodes: Vec<NodeIx> = match (from, to) {
            (Some(entry), _) => vec![entry.at.node],
            // Links to a node are the links from its neighbors.
            (None, Some(entry)) => self.neighbors(world, entry.at.node),
            (None, None) => self.index.nodes.clone(),
        };
        for at in nodes {
            for record in links(world, at, own) {
                let is = |component, same: bool| !mask.contains(component) || same;
                let end = |lid: u16| self.index.at_lid(lid).map(|(_, entry)| *entry);
                if from.is_none_or(|from| end(record.from_lid) == Some(from))
                    && to.is_none_or(|to| end(record.to_lid) == Some(to))
                    && is(LinkRecord::FROM_PORT, record.from_port_num == asked.from_port_num)
                    && is(LinkRecord::TO_PORT, record.to_port_num == asked.to_port_num)
                    && !answer.push(&record)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Nodes with a cable to a node, in response order.
    fn neighbors(&self, world: &World<'_>, at: NodeIx) -> Vec<NodeIx> {
        let ports = world.subnet.node(at).map_or(&[][..], |node| &node.ports);
        let there: std::collections::BTreeSet<NodeIx> =
            ports.iter().filter_map(|port| port.neighbor).map(|at| at.node).collect();
        self.index.nodes.iter().copied().filter(|node| there.contains(node)).collect()
    }
}

/// The cables of a node that a requester with these P_Keys may know of.
fn links<'a>(world: &World<'a>, at: NodeIx, own: &'a [u16]) -> impl Iterator<Item = LinkRecord> + 'a {
    let world = *world;
    let ports = world.subnet.node(at).map_or(&[][..], |node| &node.ports);
    (0..=u8::MAX).zip(ports).filter(|(number, _)| *number != 0).filter_map(move |(number, port)| {
        let far = port.neighbor?;
        let keys = &world.subnet.port(far)?.pkeys;
        let known = pkeys::share(&port.pkeys, keys) && pkeys::share(own, keys) && pkeys::share(own, &port.pkeys);
        let here = PortIx { node: at, port: number };
        known.then_some(LinkRecord {
            from_lid: lid_of(&world, here)?,
            from_port_num: number,
            to_port_num: far.port,
            to_lid: lid_of(&world, far)?,
        })
    })
}
